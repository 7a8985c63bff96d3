"""Messages of a2a.v1 ↔ hub as pairs: only their differences. Also their bytes and ProtoJSON, with unmapped
content.

Rules:
1. `final` follows from the state. Where it does not, the hub's event has an annotation (see `annotation`).
2. Waiting: `blocking` is the inverse of `return_immediately`. An absent configuration means to wait; this is
   written explicitly, because servers in the field read its absence as "do not wait".
3. history_length 0 means absent, and never "no history".
4. Of several authentication schemes the hub stores one: Bearer or Basic if offered, else the first. Without
   any scheme there is no authentication, since the hub requires a scheme.
5. Empty metadata of a part is not written: Java 0.3 reads HTTP+JSON by a schema without this member.
6. Some readers of ProtoJSON reject members added after v0.3.0: metadata of parts, names of files. For them
   these members move into the metadata of the message or artifact that holds the part, by the index of the
   part.
"""

from typing import Any

from a2a_bridge.codec import JsonObject, encoder, whole_decoder
from a2a_bridge.codec.free_json import fill_nulls, may_be_deep
from a2a_bridge.dialects import annotation
from a2a_bridge.dialects.boundary import check_depth
from a2a_bridge.dialects.pair import Context, Pair, compile_pair, set_field
from a2a_bridge.dialects.unmapped import PROTO, carry
from a2a_bridge.dialects.unmapped_fields import (
    add,
    collect_members,
    collect_unknown,
    entries_of,
    has_unknown,
    restore_members,
    restore_unknown,
)
from a2a_bridge.dialects.v0_3.proto_files import decode_content, encode_content, usual
from a2a_bridge.dialects.v0_3.push import usable_scheme
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import NULL_VALUE
from a2a_bridge.peers import Files

_WRITTEN = "/file/urn:a2a-bridge:written"
"""The encoding of file bytes, if it differs from the usual one of the peer: a value of Files."""
_SCHEMES = "/configuration/pushNotification/authentication/schemes"


# --- bytes and ProtoJSON ---


def decode_bytes(pair: Pair, wire: bytes, files: Files = Files.AUTO) -> Any:
    """Protobuf bytes → hub. Raises protobuf's DecodeError, codec.DecodeError and INVALID_PARAMS."""
    wire_message = pair.wire.FromString(wire)
    if may_be_deep(wire):
        check_depth(wire_message)
    if has_unknown(wire, wire_message):
        wire_message = pair.wire.FromString(wire)
        collect_unknown(wire_message)
    message = pair.hub()
    pair.decode(wire_message, message, Context(files))
    fill_nulls(wire, message)
    return message


def encode_bytes(pair: Pair, message: Any, files: Files = Files.AUTO) -> bytes:
    """Hub → protobuf bytes."""
    plain, context = pair.wire(), Context(files)
    pair.encode(message, plain, context)
    if context.preserved:
        restore_unknown(plain)
    raw_bytes: bytes = plain.SerializeToString()
    return raw_bytes


def decode_tree(pair: Pair, tree: JsonObject, files: Files = Files.AUTO) -> Any:
    """ProtoJSON → hub. Raises codec.DecodeError and INVALID_PARAMS."""
    decode = _DECODERS.get(pair.wire)
    if decode is None:
        decode = _DECODERS[pair.wire] = whole_decoder(pair.wire)
    wire_message, complete = decode(tree)
    if not complete:
        collect_members(wire_message, tree)
    message = pair.hub()
    pair.decode(wire_message, message, Context(files))
    return message


def encode_tree(pair: Pair, message: Any, files: Files = Files.AUTO) -> JsonObject:
    """Hub → ProtoJSON. Raises codec.EncodeError."""
    plain, context = pair.wire(), Context(files)
    pair.encode(message, plain, context)
    tree: JsonObject = encoder(pair.wire)(plain)
    return restore_members(tree) if context.preserved else tree


_DECODERS: dict[type[Any], Any] = {}


# --- parts ---


def _decode_part(wire: v0.Part, into: hub.Part, context: Context, extras: JsonObject) -> None:
    which = wire.WhichOneof("part")
    if which == "file":
        _decode_file(wire.file, into, context, extras)
        return
    if which == "text":
        into.text = wire.text
    elif which == "data":
        data = wire.data.data
        if extras.get("bare") is True and "value" in data.fields:
            into.data.CopyFrom(data.fields["value"])
        else:
            into.data.struct_value.CopyFrom(data)
    if extras:
        set_field(into, "media_type", extras.get("mediaType", ""))
        set_field(into, "filename", extras.get("filename", ""))


def _decode_file(wire: v0.FilePart, into: hub.Part, context: Context, extras: JsonObject) -> None:
    if wire.mime_type:
        into.media_type = wire.mime_type
    if wire.name:
        into.filename = wire.name
    if wire.WhichOneof("file") != "file_with_bytes":
        # A file without bytes and without a URI remains a file.
        into.url = wire.file_with_uri
        return
    files = Files.RAW if extras.get("raw") is True else context.files
    into.raw, written = decode_content(wire.file_with_bytes, wire.mime_type, files)
    if written is not usual(context.files) and wire.file_with_bytes and not extras:
        add(into, [[_WRITTEN, written.value]])


def _encode_part(message: hub.Part, into: v0.Part, context: Context, extras: JsonObject) -> None:
    which = message.WhichOneof("content")
    if which == "raw":
        _encode_file(message, into, context, extras)
    elif which == "url":
        into.file.file_with_uri = message.url
    elif which == "text":
        into.text = message.text
    elif which == "data":
        kind = message.data.WhichOneof("kind")
        if kind == "struct_value":
            into.data.data.CopyFrom(message.data.struct_value)
        else:
            extras["bare"] = True
            value = into.data.data.fields["value"]
            if kind is None:
                value.null_value = NULL_VALUE
            else:
                value.CopyFrom(message.data)
    if which in ("raw", "url"):
        into.file.mime_type = message.media_type
        into.file.name = message.filename
    else:
        if message.media_type:
            extras["mediaType"] = message.media_type
        if message.filename:
            extras["filename"] = message.filename
    if into.HasField("metadata") and not into.metadata.fields:
        into.ClearField("metadata")


def _encode_file(message: hub.Part, into: v0.Part, context: Context, extras: JsonObject) -> None:
    written = usual(context.files)
    entries = entries_of(into) if context.preserved else []
    found = [entry[1] for entry in entries if entry[0] == _WRITTEN]
    if found:
        carry(into, PROTO, [entry for entry in entries if entry[0] != _WRITTEN])
        if context.files is not Files.RAW:  # takes precedence over the preserved encoding
            written = Files.BASE64 if found[0] == Files.BASE64.value else Files.RAW
    into.file.file_with_bytes = encode_content(message.raw, written)
    if context.files is Files.AUTO and written is Files.RAW and message.raw and not found:
        # Content that looks like base64 must be distinguishable from base64.
        _, read_as = decode_content(message.raw, message.media_type, Files.AUTO)
        if read_as is not Files.RAW:
            extras["raw"] = True


# --- tasks and events ---


def _decode_final(
    wire: v0.TaskStatusUpdateEvent, into: hub.TaskStatusUpdateEvent, _: Context, __: JsonObject
) -> None:
    annotation.drop_final(into)  # an annotation from outside is not ours
    if wire.final != (into.status.state in annotation.FINAL_STATES):
        annotation.annotate_final(into, wire.final)


def _encode_final(
    message: hub.TaskStatusUpdateEvent, into: v0.TaskStatusUpdateEvent, _: Context, __: JsonObject
) -> None:
    into.final = annotation.by_state(message)
    annotation.drop_final(into)


# --- sending, and push notification configurations ---


def _decode_webhook(
    wire: v0.PushNotificationConfig, into: hub.TaskPushNotificationConfig, _: Context, __: JsonObject
) -> None:
    scheme = usable_scheme(wire.authentication.schemes)
    if scheme:
        into.authentication.scheme = scheme
        into.authentication.credentials = wire.authentication.credentials


def _encode_webhook(
    message: hub.TaskPushNotificationConfig, into: v0.PushNotificationConfig, _: Context, __: JsonObject
) -> None:
    if message.HasField("authentication"):
        into.authentication.SetInParent()
        if message.authentication.scheme:
            into.authentication.schemes.append(message.authentication.scheme)
        into.authentication.credentials = message.authentication.credentials


def _decode_configuration(
    wire: v0.SendMessageRequest, into: hub.SendMessageRequest, context: Context, extras: JsonObject
) -> None:
    source = wire.configuration
    if wire.HasField("configuration") and not _only_waits(source):
        target = into.configuration
        target.SetInParent()
        target.accepted_output_modes.extend(source.accepted_output_modes)
        if source.HasField("push_notification"):
            target.task_push_notification_config.SetInParent()
            WEBHOOK.decode(source.push_notification, target.task_push_notification_config, context)
            schemes = list(source.push_notification.authentication.schemes)
            if len(schemes) > 1:
                add(into, [[_SCHEMES, schemes, [usable_scheme(schemes)]]])
        if source.history_length:
            target.history_length = source.history_length
        target.return_immediately = not source.blocking
    if extras:
        if "configuration" in extras:
            into.configuration.SetInParent()
        if extras.get("historyLength") == 0:
            into.configuration.history_length = 0
        if "ifGenerationMatch" in extras:
            into.configuration.SetInParent()
            set_field(into.configuration, "if_generation_match", extras["ifGenerationMatch"])
        if into.configuration.HasField("task_push_notification_config"):
            push = into.configuration.task_push_notification_config
            set_field(push, "task_id", extras.get("taskId", ""))
            set_field(push, "tenant", extras.get("tenant", ""))


def _only_waits(configuration: v0.SendMessageConfiguration) -> bool:
    """Whether it only means that the caller waits, which in the hub is the meaning of no configuration."""
    return configuration.blocking and not (
        configuration.accepted_output_modes
        or configuration.history_length
        or configuration.HasField("push_notification")
    )


def _encode_configuration(
    message: hub.SendMessageRequest, into: v0.SendMessageRequest, context: Context, extras: JsonObject
) -> None:
    source = message.configuration
    target = into.configuration
    target.accepted_output_modes.extend(source.accepted_output_modes)
    if source.HasField("task_push_notification_config"):
        push = source.task_push_notification_config
        target.push_notification.SetInParent()
        WEBHOOK.encode(push, target.push_notification, context)
        _restore_schemes(into, context)
        extras |= {
            name: value for name, value in (("taskId", push.task_id), ("tenant", push.tenant)) if value
        }
    if context.preserved and message.HasField("configuration") and not source.ByteSize():
        extras["configuration"] = {}  # otherwise its preserved content would have no place
    target.history_length = source.history_length
    if source.HasField("history_length") and not source.history_length:
        extras["historyLength"] = 0
    if source.HasField("if_generation_match"):
        extras["ifGenerationMatch"] = source.if_generation_match
    target.blocking = not source.return_immediately


def _restore_schemes(into: v0.SendMessageRequest, context: Context) -> None:
    entries = entries_of(into) if context.preserved else []
    found = [entry for entry in entries if entry[0] == _SCHEMES and len(entry) == 3]
    if found:
        carry(into, PROTO, [entry for entry in entries if entry[0] != _SCHEMES])
        authentication = into.configuration.push_notification.authentication
        if list(authentication.schemes) == found[0][2]:
            authentication.schemes[:] = [str(scheme) for scheme in found[0][1]]


# --- the table ---

PART = compile_pair(
    v0.Part,
    hub.Part,
    custom=("text", "file", "data", "raw", "url", "filename", "media_type"),
    decode=_decode_part,
    encode=_encode_part,
)
MESSAGE = compile_pair(v0.Message, hub.Message, rename={"content": "parts"}, lacks=("reference_task_ids",))
ARTIFACT = compile_pair(v0.Artifact, hub.Artifact)
STATUS = compile_pair(v0.TaskStatus, hub.TaskStatus, rename={"update": "message"})
TASK = compile_pair(v0.Task, hub.Task, lacks=("generation",))
STATUS_UPDATE = compile_pair(
    v0.TaskStatusUpdateEvent,
    hub.TaskStatusUpdateEvent,
    lacks=("generation",),
    custom=("final",),
    decode=_decode_final,
    encode=_encode_final,
)
ARTIFACT_UPDATE = compile_pair(v0.TaskArtifactUpdateEvent, hub.TaskArtifactUpdateEvent, lacks=("generation",))
SENT = compile_pair(v0.SendMessageResponse, hub.SendMessageResponse, rename={"msg": "message"})
EVENT = compile_pair(v0.StreamResponse, hub.StreamResponse, rename={"msg": "message"})
#: a configuration without its task
WEBHOOK = compile_pair(
    v0.PushNotificationConfig,
    hub.TaskPushNotificationConfig,
    custom=("authentication", "task_id", "tenant"),
    decode=_decode_webhook,
    encode=_encode_webhook,
)
SEND = compile_pair(
    v0.SendMessageRequest,
    hub.SendMessageRequest,
    rename={"request": "message"},
    custom=("configuration", "tenant"),
    decode=_decode_configuration,
    encode=_encode_configuration,
)


#: in metadata of a message or artifact: index of a part -> its `metadata`, and the `name` of its file
PARTS = "urn:a2a-bridge:parts:1"

#: members with user content
_FREE = frozenset({"metadata", "data"})


def without_younger_members(tree: Any) -> Any:
    """The tree without these members. Changes it in place: the caller must own it."""
    rest = [tree]
    while rest:
        place = rest.pop()
        if type(place) is list:
            rest.extend(place)
        elif type(place) is dict:
            parts = place.get("content", place.get("parts"))
            if type(parts) is list:
                moved = {str(index): found for index, part in enumerate(parts) if (found := _take(part))}
                if moved:
                    place["metadata"] = {**(place.get("metadata") or {}), PARTS: moved}
            rest.extend(value for name, value in place.items() if name not in _FREE)
    return tree


def _take(part: Any) -> dict[str, Any]:
    """The members removed from a part."""
    found = {}
    if type(part) is dict:
        if metadata := part.pop("metadata", None):
            found["metadata"] = metadata
        file = part.get("file")
        if type(file) is dict and (name := file.pop("name", "")):
            found["name"] = name
    return found
