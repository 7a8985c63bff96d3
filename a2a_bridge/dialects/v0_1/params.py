"""Parameters of 0.1 ↔ parameters of 0.3, push notification configs included: JSON trees on both sides.

Rules:
1. The id of a message's task is in the parameters, and is chosen by the caller. It becomes `message.taskId`
   unchanged; `gateway.identity` decides whether the agent knows it.
2. An absent `historyLength` requests no history in 0.1 and all of it in 1.0: absent in 0.1 becomes 0 in 1.0,
   and absent in 1.0 becomes EVERYTHING in 0.1.
3. A task of 0.1 has one push notification config, without an id. In the hub its id is ONLY_CONFIG.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.dialects.v0_1.messages import decode_message, encode_message
from a2a_bridge.dialects.v0_1.stash import Unit, coders, decode_unit, encode_unit, without_nulls

#: the id of a config set by a caller of 0.1
ONLY_CONFIG = "v0.1"
#: a historyLength that requests the whole history
EVERYTHING = 2**31 - 1

_IDS = ("taskId", "contextId")
_NULLABLE_SEND = frozenset(
    {"sessionId", "metadata", "pushNotification", "historyLength", "acceptedOutputModes", "configuration"}
)
_NULLABLE_TASK = frozenset({"historyLength", "metadata", "pushNotificationConfigId"})


def decode_send(wire: Any) -> Any:
    """TaskSendParams as MessageSendParams."""
    if type(wire) is not dict:
        return wire
    message = wire.get("message")
    if type(message) is not dict:
        return decode_unit({**wire, "message": {}}, _up_send, _down_send) | {"message": message}
    # Ids in the message do not exist in 0.1; those in the parameters count.
    ids = {name: message[name] for name in _IDS if name in message}
    made = decode_unit({**wire, "message": ids}, _up_send, _down_send)
    rest = {name: value for name, value in message.items() if name not in ids}
    where = wire.get("id")
    return {
        **made,
        "message": {**decode_message(rest, where if type(where) is str else ""), **made["message"]},
    }


def encode_send(tree: Any) -> Any:
    """MessageSendParams as TaskSendParams."""
    if type(tree) is not dict:
        return tree
    message = tree.get("message")
    if type(message) is not dict:
        return encode_unit({**tree, "message": {}}, _up_send, _down_send) | {"message": message}
    ids = {name: message[name] for name in _IDS if name in message}
    made = encode_unit({**tree, "message": ids}, _up_send, _down_send)
    rest = encode_message({name: value for name, value in message.items() if name not in ids})
    return {**made, "message": {**rest, **made["message"]}}


def encode_task_config(tree: Any) -> Any:
    """TaskPushNotificationConfig of 0.3 as one of 0.1. A config without a URL counts as absent: null."""
    made = _encode_task_config(tree)
    config = made.get("pushNotificationConfig") if type(made) is dict else None
    return (
        {**made, "pushNotificationConfig": None} if type(config) is dict and not config.get("url") else made
    )


def _up_send(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE_SEND)
    ids = without_nulls(wire["message"], _IDS)
    for name, target in (("id", "taskId"), ("sessionId", "contextId")):
        if name in made:
            ids[target] = made.pop(name)
    configuration = made.pop("configuration", None)
    length = made.pop("historyLength", 0)
    known: Unit = {} if length == EVERYTHING else {"historyLength": length}
    if "acceptedOutputModes" in made:
        known["acceptedOutputModes"] = made.pop("acceptedOutputModes")
    if "pushNotification" in made:
        known["pushNotificationConfig"] = _up_config(made.pop("pushNotification"))
    if configuration is not None and type(configuration) is not dict:
        made["configuration"] = configuration
    elif known or configuration is not None:
        made["configuration"] = {"blocking": True, **(configuration or {}), **known}  # 0.1 has no other mode
    return {**made, "message": ids}


def _down_send(tree: Unit) -> Unit:
    made = dict(tree)
    ids = dict(tree["message"])
    for name, target in (("id", "taskId"), ("sessionId", "contextId")):
        if target in ids:
            made[name] = ids.pop(target)
    made["message"] = ids
    configuration = made.pop("configuration", None)
    if configuration is not None and type(configuration) is not dict:
        return {**made, "configuration": configuration}
    rest = dict(configuration or {})
    length = rest.pop("historyLength", EVERYTHING)
    if type(length) is not int or length:
        made["historyLength"] = length
    if "pushNotificationConfig" in rest:
        made["pushNotification"] = _down_config(rest.pop("pushNotificationConfig"))
    if rest.get("blocking") is True:
        del rest["blocking"]
    if rest or configuration in ({}, {"blocking": True}):
        made["configuration"] = rest
    return made


def _up_query(wire: Unit) -> Unit:
    made = _up_id(wire)
    length = made.pop("historyLength", 0)
    return made if length == EVERYTHING else {**made, "historyLength": length}


def _down_query(tree: Unit) -> Unit:
    made = dict(tree)
    length = made.pop("historyLength", EVERYTHING)
    return made if type(length) is int and not length else {**made, "historyLength": length}


def _up_id(wire: Unit) -> Unit:
    return without_nulls(wire, _NULLABLE_TASK)


def _up_config_query(wire: Unit) -> Unit:
    return {"pushNotificationConfigId": ONLY_CONFIG, **_up_id(wire)}


def _down_config_query(tree: Unit) -> Unit:
    made = dict(tree)
    if made.get("pushNotificationConfigId") in (ONLY_CONFIG, "", None):
        made.pop("pushNotificationConfigId", None)
    return made


def _up_task_config(wire: Unit) -> Unit:
    made = dict(wire)
    if "id" in made:
        made["taskId"] = made.pop("id")
    if "pushNotificationConfig" in made:
        made["pushNotificationConfig"] = _up_config(made["pushNotificationConfig"])
    return made


def _down_task_config(tree: Unit) -> Unit:
    made = dict(tree)
    if "taskId" in made:
        made["id"] = made.pop("taskId")
    if "pushNotificationConfig" in made:
        made["pushNotificationConfig"] = _down_config(made["pushNotificationConfig"])
    return made


def _up_config(config: Any) -> Any:
    """PushNotificationConfig, without an id and possibly with nulls."""
    if type(config) is not dict:
        return config
    made = without_nulls(config, ("id", "token", "authentication"))
    if type(made.get("authentication")) is dict:
        made["authentication"] = without_nulls(made["authentication"], ("credentials",))
    return {"id": ONLY_CONFIG, **made}


def _down_config(config: Any) -> Any:
    if type(config) is not dict or config.get("id") != ONLY_CONFIG:
        return config
    return {name: value for name, value in config.items() if name != "id"}


#: TaskQueryParams, for reading a task
decode_query, encode_query = coders(_up_query, _down_query)
#: TaskIdParams, and TaskQueryParams without its length
decode_id, encode_id = coders(_up_id, dict)
#: TaskIdParams as a query for the one config of a task
decode_config_query, encode_config_query = coders(_up_config_query, _down_config_query)
#: TaskPushNotificationConfig
decode_task_config, _encode_task_config = coders(_up_task_config, _down_task_config)
