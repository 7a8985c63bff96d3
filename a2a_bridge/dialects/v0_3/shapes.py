"""Messages, artifacts, tasks and events as tables, `kind` shape ↔ hub (spec 0.3.0, 6.1 to 6.7 and 7.2). Not
their parts.

1. `final` follows from the state. If a peer sends another value, FINAL in the hub's metadata holds it (see
   `dialects.annotation`), because the code that ends streams needs it.
2. `kind` is the type of a result. If it is missing, the members decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.values import VARINT, describe
from a2a_bridge.dialects import annotation
from a2a_bridge.dialects.boundary import Conversion
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.reader import Names, Rejected, Shape, explain
from a2a_bridge.dialects.shape import inline, unit
from a2a_bridge.dialects.v0_3.parts import PART
from a2a_bridge.pb import lf_a2a_v1 as hub

#: spec 0.3.0, 6.3; `unknown` is UNSPECIFIED in 1.0
STATES = {
    "submitted": 1,
    "working": 2,
    "completed": 3,
    "failed": 4,
    "canceled": 5,
    "input-required": 6,
    "rejected": 7,
    "auth-required": 8,
    "unknown": 0,
}
#: the variant of one of them in the protobuf file of 0.3
STATE_ALIASES = {"cancelled": "canceled"}
ROLES = {"user": 1, "agent": 2}
FINAL_STATES = frozenset(name for name, number in STATES.items() if number in annotation.FINAL_STATES)


def _message(default_role: str) -> Shape:
    return unit(
        hub.Message,
        Member("messageId", always=True),
        Member("role", always=True, required=True, names=Names(ROLES, default_role)),
        Member("parts", PART, always=True, required=True),
        Member("contextId"),
        Member("taskId"),
        Member("metadata"),
        Member("extensions"),
        Member("referenceTaskIds"),
        kind="message",
    )


MESSAGE = _message("agent")
#: a message in a request: without a role, the role is user
CALLERS_MESSAGE = _message("user")

ARTIFACT = unit(
    hub.Artifact,
    Member("artifactId", always=True),
    Member("parts", PART, always=True, required=True),
    Member("name"),
    Member("description"),
    Member("metadata"),
    Member("extensions"),
)

STATUS = inline(
    hub.TaskStatus,
    Member("state", always=True, names=Names(STATES, "unknown", STATE_ALIASES)),
    Member("message", MESSAGE),
    Member("timestamp"),
)

TASK = unit(
    hub.Task,
    Member("id", always=True),
    Member("contextId", always=True),
    Member("status", STATUS, always=True),
    Member("artifacts", ARTIFACT),
    Member("history", MESSAGE),
    Member("metadata"),
    Member("generation", later=True),
    kind="task",
)


def status_update(final_states: frozenset[str]) -> Shape:
    """The shape of status updates of a version. final_states: the states that end a stream."""

    def is_final(status: JsonObject) -> bool:
        return status["state"] in final_states

    return unit(
        hub.TaskStatusUpdateEvent,
        Member("taskId", always=True),
        Member("contextId", always=True),
        Member("status", STATUS, always=True),
        Member("metadata"),
        Member("generation", later=True),
        Member("final", follows=("status", is_final), noted=annotation.FINAL),
        kind="status-update",
    )


STATUS_UPDATE = status_update(FINAL_STATES)

ARTIFACT_UPDATE = unit(
    hub.TaskArtifactUpdateEvent,
    Member("taskId", always=True),
    Member("contextId", always=True),
    Member("artifact", ARTIFACT, always=True, required=True),
    Member("append"),
    Member("lastChunk"),
    Member("metadata"),
    Member("generation", later=True),
    kind="artifact-update",
)


def kind_of(tree: JsonObject) -> str | None:
    """The kind of a tree, by its `kind`, else by its members; None if undetermined."""
    kind = tree.get("kind")
    if kind is not None:
        return kind if isinstance(kind, str) else None
    if "parts" in tree or "messageId" in tree:
        return "message"
    if "artifact" in tree:
        return "artifact-update"
    if "status" in tree:
        return "status-update" if "taskId" in tree else "task"
    return None


def _payload(cls: type[Message], branches: Mapping[str, tuple[Shape, str]]) -> Conversion:
    """The conversion of a oneof `payload`, whose members are distinguished by kind.

    It raises DecodeError, and ValueError for content that JSON cannot express and for an empty oneof.

    branches: the shapes by kind, and the tags of their members of the oneof.
    """
    encoders = {kind.replace("-", "_"): shape.encode for kind, (shape, _) in branches.items()}

    def encode(message: Any) -> JsonObject:
        which = message.WhichOneof("payload")
        if which not in encoders:
            raise ValueError("holds none of its members")
        return encoders[which](getattr(message, which))

    def decode(tree: Json) -> Any:
        if type(tree) is not dict:
            raise DecodeError("", f"expected an object, got {describe(tree)}")
        branch = branches.get(kind_of(tree) or "")
        if branch is None:
            raise DecodeError("kind", f"is none of {', '.join(branches)}")
        shape, tag = branch
        try:
            body = shape.text(tree)
            return cls.FromString(f"{tag}{VARINT[len(body)]}{body}".encode("latin-1"))
        except (Rejected, ValueError, RecursionError):
            pass
        raise explain(shape, tree)

    return Conversion(encode, decode)


_RESULTS = {"task": (TASK, "\n"), "message": (MESSAGE, "\x12")}
#: the response to a message
RESULT = _payload(hub.SendMessageResponse, _RESULTS)


def events(update: Shape) -> Conversion:
    """The events of a stream. update: the status updates of the version."""
    updates = {"status-update": (update, "\x1a"), "artifact-update": (ARTIFACT_UPDATE, '"')}
    return _payload(hub.StreamResponse, {**_RESULTS, **updates})


EVENT = events(STATUS_UPDATE)
