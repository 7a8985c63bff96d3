"""Messages, artifacts, their parts, tasks and events, `kind` shape ↔ hub (spec 0.3.0, 6.1 to 6.7 and 7.2).
Objects are tables. The fast functions for parts accept the output of `encode_part`, and count members to
detect others; `reader` reads all other input.

1. `final` follows from the state. If a peer sends another value, FINAL in the hub's metadata holds it (see
   `dialects.annotation`), because the code that ends streams needs it.
2. `kind` is the type of a result. If it is missing, the members decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.structs import LEVELS, read_struct, read_value
from a2a_bridge.codec.text import Irregular
from a2a_bridge.codec.values import VARINT, base64_text, base64_wire, describe
from a2a_bridge.dialects import annotation
from a2a_bridge.dialects.boundary import Conversion, UnknownKindError
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.reader import (
    WRAPPED,
    Fact,
    Names,
    Reader,
    Rejected,
    Shape,
    explain,
    mark_tree,
    restore_tree,
)
from a2a_bridge.dialects.scalars import struct
from a2a_bridge.dialects.shape import inline, unit
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub

_KINDS = ("text", "file", "data")


def write_part(tree: Any) -> str:
    """Wire text of a canonical part. Raises Irregular for any other."""
    get = tree.get
    kind = get("kind")
    if kind == "text":
        value = get("text")
        if type(value) is not str:
            raise Irregular
        if not value.isascii():
            value = value.encode().decode("latin-1")
        out = f"\n{VARINT[len(value)]}{value}"
    elif kind == "data":
        value = get("data")
        body = struct(value, LEVELS)
        body = f"*{VARINT[len(body)]}{body}"
        out = f'"{VARINT[len(body)]}{body}'
    elif kind == "file":
        out = _file(get("file"))
    else:
        raise Irregular
    rest = len(tree) - 2
    if not rest:
        return out
    value = get("metadata")
    if value is not None:
        rest -= 1
        if KEY in value:
            raise Irregular
        body = struct(value, LEVELS)
        out += f"*{VARINT[len(body)]}{body}"
    if rest and kind != "file":
        value = get("filename")
        if value is not None:
            rest -= 1
            out += _name("2", value)
        value = get("mediaType")
        if value is not None:
            rest -= 1
            out += _name(":", value)
    if rest:
        raise Irregular
    return out


def _file(file: Any) -> str:
    """Wire text of a canonical file."""
    if type(file) is not dict:
        raise Irregular
    if "bytes" in file:
        raw_bytes = base64_wire(file["bytes"])
        out = f"\x12{VARINT[len(raw_bytes)]}{raw_bytes}"
    else:
        url = file.get("uri")
        if type(url) is not str:
            raise Irregular
        if not url.isascii():
            url = url.encode().decode("latin-1")
        out = f"\x1a{VARINT[len(url)]}{url}"
    rest = len(file) - 1
    if rest:
        value = file.get("name")
        if value is not None:
            rest -= 1
            out += _name("2", value)
        value = file.get("mimeType")
        if value is not None:
            rest -= 1
            out += _name(":", value)
        if rest:
            raise Irregular
    return out


def _name(tag: str, value: Any) -> str:
    """A file name or a media type. Neither is empty in a canonical tree."""
    if type(value) is not str or not value:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    return f"{tag}{VARINT[len(value)]}{value}"


def encode_part(part: Any) -> JsonObject:
    """A part as sent to a 0.x peer. Raises ValueError for content that JSON cannot express."""
    tree: JsonObject
    name, media_type = "filename", "mediaType"
    text = part.text
    which = "text" if text else part.WhichOneof("content")
    if which == "text":
        place = tree = {"kind": "text", "text": text}
    elif which == "data":
        value = part.data
        if value.WhichOneof("kind") != "struct_value":
            return mark_tree(PART, part)
        place = tree = {"kind": "data", "data": read_struct(value.struct_value)}
    elif which is None:
        return mark_tree(PART, part)
    else:
        place = {"bytes": base64_text(part.raw)} if which == "raw" else {"uri": part.url}
        tree = {"kind": "file", "file": place}
        name, media_type = "name", "mimeType"
    value = part.filename
    if value:
        place[name] = value
    value = part.media_type
    if value:
        place[media_type] = value
    if part.HasField("metadata"):
        metadata = read_struct(part.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:
            return restore_tree(PART, tree)
    return tree


def _read(reader: Reader) -> None:
    source = reader.source
    kind = source.get("kind")
    if kind is None:
        kind = source.get("type")  # the tag of parts before 0.2, and in examples of 0.2
    if kind is None:
        # Without a tag the members decide (a part in a stream from peers that omit defaults).
        kind = next((name for name in _KINDS if name in source), None)
    if kind not in _KINDS:
        reader.wrong("kind", "is none of text, file, data")
        return
    reader.tree["kind"] = kind
    if kind == "file":
        _read_file(reader)
    elif kind == "text":
        reader.require("text")
        reader.string("text", always=True)
    else:
        _read_data(reader)
    reader.metadata()
    if kind != "file":
        reader.later("filename")
        reader.later("mediaType")
    if "wrapped" in reader.facts:
        reader.facts["wrapped"] = WRAPPED not in reader.tree.get("metadata", {})


def _read_data(reader: Reader) -> None:
    if "data" not in reader.source:
        reader.wrong("data", "is required")
        return
    data: Json = reader.source["data"]
    found = reader.free(data, f"{reader.path}.data" if reader.path else "data")
    if type(data) is not dict:
        # The prose of 0.2.5 mentions arrays; the hub accepts any value.
        found = {"value": found}
        reader.facts["wrapped"] = True
    reader.tree["data"] = found if type(found) is dict else {}


def _read_file(reader: Reader) -> None:
    source = reader.object("file")
    if source is None:
        reader.require("file")
        return
    file = reader.inner("file", source)
    text = source.get("bytes")
    if text is None and source.get("uri") is None and type(source.get("data")) is str:
        text = source["data"]  # its name in examples of 0.2
        reader.dropped.add("/file/data")
    if text is not None:
        if type(text) is not str:
            file.report_type("bytes", "a base64 string")
        else:
            file.tree["bytes"] = text
            try:
                base64_wire(text)
            except ValueError as error:
                file.wrong("bytes", str(error))
        if source.get("uri"):
            # A file has one or the other. Middleware must see the same content as the agent.
            reader.dropped.add("/file/uri")
    else:
        file.string("uri", always=True)
    file.string("name")
    file.string("mimeType")
    found = reader.within(file)
    reader.tree["file"] = (
        source if found.keys() == source.keys() and all(found[key] is source[key] for key in found) else found
    )


def _is_wrapped(tree: JsonObject, flagged: Any) -> bool:
    data = tree.get("data")
    if tree["kind"] != "data" or type(data) is not dict or data.keys() != {"value"}:
        return False
    metadata = tree.get("metadata", {})
    if flagged is True:
        return type(data["value"]) is not dict and metadata.get(WRAPPED) is True
    return type(data["value"]) is not dict and flagged is False and WRAPPED in metadata


def _show_wrapped(tree: JsonObject, flagged: Any) -> None:
    if flagged is True:
        tree["metadata"][WRAPPED] = True


def _put_wrapped(part: Any, _: Any) -> None:
    value = type(part.data)()
    value.CopyFrom(part.data.struct_value.fields["value"])
    part.data.CopyFrom(value)


def _take_wrapped(part: Any) -> Json:
    if part.WhichOneof("content") != "data" or part.data.WhichOneof("kind") == "struct_value":
        return None
    value = type(part.data)()
    if read_value(part.data) is None:
        value.null_value = 0
    else:
        value.CopyFrom(part.data)
    part.data.Clear()
    part.data.struct_value.fields["value"].CopyFrom(value)
    return WRAPPED not in part.metadata.fields


def _take_empty(part: Any) -> Json:
    if part.WhichOneof("content") is not None:
        return None
    part.text = ""
    return True


PART = Shape(
    hub.Part,
    "*",
    _read,
    write_part,
    encode_part,
    facts={
        #: a value that is no object, which 0.3 wraps into one; true if the bridge adds the flag of the SDK
        "wrapped": Fact(_take_wrapped, _put_wrapped, _is_wrapped, _show_wrapped),
        #: no content at all
        "empty": Fact(
            _take_empty,
            lambda part, _: part.ClearField("text"),
            lambda tree, value: value is True and tree["kind"] == "text" and not tree["text"],
        ),
    },
)


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
    """The conversion of a oneof `payload`. branches: the shapes by kind, and the tags of their members of the
    oneof. It raises DecodeError, and ValueError for an empty oneof and for content that JSON cannot express.
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
        kind = kind_of(tree)
        branch = branches.get(kind or "")
        if branch is None:
            raise UnknownKindError("kind", f"is none of {', '.join(branches)}")
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
