"""What agents answer and stream, `kind` shape ↔ hub (spec 0.3.0, 7.1, 7.2): update events, and which of them it is.
Not the tasks and messages themselves.

Rules:
1. `final` follows from the state. Where a peer says otherwise, FINAL in the hub's metadata says what it said (see
   `dialects.marks`), because those who end streams have to know.
2. `kind` tells what a result is. Where it is missing, its members tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.structs import LEVELS, read_struct
from a2a_bridge.codec.values import describe
from a2a_bridge.codec.wire import VARINT
from a2a_bridge.dialects.marks import FINAL
from a2a_bridge.dialects.residue import KEY
from a2a_bridge.dialects.v0_3 import scalars
from a2a_bridge.dialects.v0_3.irregular import (
    Facts,
    Reader,
    Refused,
    Shape,
    decode_with,
    explained,
    marked,
    restored,
    text_with,
)
from a2a_bridge.dialects.v0_3.messages import (
    MESSAGE,
    encode_message,
    message_text,
)
from a2a_bridge.dialects.v0_3.scalars import FINAL_STATES, STATE_NAMES, struct
from a2a_bridge.dialects.v0_3.tasks import (
    ARTIFACT,
    STATUS_CHECKS,
    TASK,
    artifact_text,
    encode_artifact,
    encode_status,
    encode_task,
    impose_status,
    read_status,
    status_facts,
    status_inside,
    status_text,
    task_text,
)
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value

_FALSE, _TRUE = " \0", " \1"
"""The two bool Values on the wire."""

_decode_value = decoder(Value)
_encode_value = encoder(Value)


def write_status_update(tree: Any) -> str:
    """Wire text of a canonical status update. Raises Irregular for any other."""
    get = tree.get
    if get("kind") != "status-update":
        raise Irregular
    seen = 5  # residue
    out = _ids(get("taskId"), get("contextId"))
    status = get("status")
    body = status_text(status)
    out += f"\x1a{VARINT[len(body)]}{body}"
    value = get("metadata")
    if value is not None:
        seen += 1  # residue
        if KEY in value or FINAL in value:
            raise Irregular
        body = struct(value, LEVELS)
        out += f'"{VARINT[len(body)]}{body}'
    final = get("final")
    if final is not (status["state"] in FINAL_STATES):
        if type(final) is not bool or value == {}:
            raise Irregular
        out += scalars.metadata_entry('"', FINAL, _TRUE if final else _FALSE)
    if seen != len(tree):  # residue
        raise Irregular  # residue
    return out


def encode_status_update(event: Any) -> JsonObject:
    """A status update as a 0.x peer gets it. Raises ValueError for what JSON cannot say."""
    if not event.HasField("status") or event.status.state not in STATE_NAMES:
        return marked(STATUS_UPDATE, event)
    status = encode_status(event.status)
    final = status["state"] in FINAL_STATES
    tree: JsonObject = {
        "kind": "status-update",
        "taskId": event.task_id,
        "contextId": event.context_id,
        "status": status,
        "final": final,
    }
    if event.HasField("metadata"):
        metadata = read_struct(event.metadata)
        if FINAL in metadata:
            if metadata[FINAL] is not (not final):
                return marked(STATUS_UPDATE, event)  # not as we note it
            tree["final"] = not final
            del metadata[FINAL]
            if not metadata:
                return tree
        tree["metadata"] = metadata
        if KEY in metadata:  # residue
            return restored(STATUS_UPDATE, tree)  # residue
    return tree


def write_artifact_update(tree: Any) -> str:
    """Wire text of a canonical artifact update. Raises Irregular for any other."""
    get = tree.get
    if get("kind") != "artifact-update":
        raise Irregular
    seen = 4  # residue
    out = _ids(get("taskId"), get("contextId"))
    body = artifact_text(get("artifact"))
    out += f"\x1a{VARINT[len(body)]}{body}"
    value = get("append")
    if value:
        seen += 1  # residue
        if value is not True:
            raise Irregular
        out += " \1"
    value = get("lastChunk")
    if value:
        seen += 1  # residue
        if value is not True:
            raise Irregular
        out += "(\1"
    value = get("metadata")
    if value is not None:
        seen += 1  # residue
        if KEY in value:  # residue
            raise Irregular  # residue
        body = struct(value, LEVELS)
        out += f"2{VARINT[len(body)]}{body}"
    if seen != len(tree):  # residue
        raise Irregular  # residue
    return out


def encode_artifact_update(event: Any) -> JsonObject:
    """An artifact update as a 0.x peer gets it. Raises ValueError for what JSON cannot say."""
    if not event.HasField("artifact"):
        return marked(ARTIFACT_UPDATE, event)
    tree: JsonObject = {
        "kind": "artifact-update",
        "taskId": event.task_id,
        "contextId": event.context_id,
        "artifact": encode_artifact(event.artifact),
    }
    if event.append:
        tree["append"] = True
    if event.last_chunk:
        tree["lastChunk"] = True
    if event.HasField("metadata"):
        metadata = read_struct(event.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:  # residue
            return restored(ARTIFACT_UPDATE, tree)  # residue
    return tree


def _ids(task: Any, context: Any) -> str:
    if type(task) is not str or type(context) is not str:
        raise Irregular
    if not task.isascii():
        task = task.encode().decode("latin-1")
    if not context.isascii():
        context = context.encode().decode("latin-1")
    return f"\n{VARINT[len(task)]}{task}\x12{VARINT[len(context)]}{context}"


def _read_update(reader: Reader, kind: str) -> None:
    reader.kind(kind)
    reader.string("taskId", required=True)
    reader.string("contextId", required=True)


def _read_status_update(reader: Reader) -> None:
    _read_update(reader, "status-update")
    read_status(reader)
    reader.metadata(FINAL)
    final = reader.given.get("final")
    if type(final) is not bool:
        if final is not None:
            reader.expected("final", "true or false")
        final = reader.tree["status"]["state"] in FINAL_STATES
    reader.tree["final"] = final


def _read_artifact_update(reader: Reader) -> None:
    _read_update(reader, "artifact-update")
    if reader.given.get("artifact") is None:
        reader.wrong("artifact", "is required")
    reader.unit("artifact")
    reader.flag("append")
    reader.flag("lastChunk")
    reader.metadata()


def _artifact_inside(tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    if "artifact" in tree:
        yield "artifact", ARTIFACT, tree["artifact"]


_NO_ARTIFACT = {"artifactId": "", "parts": []}


def _is_no_artifact(tree: JsonObject, value: Any) -> bool:
    return value is True and tree.get("artifact") == _NO_ARTIFACT


def _impose_no_artifact(event: Any, facts: Facts) -> None:
    if "noArtifact" in facts:
        event.ClearField("artifact")


def _artifact_facts(event: Any) -> Facts:
    if event.HasField("artifact"):
        return {}
    event.artifact.SetInParent()
    return {"noArtifact": True}


def _is_said(tree: JsonObject, value: Any) -> bool:
    """Whether FINAL can hold this without being our note of what a peer said."""
    derived = tree["status"].get("state") in FINAL_STATES
    return tree["final"] is derived and value is not (not derived)


def _impose_status_update(event: Any, facts: Facts) -> None:
    impose_status(event, facts)
    if "said" in facts:
        event.metadata.fields[FINAL].CopyFrom(_decode_value(facts["said"]))


def _status_update_facts(event: Any) -> Facts:
    facts = status_facts(event)
    if event.HasField("metadata") and FINAL in event.metadata.fields:
        said: Json = _encode_value(event.metadata.fields[FINAL])
        derived = STATE_NAMES[event.status.state] in FINAL_STATES
        if said is not (not derived):
            facts["said"] = said
            del event.metadata.fields[FINAL]
    return facts


STATUS_UPDATE = Shape(
    hub.TaskStatusUpdateEvent,
    '"',
    _read_status_update,
    write_status_update,
    encode_status_update,
    status_inside,
    checks={**STATUS_CHECKS, "said": _is_said},
    impose=_impose_status_update,
    facts_of=_status_update_facts,
)
ARTIFACT_UPDATE = Shape(
    hub.TaskArtifactUpdateEvent,
    "2",
    _read_artifact_update,
    write_artifact_update,
    encode_artifact_update,
    _artifact_inside,
    checks={"noArtifact": _is_no_artifact},
    impose=_impose_no_artifact,
    facts_of=_artifact_facts,
)

status_update_text = text_with(STATUS_UPDATE)
artifact_update_text = text_with(ARTIFACT_UPDATE)
decode_status_update = decode_with(STATUS_UPDATE, status_update_text)
decode_artifact_update = decode_with(ARTIFACT_UPDATE, artifact_update_text)

Branch = tuple[Shape, Callable[[Any], str], str]
"""Shape, writer and tag of one member of the oneof `payload`."""

_RESULTS: dict[str, Branch] = {"task": (TASK, task_text, "\n"), "message": (MESSAGE, message_text, "\x12")}
_EVENTS: dict[str, Branch] = {
    **_RESULTS,
    "status-update": (STATUS_UPDATE, status_update_text, "\x1a"),
    "artifact-update": (ARTIFACT_UPDATE, artifact_update_text, '"'),
}


def kind_of(tree: JsonObject) -> str | None:
    """What a tree is, by its `kind`, or by its members where it has none; None when they do not tell."""
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


def _payload_decoder(
    branches: dict[str, Branch], from_string: Callable[[bytes], Any]
) -> Callable[[Any], Any]:
    def decode(tree: Json) -> Any:
        if type(tree) is not dict:
            raise DecodeError("", f"expected an object, got {describe(tree)}")
        branch = branches.get(kind_of(tree) or "")
        if branch is None:
            raise DecodeError("kind", f"is none of {', '.join(branches)}")
        shape, text, tag = branch
        try:
            body = text(tree)
            return from_string(f"{tag}{VARINT[len(body)]}{body}".encode("latin-1"))
        except (Refused, ValueError, RecursionError):
            pass
        raise explained(shape, tree)

    return decode


decode_result = _payload_decoder(_RESULTS, hub.SendMessageResponse.FromString)
decode_event = _payload_decoder(_EVENTS, hub.StreamResponse.FromString)


def encode_result(response: Any) -> JsonObject:
    """The answer to a message. Raises ValueError for what JSON cannot say, and for no answer at all."""
    which = response.WhichOneof("payload")
    if which == "task":
        return encode_task(response.task)
    if which == "message":
        return encode_message(response.message)
    raise ValueError("holds none of its members")


def encode_event(event: Any) -> JsonObject:
    """One event of a stream. Raises ValueError for what JSON cannot say, and for no event at all."""
    which = event.WhichOneof("payload")
    if which == "status_update":
        return encode_status_update(event.status_update)
    if which == "artifact_update":
        return encode_artifact_update(event.artifact_update)
    return encode_result(event)
