"""Requests of a2a.v1 and push notification configurations ↔ hub, protobuf to protobuf. Not rows: see proto_rows.

Rules:
1. As in proto_messages: `decode_x(wire, into, notes)` and `encode_x(message, into, notes)`, and `notes.odd` where
   something is left out. What cannot be read at all raises INVALID_PARAMS that names the field.
2. Waiting: `blocking` is the opposite of `return_immediately`. No configuration at all means to wait; it is written
   out, because servers in the field read its absence as "do not wait".
3. history_length 0 is "not said", and never "no history".
4. The id of a configuration can stand in three places when it is created. The first of these that is filled counts:
   config_id, the configuration itself, its name.
5. Of several authentication schemes the hub has one: Bearer or Basic if offered, else the first. Without any there
   is no authentication, since the hub requires a scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.v0_3 import names
from a2a_bridge.dialects.v0_3.proto_messages import (
    Notes,
    copy_metadata,
    decode_message,
    encode_message,
)
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub

#: what a peer in the field writes for an id that it does not have
_NO_ID = "None"
_USUAL_SCHEMES = ("bearer", "basic")


# --- push notification configurations --------------------------------------------------------------------------


def usable_scheme(schemes: Sequence[str]) -> str:
    """The one scheme of several that credentials most likely are for; empty when there is none."""
    for usual in _USUAL_SCHEMES:
        for scheme in schemes:
            if scheme.lower() == usual:
                return scheme
    return schemes[0] if schemes else ""


def decode_webhook(
    wire: v0.PushNotificationConfig, into: hub.TaskPushNotificationConfig, notes: Notes
) -> None:
    """A configuration without its task."""
    into.id = wire.id
    into.url = wire.url
    into.token = wire.token
    if wire.HasField("authentication"):
        schemes = wire.authentication.schemes
        scheme = usable_scheme(schemes)
        if scheme:
            into.authentication.scheme = scheme
            into.authentication.credentials = wire.authentication.credentials
        if len(schemes) != 1 or not scheme:
            notes.odd = True


def encode_webhook(
    message: hub.TaskPushNotificationConfig, into: v0.PushNotificationConfig, notes: Notes
) -> None:
    """A configuration without its task."""
    into.id = message.id
    into.url = message.url
    into.token = message.token
    if message.HasField("authentication"):
        into.authentication.SetInParent()
        if message.authentication.scheme:
            into.authentication.schemes.append(message.authentication.scheme)
        else:
            notes.odd = True
        into.authentication.credentials = message.authentication.credentials


def decode_config(
    wire: v0.TaskPushNotificationConfig, into: hub.TaskPushNotificationConfig, notes: Notes
) -> None:
    """A configuration as it is answered."""
    decode_webhook(wire.push_notification_config, into, notes)
    if wire.name:
        into.task_id, named = names.decode_config(wire.name)
        if not into.id and named != _NO_ID:
            into.id = named


def encode_config(
    message: hub.TaskPushNotificationConfig, into: v0.TaskPushNotificationConfig, notes: Notes
) -> None:
    """A configuration as it is answered."""
    into.name = names.encode_config(message.task_id, message.id)
    into.push_notification_config.SetInParent()
    encode_webhook(message, into.push_notification_config, notes)


def decode_configs(
    wire: v0.ListTaskPushNotificationConfigResponse,
    into: hub.ListTaskPushNotificationConfigsResponse,
    notes: Notes,
) -> None:
    """One page of configurations."""
    for config in wire.configs:
        decode_config(config, into.configs.add(), notes)
    into.next_page_token = wire.next_page_token


def encode_configs(
    message: hub.ListTaskPushNotificationConfigsResponse,
    into: v0.ListTaskPushNotificationConfigResponse,
    notes: Notes,
) -> None:
    """One page of configurations."""
    for config in message.configs:
        encode_config(config, into.configs.add(), notes)
    into.next_page_token = message.next_page_token


def decode_create(
    wire: v0.CreateTaskPushNotificationConfigRequest, into: hub.TaskPushNotificationConfig, notes: Notes
) -> None:
    """A configuration to be registered."""
    config = wire.config
    decode_webhook(config.push_notification_config, into, notes)
    named_task, named_id = names.decode_config(config.name, "config.name") if config.name else ("", "")
    task_id = names.decode_parent(wire.parent) if wire.parent else named_task
    if not task_id:
        raise invalid_params("parent", "is required")
    if named_task and named_task != task_id:
        raise invalid_params("config.name", "belongs to another task than parent")
    into.task_id = task_id
    into.id = wire.config_id or into.id or (named_id if named_id != _NO_ID else "")


def encode_create(
    message: hub.TaskPushNotificationConfig, into: v0.CreateTaskPushNotificationConfigRequest, notes: Notes
) -> None:
    """A configuration to be registered, its id in all three places."""
    into.parent = _named(message.task_id, "taskId")
    into.config_id = message.id
    encode_config(message, into.config, notes)


# --- sending ---------------------------------------------------------------------------------------------------


def decode_send(wire: v0.SendMessageRequest, into: hub.SendMessageRequest, notes: Notes) -> None:
    """A message for the agent."""
    if wire.HasField("request"):
        into.message.SetInParent()
        decode_message(wire.request, into.message, notes)
    configuration = wire.configuration
    if not wire.HasField("configuration"):
        notes.odd = True  # it is written out, see rule 2
    elif not _only_waits(configuration):
        to = into.configuration
        to.SetInParent()
        to.accepted_output_modes.extend(configuration.accepted_output_modes)
        if configuration.HasField("push_notification"):
            to.task_push_notification_config.SetInParent()
            decode_webhook(configuration.push_notification, to.task_push_notification_config, notes)
        if configuration.history_length:
            to.history_length = configuration.history_length
        to.return_immediately = not configuration.blocking
    copy_metadata(wire, into, notes)


def _only_waits(configuration: v0.SendMessageConfiguration) -> bool:
    """Whether it says no more than that the caller waits, as no configuration does in the hub."""
    return configuration.blocking and not (
        configuration.accepted_output_modes
        or configuration.history_length
        or configuration.HasField("push_notification")
    )


def encode_send(message: hub.SendMessageRequest, into: v0.SendMessageRequest, notes: Notes) -> None:
    """A message for the agent."""
    if message.HasField("message"):
        into.request.SetInParent()
        encode_message(message.message, into.request, notes)
    configuration = message.configuration
    to = into.configuration
    to.SetInParent()
    to.accepted_output_modes.extend(configuration.accepted_output_modes)
    if configuration.HasField("task_push_notification_config"):
        push = configuration.task_push_notification_config
        to.push_notification.SetInParent()
        encode_webhook(push, to.push_notification, notes)
        if push.task_id or push.tenant:
            notes.odd = True
    to.history_length = configuration.history_length
    if configuration.HasField("history_length") and not configuration.history_length:
        notes.odd = True
    to.blocking = not configuration.return_immediately
    copy_metadata(message, into, notes)


# --- the rest --------------------------------------------------------------------------------------------------


def decode_get_task(wire: v0.GetTaskRequest, into: hub.GetTaskRequest, _: Notes) -> None:
    """Which task, and how much of its history."""
    into.id = names.decode_task(wire.name)
    if wire.history_length:
        into.history_length = wire.history_length


def encode_get_task(message: hub.GetTaskRequest, into: v0.GetTaskRequest, _: Notes) -> None:
    """Which task, and how much of its history."""
    into.name = _named(message.id, "id")
    into.history_length = message.history_length


def decode_task_name(wire: Any, into: Any, _: Notes) -> None:
    """Which task: CancelTaskRequest and TaskSubscriptionRequest."""
    into.id = names.decode_task(wire.name)


def encode_task_name(message: Any, into: Any, _: Notes) -> None:
    """Which task: CancelTaskRequest and SubscribeToTaskRequest."""
    into.name = _named(message.id, "id")


def decode_config_name(wire: Any, into: Any, _: Notes) -> None:
    """Which configuration, to read or to remove."""
    into.task_id, into.id = names.decode_whole_config(wire.name)


def encode_config_name(message: Any, into: Any, _: Notes) -> None:
    """Which configuration, to read or to remove."""
    _named(message.task_id, "taskId")
    _named(message.id, "id")
    into.name = names.encode_config(message.task_id, message.id)


def decode_list_configs(
    wire: v0.ListTaskPushNotificationConfigRequest,
    into: hub.ListTaskPushNotificationConfigsRequest,
    _: Notes,
) -> None:
    """The configurations of which task, by pages."""
    into.task_id = names.decode_parent(wire.parent)
    into.page_size = wire.page_size
    into.page_token = wire.page_token


def encode_list_configs(
    message: hub.ListTaskPushNotificationConfigsRequest,
    into: v0.ListTaskPushNotificationConfigRequest,
    _: Notes,
) -> None:
    """The configurations of which task, by pages."""
    into.parent = _named(message.task_id, "taskId")
    into.page_size = message.page_size
    into.page_token = message.page_token


def nothing(_wire: Any, _into: Any, _notes: Notes) -> None:
    """For messages without fields."""


def _named(identifier: str, field: str) -> str:
    """The name of a task that a request has to name. Raises INVALID_PARAMS when the id is empty."""
    if not identifier:
        raise invalid_params(field, "is required")
    return names.encode_task(identifier)
