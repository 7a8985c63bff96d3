"""Requests of a2a.v1 with resource names, and responses about push configs, as pairs. Not their rows.

When a configuration is created its id can be in three places. The first non-empty one is used: config_id, the
configuration itself, its name. Unreadable input raises INVALID_PARAMS that names the field.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.pair import Context, Pair, compile_pair
from a2a_bridge.dialects.v0_3 import names
from a2a_bridge.dialects.v0_3.proto import WEBHOOK
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty

#: the text that a peer in the field writes for a missing id
_NO_ID = "None"


def _decode_config(wire: Any, into: Any, context: Context, _: Any) -> None:
    WEBHOOK.decode(wire.push_notification_config, into, context)
    if wire.name:
        into.task_id, named = names.decode_config(wire.name)
        if not into.id and named != _NO_ID:
            into.id = named


def _encode_config(message: Any, into: Any, context: Context, _: Any) -> None:
    into.name = names.encode_config(message.task_id, message.id)
    into.push_notification_config.SetInParent()
    WEBHOOK.encode(message, into.push_notification_config, context)


def _decode_create(wire: Any, into: Any, context: Context) -> None:
    config = wire.config
    WEBHOOK.decode(config.push_notification_config, into, context)
    named_task, named_id = names.decode_config(config.name, "config.name") if config.name else ("", "")
    task_id = names.decode_parent(wire.parent) if wire.parent else named_task
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
    into.id = names.decode_task(wire.name)
    if wire.history_length:
        into.history_length = wire.history_length


def _encode_get_task(message: Any, into: Any, _: Context) -> None:
    into.name = _task_name(message.id, "id")
    into.history_length = message.history_length


def _decode_task_name(wire: Any, into: Any, _: Context) -> None:
    into.id = names.decode_task(wire.name)


def _encode_task_name(message: Any, into: Any, _: Context) -> None:
    into.name = _task_name(message.id, "id")


def _decode_config_name(wire: Any, into: Any, _: Context) -> None:
    into.task_id, into.id = names.decode_whole_config(wire.name)


def _encode_config_name(message: Any, into: Any, _: Context) -> None:
    _task_name(message.task_id, "taskId")
    _task_name(message.id, "id")
    into.name = names.encode_config(message.task_id, message.id)


def _decode_parent(wire: Any, into: Any, _: Context, __: Any) -> None:
    into.task_id = names.decode_parent(wire.parent)


def _encode_parent(message: Any, into: Any, _: Context, __: Any) -> None:
    into.parent = _task_name(message.task_id, "taskId")


def _nothing(_wire: Any, _into: Any, _context: Context) -> None:
    """For messages without fields."""


def _task_name(identifier: str, field: str) -> str:
    """The name of the task of a request. Raises INVALID_PARAMS if the id is empty."""
    if not identifier:
        raise invalid_params(field, "is required")
    return names.encode_task(identifier)


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
