"""Messages of a2a.v1 ↔ hub, protobuf to protobuf: parts, messages, artifacts, tasks, events. Not what bytes or JSON
hold beyond that: see proto_residue, which carries it.

Rules:
1. `decode_x(wire, into, notes)` and `encode_x(message, into, notes)` fill a new message. They never fail: what the
   other side has no place for is left out, and `notes.odd` says that something was.
2. Struct and Timestamp are the same classes on both sides and are copied whole.
3. A status without a message stays without one, and its timestamp is kept.
4. `final` follows from the state. Where it does not, the hub's event has a note of it (see marks).
5. Metadata never takes a residue from one side to the other.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec.meter import spend_on
from a2a_bridge.dialects import marks
from a2a_bridge.dialects.residue import KEY
from a2a_bridge.dialects.v0_3.proto_files import decode_octets, encode_octets, usual
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import NULL_VALUE
from a2a_bridge.peers import Files

#: states whose events are the last of a stream in 0.3
FINAL_STATES = frozenset(
    {
        hub.TASK_STATE_COMPLETED,
        hub.TASK_STATE_FAILED,
        hub.TASK_STATE_CANCELED,
        hub.TASK_STATE_REJECTED,
        hub.TASK_STATE_INPUT_REQUIRED,
    }
)


class Notes:
    """What was noticed on the way. files: what the peer puts into bytes. odd: something has no place over there."""

    __slots__ = ("files", "odd")

    def __init__(self, files: Files = Files.AUTO) -> None:
        self.files = files
        self.odd = False


def copy_metadata(source: Any, into: Any, notes: Notes) -> None:
    """Metadata without a residue; the presence of an empty one is kept."""
    if not source.HasField("metadata"):
        return
    into.metadata.CopyFrom(source.metadata)
    fields = into.metadata.fields
    if KEY in fields:
        notes.odd = True
        _drop(fields, KEY, into)


def _drop(fields: Any, key: str, owner: Any) -> None:
    del fields[key]
    if not fields:
        owner.ClearField("metadata")


# --- parts -----------------------------------------------------------------------------------------------------


def decode_part(wire: v0.Part, into: hub.Part, notes: Notes) -> None:
    """A text, a file, or a JSON object."""
    which = wire.WhichOneof("part")
    if which == "text":
        into.text = wire.text
    elif which == "file":
        _decode_file(wire.file, into, notes)
    elif which == "data":
        into.data.struct_value.CopyFrom(wire.data.data)
        if not wire.data.HasField("data"):
            notes.odd = True
    copy_metadata(wire, into, notes)


def _decode_file(wire: v0.FilePart, into: hub.Part, notes: Notes) -> None:
    if wire.mime_type:
        into.media_type = wire.mime_type
    if wire.name:
        into.filename = wire.name
    which = wire.WhichOneof("file")
    if which == "file_with_bytes":
        into.raw, written = decode_octets(wire.file_with_bytes, wire.mime_type, notes.files)
        if written is not usual(notes.files) and wire.file_with_bytes:
            notes.odd = True
    else:
        # A file that is neither here nor elsewhere still is a file.
        into.url = wire.file_with_uri
        if which is None:
            notes.odd = True


def encode_part(message: hub.Part, into: v0.Part, notes: Notes) -> None:
    """What is neither text, file nor object goes as an object whose member `value` holds it."""
    which = message.WhichOneof("content")
    if which in ("raw", "url"):
        if which == "raw":
            into.file.file_with_bytes = encode_octets(message.raw, notes.files)
            if notes.files is Files.AUTO and message.raw:
                # Content that reads like base64 has to be told from it.
                _, read_as = decode_octets(message.raw, message.media_type, Files.AUTO)
                notes.odd = notes.odd or read_as is not Files.RAW
        else:
            into.file.file_with_uri = message.url
        into.file.mime_type = message.media_type
        into.file.name = message.filename
    else:
        if which == "text":
            into.text = message.text
        elif which == "data":
            _encode_data(message, into, notes)
        if message.media_type or message.filename:
            notes.odd = True
    if message.metadata.fields:
        # An empty one means the same as none, and Java 0.3 reads HTTP+JSON by a schema without this member.
        copy_metadata(message, into, notes)


def _encode_data(message: hub.Part, into: v0.Part, notes: Notes) -> None:
    if message.data.WhichOneof("kind") == "struct_value":
        into.data.data.CopyFrom(message.data.struct_value)
        return
    notes.odd = True
    value = into.data.data.fields["value"]
    if message.data.WhichOneof("kind") is None:
        value.null_value = NULL_VALUE
    else:
        value.CopyFrom(message.data)


# --- messages and artifacts ------------------------------------------------------------------------------------


def decode_message(wire: v0.Message, into: hub.Message, notes: Notes) -> None:
    """One turn of a conversation."""
    into.message_id = wire.message_id
    into.context_id = wire.context_id
    into.task_id = wire.task_id
    into.role = wire.role  # type: ignore[assignment]  # the numbers are the same
    for part in wire.content:
        decode_part(part, into.parts.add(), notes)
    copy_metadata(wire, into, notes)
    into.extensions.extend(wire.extensions)


def encode_message(message: hub.Message, into: v0.Message, notes: Notes) -> None:
    """One turn of a conversation; a2a.v1 has no place for the tasks it refers to."""
    into.message_id = message.message_id
    into.context_id = message.context_id
    into.task_id = message.task_id
    into.role = message.role  # type: ignore[assignment]  # the numbers are the same
    for part in spend_on(message.parts):
        encode_part(part, into.content.add(), notes)
    copy_metadata(message, into, notes)
    into.extensions.extend(message.extensions)
    if message.reference_task_ids:
        notes.odd = True


def decode_artifact(wire: v0.Artifact, into: hub.Artifact, notes: Notes) -> None:
    """Something a task produced."""
    into.artifact_id = wire.artifact_id
    into.name = wire.name
    into.description = wire.description
    for part in wire.parts:
        decode_part(part, into.parts.add(), notes)
    copy_metadata(wire, into, notes)
    into.extensions.extend(wire.extensions)


def encode_artifact(message: hub.Artifact, into: v0.Artifact, notes: Notes) -> None:
    """Something a task produced."""
    into.artifact_id = message.artifact_id
    into.name = message.name
    into.description = message.description
    for part in spend_on(message.parts):
        encode_part(part, into.parts.add(), notes)
    copy_metadata(message, into, notes)
    into.extensions.extend(message.extensions)


# --- tasks and events ------------------------------------------------------------------------------------------


def decode_status(wire: v0.TaskStatus, into: hub.TaskStatus, notes: Notes) -> None:
    """Where a task stands."""
    into.SetInParent()
    into.state = wire.state  # type: ignore[assignment]  # the numbers are the same
    if wire.HasField("update"):
        into.message.SetInParent()
        decode_message(wire.update, into.message, notes)
    if wire.HasField("timestamp"):
        into.timestamp.CopyFrom(wire.timestamp)


def encode_status(message: hub.TaskStatus, into: v0.TaskStatus, notes: Notes) -> None:
    """Where a task stands."""
    into.SetInParent()
    into.state = message.state  # type: ignore[assignment]  # the numbers are the same
    if message.HasField("message"):
        into.update.SetInParent()
        encode_message(message.message, into.update, notes)
    if message.HasField("timestamp"):
        into.timestamp.CopyFrom(message.timestamp)


def decode_task(wire: v0.Task, into: hub.Task, notes: Notes) -> None:
    """A task, with its artifacts and history."""
    into.id = wire.id
    into.context_id = wire.context_id
    if wire.HasField("status"):
        decode_status(wire.status, into.status, notes)
    for artifact in wire.artifacts:
        decode_artifact(artifact, into.artifacts.add(), notes)
    for message in wire.history:
        decode_message(message, into.history.add(), notes)
    copy_metadata(wire, into, notes)


def encode_task(message: hub.Task, into: v0.Task, notes: Notes) -> None:
    """A task, with its artifacts and history."""
    into.id = message.id
    into.context_id = message.context_id
    if message.HasField("status"):
        encode_status(message.status, into.status, notes)
    for artifact in spend_on(message.artifacts):
        encode_artifact(artifact, into.artifacts.add(), notes)
    for one in spend_on(message.history):
        encode_message(one, into.history.add(), notes)
    copy_metadata(message, into, notes)


def decode_status_update(
    wire: v0.TaskStatusUpdateEvent, into: hub.TaskStatusUpdateEvent, notes: Notes
) -> None:
    """A change of state, with a note where `final` is not what the state says."""
    into.task_id = wire.task_id
    into.context_id = wire.context_id
    if wire.HasField("status"):
        decode_status(wire.status, into.status, notes)
    copy_metadata(wire, into, notes)
    if into.HasField("metadata") and marks.FINAL in into.metadata.fields:
        # A note that came from outside is not ours.
        notes.odd = True
        _drop(into.metadata.fields, marks.FINAL, into)
    if wire.final != (into.status.state in FINAL_STATES):
        # An empty metadata would vanish together with the note.
        notes.odd = notes.odd or (into.HasField("metadata") and not into.metadata.fields)
        marks.say_final(into, wire.final)


def encode_status_update(
    message: hub.TaskStatusUpdateEvent, into: v0.TaskStatusUpdateEvent, notes: Notes
) -> None:
    """A change of state; `final` as noted, or else as the state says."""
    into.task_id = message.task_id
    into.context_id = message.context_id
    if message.HasField("status"):
        encode_status(message.status, into.status, notes)
    derived = message.status.state in FINAL_STATES
    said = marks.final_said(message)
    into.final = derived if said is None else said
    copy_metadata(message, into, notes)
    if into.HasField("metadata") and marks.FINAL in into.metadata.fields:
        _drop(into.metadata.fields, marks.FINAL, into)
        if said is None or said == derived:
            notes.odd = True


def decode_artifact_update(
    wire: v0.TaskArtifactUpdateEvent, into: hub.TaskArtifactUpdateEvent, notes: Notes
) -> None:
    """An artifact, or a further piece of one."""
    into.task_id = wire.task_id
    into.context_id = wire.context_id
    if wire.HasField("artifact"):
        into.artifact.SetInParent()
        decode_artifact(wire.artifact, into.artifact, notes)
    into.append = wire.append
    into.last_chunk = wire.last_chunk
    copy_metadata(wire, into, notes)


def encode_artifact_update(
    message: hub.TaskArtifactUpdateEvent, into: v0.TaskArtifactUpdateEvent, notes: Notes
) -> None:
    """An artifact, or a further piece of one."""
    into.task_id = message.task_id
    into.context_id = message.context_id
    if message.HasField("artifact"):
        into.artifact.SetInParent()
        encode_artifact(message.artifact, into.artifact, notes)
    into.append = message.append
    into.last_chunk = message.last_chunk
    copy_metadata(message, into, notes)


# --- what operations answer ------------------------------------------------------------------------------------


def decode_response(wire: Any, into: Any, notes: Notes) -> None:
    """SendMessageResponse or StreamResponse; without a payload, when there is none."""
    which = wire.WhichOneof("payload")
    if which == "task":
        into.task.SetInParent()
        decode_task(wire.task, into.task, notes)
    elif which == "msg":
        into.message.SetInParent()
        decode_message(wire.msg, into.message, notes)
    elif which == "status_update":
        into.status_update.SetInParent()
        decode_status_update(wire.status_update, into.status_update, notes)
    elif which == "artifact_update":
        into.artifact_update.SetInParent()
        decode_artifact_update(wire.artifact_update, into.artifact_update, notes)


def encode_response(message: Any, into: Any, notes: Notes) -> None:
    """SendMessageResponse or StreamResponse."""
    which = message.WhichOneof("payload")
    if which == "task":
        into.task.SetInParent()
        encode_task(message.task, into.task, notes)
    elif which == "message":
        into.msg.SetInParent()
        encode_message(message.message, into.msg, notes)
    elif which == "status_update":
        into.status_update.SetInParent()
        encode_status_update(message.status_update, into.status_update, notes)
    elif which == "artifact_update":
        into.artifact_update.SetInParent()
        encode_artifact_update(message.artifact_update, into.artifact_update, notes)
