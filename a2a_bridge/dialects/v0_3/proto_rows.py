"""The gRPC rows of 0.3: operations, paths of /a2a.v1.A2AService and protobuf bytes, and the pairs of requests
with resource names. Not the form's errors.

There is no row for listing tasks: a2a.v1 has no such rpc. Rows that hold files exist for each encoding of
their contents (`proto_files`).

Rules for resource names (`tasks/{id}`, `tasks/{id}/pushNotificationConfigs/{id}`):
1. A name is matched as a whole: `tasks/a/b` is an error and never the task `a`.
2. A segment encodes "/" as %2F, and the "%" of a literal %2F or %25 as %25. Nothing else is changed, so that
   ids with other characters read the same for peers that do not decode segments. Reading is the exact
   inverse.
3. A parent is `tasks/{id}`. The collection itself is also accepted, and `task` for `tasks`, as A2A 0.3.0 and
   0.2.5 misspell it in the HTTP rule of CreateTaskPushNotificationConfig.
4. A configuration without an id has an empty last segment; a peer in the field writes `None` there.
5. When a configuration is created its id can be in three places. The first non-empty one is used: config_id,
   the configuration itself, its name. Unreadable input raises INVALID_PARAMS that names the field.
"""

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.dialects.boundary import Conversion, row
from a2a_bridge.dialects.dialect import Row, RowExtras
from a2a_bridge.dialects.pair import Context, Pair, compile_pair
from a2a_bridge.dialects.v0_3 import proto_card
from a2a_bridge.dialects.v0_3.errors import PROTO
from a2a_bridge.dialects.v0_3.proto import EVENT, SEND, SENT, TASK, WEBHOOK, decode_bytes, encode_bytes
from a2a_bridge.dialects.v0_3.proto_files import ENCODINGS, choose_row
from a2a_bridge.dialects.v0_3.side_channel import of_bytes, of_list
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.peers import Files

_ESCAPED = re.compile(r"%(2[Ff]|25)")
_TO_ESCAPE = re.compile(r"/|%(?=2[Ff]|25)")

_TASK = re.compile(r"tasks/([^/]+)")
_PARENT = re.compile(r"tasks?/([^/]+)(?:/pushNotificationConfigs/?)?")
_CONFIG = re.compile(r"tasks/([^/]+)/pushNotificationConfigs(?:/([^/]*))?")


def encode_segment(identifier: str) -> str:
    """An id as one segment of a name."""
    if "/" not in identifier and "%" not in identifier:
        return identifier
    return _TO_ESCAPE.sub(lambda match: "%2F" if match[0] == "/" else "%25", identifier)


def decode_segment(segment: str) -> str:
    """The id in a segment."""
    if "%" not in segment:
        return segment
    return _ESCAPED.sub(lambda match: "%" if match[1] == "25" else "/", segment)


def encode_task(task_id: str) -> str:
    """The name of a task; empty if there is no id, since no name expresses that."""
    return f"tasks/{encode_segment(task_id)}" if task_id else ""


def decode_task(name: str) -> str:
    """The task id in the field `name`. Raises INVALID_PARAMS."""
    match = _TASK.fullmatch(name)
    if match is None:
        raise _unreadable("name", name, "tasks/{id}")
    return decode_segment(match[1])


def decode_parent(name: str) -> str:
    """The id of the task that owns configurations, in the field `parent`. Raises INVALID_PARAMS."""
    match = _PARENT.fullmatch(name)
    if match is None:
        raise _unreadable("parent", name, "tasks/{id}")
    return decode_segment(match[1])


def encode_config(task_id: str, config_id: str) -> str:
    """The name of a push notification configuration; empty if it has no task."""
    if not task_id:
        return ""
    return f"tasks/{encode_segment(task_id)}/pushNotificationConfigs/{encode_segment(config_id)}"


def decode_config(name: str, field: str = "name") -> tuple[str, str]:
    """The ids of the task and of the configuration; the second may be empty. Raises INVALID_PARAMS that names
    the field.
    """
    match = _CONFIG.fullmatch(name)
    if match is None:
        raise _unreadable(field, name, "tasks/{id}/pushNotificationConfigs/{id}")
    return decode_segment(match[1]), decode_segment(match[2] or "")


def decode_whole_config(name: str) -> tuple[str, str]:
    """As decode_config, but both ids are required, because the request is about one configuration."""
    task_id, config_id = decode_config(name)
    if not config_id:
        raise _unreadable("name", name, "tasks/{id}/pushNotificationConfigs/{id}")
    return task_id, config_id


def _unreadable(field: str, name: str, expected: str) -> A2AError:
    return invalid_params(field, f"is not a name such as {expected}" if name else "is required")


#: the text that a peer in the field writes for a missing id
_NO_ID = "None"


def _decode_config(wire: Any, into: Any, context: Context, _: Any) -> None:
    WEBHOOK.decode(wire.push_notification_config, into, context)
    if wire.name:
        into.task_id, named = decode_config(wire.name)
        if not into.id and named != _NO_ID:
            into.id = named


def _encode_config(message: Any, into: Any, context: Context, _: Any) -> None:
    into.name = encode_config(message.task_id, message.id)
    into.push_notification_config.SetInParent()
    WEBHOOK.encode(message, into.push_notification_config, context)


def _decode_create(wire: Any, into: Any, context: Context) -> None:
    config = wire.config
    WEBHOOK.decode(config.push_notification_config, into, context)
    named_task, named_id = decode_config(config.name, "config.name") if config.name else ("", "")
    task_id = decode_parent(wire.parent) if wire.parent else named_task
    if not task_id:
        raise invalid_params("parent", "is required")
    if named_task and named_task != task_id:
        raise invalid_params("config.name", "belongs to another task than parent")
    into.task_id = task_id
    into.id = wire.config_id or into.id or (named_id if named_id != _NO_ID else "")


def _encode_create(message: Any, into: Any, context: Context) -> None:
    into.parent = _task_name(message.task_id, "taskId")
    into.config_id = message.id
    CONFIG.encode(message, into.config, context)


def _decode_get_task(wire: Any, into: Any, _: Context) -> None:
    into.id = decode_task(wire.name)
    if wire.history_length:
        into.history_length = wire.history_length


def _encode_get_task(message: Any, into: Any, _: Context) -> None:
    into.name = _task_name(message.id, "id")
    into.history_length = message.history_length


def _decode_task_name(wire: Any, into: Any, _: Context) -> None:
    into.id = decode_task(wire.name)


def _encode_task_name(message: Any, into: Any, _: Context) -> None:
    into.name = _task_name(message.id, "id")


def _decode_config_name(wire: Any, into: Any, _: Context) -> None:
    into.task_id, into.id = decode_whole_config(wire.name)


def _encode_config_name(message: Any, into: Any, _: Context) -> None:
    _task_name(message.task_id, "taskId")
    _task_name(message.id, "id")
    into.name = encode_config(message.task_id, message.id)


def _decode_parent(wire: Any, into: Any, _: Context, __: Any) -> None:
    into.task_id = decode_parent(wire.parent)


def _encode_parent(message: Any, into: Any, _: Context, __: Any) -> None:
    into.parent = _task_name(message.task_id, "taskId")


def _nothing(_wire: Any, _into: Any, _context: Context) -> None:
    """For messages without fields."""


def _task_name(identifier: str, field: str) -> str:
    """The name of the task of a request. Raises INVALID_PARAMS if the id is empty."""
    if not identifier:
        raise invalid_params(field, "is required")
    return encode_task(identifier)


CONFIG = compile_pair(
    v0.TaskPushNotificationConfig,
    hub.TaskPushNotificationConfig,
    custom=("name", "push_notification_config", *hub.TaskPushNotificationConfig.DESCRIPTOR.fields_by_name),
    decode=_decode_config,
    encode=_encode_config,
)
CONFIGS = compile_pair(v0.ListTaskPushNotificationConfigResponse, hub.ListTaskPushNotificationConfigsResponse)
LIST_CONFIGS = compile_pair(
    v0.ListTaskPushNotificationConfigRequest,
    hub.ListTaskPushNotificationConfigsRequest,
    custom=("parent", "task_id", "tenant"),
    decode=_decode_parent,
    encode=_encode_parent,
)
GET_TASK = Pair(v0.GetTaskRequest, hub.GetTaskRequest, _decode_get_task, _encode_get_task)
CANCEL = Pair(v0.CancelTaskRequest, hub.CancelTaskRequest, _decode_task_name, _encode_task_name)
SUBSCRIBE = Pair(v0.TaskSubscriptionRequest, hub.SubscribeToTaskRequest, _decode_task_name, _encode_task_name)
CREATE_CONFIG = Pair(
    v0.CreateTaskPushNotificationConfigRequest,
    hub.TaskPushNotificationConfig,
    _decode_create,
    _encode_create,
)
GET_CONFIG = Pair(
    v0.GetTaskPushNotificationConfigRequest,
    hub.GetTaskPushNotificationConfigRequest,
    _decode_config_name,
    _encode_config_name,
)
DELETE_CONFIG = Pair(
    v0.DeleteTaskPushNotificationConfigRequest,
    hub.DeleteTaskPushNotificationConfigRequest,
    _decode_config_name,
    _encode_config_name,
)
GET_CARD = Pair(v0.GetAgentCardRequest, hub.GetExtendedAgentCardRequest, _nothing, _nothing)
EMPTY = Pair(Empty, Empty, _nothing, _nothing)


SERVICE = "/a2a.v1.A2AService/"


#: the rows without the row of the card: operation, name, request and response
_TABLE: tuple[tuple[ops.Operation[Any, Any], str, Pair, Pair], ...] = (
    (ops.SEND_MESSAGE, "SendMessage", SEND, SENT),
    (ops.SEND_STREAMING_MESSAGE, "SendStreamingMessage", SEND, EVENT),
    (ops.GET_TASK, "GetTask", GET_TASK, TASK),
    (ops.CANCEL_TASK, "CancelTask", CANCEL, TASK),
    (ops.SUBSCRIBE_TO_TASK, "TaskSubscription", SUBSCRIBE, EVENT),
    (ops.CREATE_PUSH_CONFIG, "CreateTaskPushNotificationConfig", CREATE_CONFIG, CONFIG),
    (ops.GET_PUSH_CONFIG, "GetTaskPushNotificationConfig", GET_CONFIG, CONFIG),
    (ops.LIST_PUSH_CONFIGS, "ListTaskPushNotificationConfig", LIST_CONFIGS, CONFIGS),
    (ops.DELETE_PUSH_CONFIG, "DeleteTaskPushNotificationConfig", DELETE_CONFIG, EMPTY),
)


def _configs(wire: bytes) -> list[bytes]:
    return [config.SerializeToString() for config in CONFIGS.wire.FromString(wire).configs]


def _with_configs(wire: bytes, configs: list[bytes]) -> bytes:
    message = CONFIGS.wire.FromString(wire)
    del message.configs[:]
    message.configs.extend(map(CONFIG.wire.FromString, configs))
    raw_bytes: bytes = message.SerializeToString()
    return raw_bytes


_ABOUT_CONFIG = of_bytes(CONFIG)
#: the unmapped content of responses without metadata
_RESPONSE_CHANNELS = {CONFIG: _ABOUT_CONFIG, CONFIGS: of_list(_ABOUT_CONFIG, _configs, _with_configs)}


def _row(
    operation: ops.Operation[Any, Any], name: str, request: Pair, response: Pair, files: Files
) -> Row[str, bytes]:
    channel = _RESPONSE_CHANNELS.get(response)
    extras: RowExtras[str, bytes] = RowExtras(
        request=None if request is SEND else of_bytes(request).request(),
        response=None if channel is None else channel.response(),
        names=PROTO.get(operation),
    )
    return row(operation, SERVICE + name, _conversion(request, files), _conversion(response, files), extras)


def _conversion(pair: Pair, files: Files) -> Conversion:
    return Conversion(
        lambda message: encode_bytes(pair, message, files),
        lambda wire: decode_bytes(pair, wire, files),
        pair.wire,
    )


def _card_row() -> Row[str, bytes]:
    answer = Conversion(proto_card.encode_bytes, proto_card.decode_bytes, v0.AgentCard)
    request = _conversion(GET_CARD, Files.RAW)
    return row(ops.GET_EXTENDED_AGENT_CARD, f"{SERVICE}GetAgentCard", request, answer)


def _first_file(wire: bytes) -> tuple[bytes, str] | None:
    try:
        message = v0.SendMessageRequest.FromString(wire).request
    except ProtobufDecodeError:
        return None  # unreadable: the decoder reports the error
    for part in message.content:
        if part.file.file_with_bytes:
            return part.file.file_with_bytes, part.file.mime_type
    return None


#: for agents with a known encoding
BY_FILES: Mapping[Files, tuple[Row[str, bytes], ...]] = {
    files: (*(_row(*one, files) for one in _TABLE), _card_row()) for files in ENCODINGS
}
ROWS: tuple[Row[str, bytes], ...] = tuple(
    choose_row(dict(zip(BY_FILES, rows, strict=True)), _first_file)
    for rows in zip(*BY_FILES.values(), strict=True)
)
