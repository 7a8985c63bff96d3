"""Requests and configurations over HTTP+JSON of 0.3 ↔ hub, in their many body formats. Not rows, nor
messages.

Rules:
1. Trees hold bare ids, as the paths do; resource names occur only in bodies, and must agree with the ids.
2. A configuration to register may be bare, inside `config`, or beside the id of its task.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import Json, JsonObject, decoder, encoder
from a2a_bridge.codec.values import describe
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.dialects.pair import Context, Pair
from a2a_bridge.dialects.scalars import an_array, an_object
from a2a_bridge.dialects.v0_3.proto_requests import (
    CONFIG,
    CONFIGS,
    CREATE_CONFIG,
    decode_parent,
    decode_task,
    encode_task,
)
from a2a_bridge.dialects.v0_3.push import TASK_CONFIG
from a2a_bridge.dialects.v0_3.requests import CANCEL
from a2a_bridge.dialects.v0_3.side_channel import Channel, of_list, of_tree
from a2a_bridge.pb import lf_a2a_v1 as hub

PAGE = 100
"""Maximum number of tasks in an answer that cannot indicate further ones."""

_decode_listing = decoder(hub.ListTasksRequest)


def from_proto(pair: Pair, tree: JsonObject) -> Any:
    """ProtoJSON → hub, for messages without metadata."""
    message = pair.hub()
    pair.decode(decoder(pair.wire)(tree), message, Context())
    return message


def to_proto(pair: Pair, message: Any) -> Any:
    """Hub → ProtoJSON, for messages without metadata."""
    plain = pair.wire()
    pair.encode(message, plain, Context())
    return encoder(pair.wire)(plain)


def decode_cancel(tree: Json) -> hub.CancelTaskRequest:
    """The id from the path, and the members of the body."""
    tree = an_object(tree)
    name = tree.get("name")
    if name is not None and (type(name) is not str or decode_task(name) != tree.get("id")):
        raise invalid_params("name", "is not what the path says")
    made: hub.CancelTaskRequest = CANCEL.decode({key: value for key, value in tree.items() if key != "name"})
    return made


def encode_cancel(request: hub.CancelTaskRequest) -> JsonObject:
    """All members that peers may read."""
    tree = CANCEL.encode(request)
    return {**tree, "name": encode_task(request.id)}


def decode_create(tree: Json) -> hub.TaskPushNotificationConfig:
    """A configuration to register, from any of the body formats."""
    config: hub.TaskPushNotificationConfig = from_proto(CREATE_CONFIG, create_request(tree))
    if not config.url:
        raise invalid_params("config.pushNotificationConfig.url", "is required")
    return config


def encode_create(config: hub.TaskPushNotificationConfig) -> JsonObject:
    """The body format that both SDKs read."""
    return {"taskId": config.task_id, **to_proto(CREATE_CONFIG, config)}


def create_request(tree: Json) -> JsonObject:
    """Any of the body formats as CreateTaskPushNotificationConfigRequest."""
    tree = dict(an_object(tree))
    task_id = tree.pop("taskId", None)
    rest: JsonObject = {name: tree.pop(name) for name in ("parent", "configId", "config_id") if name in tree}
    if type(task_id) is str and task_id:
        parent = rest.setdefault("parent", encode_task(task_id))
        if type(parent) is str and parent and decode_parent(parent) != task_id:
            raise invalid_params("parent", "is not what the path says")
    if "config" in tree:
        return {**tree, **rest}
    if "pushNotificationConfig" not in tree and "push_notification_config" not in tree:
        tree = {"pushNotificationConfig": tree}
    return {**rest, "config": tree}


def _configs(tree: Any) -> list[Any]:
    configs = tree.get("configs") if type(tree) is dict else None
    return configs if type(configs) is list else []


def _restore_create(tree: Any, text: str) -> Any:
    return {"taskId": tree.get("taskId"), **_CREATE.restored(create_request(tree), text)}


_CREATE = of_tree(CREATE_CONFIG)
#: the content of requests and responses that the hub cannot hold
CREATE_CHANNEL = Channel(lambda tree: _CREATE.text(create_request(tree)), _restore_create)
CONFIG_CHANNEL = of_tree(CONFIG)
CONFIGS_CHANNEL = of_list(CONFIG_CHANNEL, _configs, lambda tree, configs: {**tree, "configs": configs})


def decode_config(tree: Json) -> hub.TaskPushNotificationConfig:
    """A configuration in a response, in either variant."""
    tree = an_object(tree)
    if "taskId" in tree:
        config: hub.TaskPushNotificationConfig = TASK_CONFIG.decode(tree)
    else:
        config = from_proto(CONFIG, tree)
    return config


def decode_configs(tree: Json) -> hub.ListTaskPushNotificationConfigsResponse:
    """A page of configurations, or the bare array of the specification's text."""
    if type(tree) is list:
        return hub.ListTaskPushNotificationConfigsResponse(configs=[decode_config(item) for item in tree])
    tree = an_object(tree)
    made: hub.ListTaskPushNotificationConfigsResponse = from_proto(CONFIGS, {**tree, "configs": []})
    configs = tree.get("configs")
    if configs is not None:
        made.configs.extend(decode_config(item) for item in an_array(configs, "configs"))
    return made


def a_required_string(tree: JsonObject, name: str) -> str:
    """A required member. Raises INVALID_PARAMS."""
    value = tree.get(name)
    if type(value) is not str or not value:
        raise invalid_params(
            name, "is required" if not value else f"expected a string, got {describe(value)}"
        )
    return value


def decode_listing(tree: Json) -> hub.ListTasksRequest:
    """The filter for tasks; artifacts are always included, because 0.3 has no option for them."""
    tree = {"pageSize": PAGE, **an_object(tree)}
    if tree.get("status") == "TASK_STATE_CANCELLED":
        tree["status"] = "TASK_STATE_CANCELED"
    request = _decode_listing(tree)
    request.include_artifacts = True
    return request


def encode_listing(_: Any) -> Any:
    """Raises UNSUPPORTED_OPERATION, as without a row: agents do not list tasks."""
    text = "version 0.3 has no ListTasks"
    raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"operation": ops.LIST_TASKS.name})
