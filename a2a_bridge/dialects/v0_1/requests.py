"""The methods of 0.1 as rows, and its push notifications. No hub messages.

0.1 has seven methods, over JSON-RPC only. Each is a method of 0.3 with other names, so a row of 0.1 is a row
of 0.3 between two pure functions per direction; field paths in errors are renamed as well.

The text of 0.1 leaves the body of a notification to the server. The servers of that time send the task in the
format of tasks/get, so the encoder writes that. The decoder also accepts the example in the text: an event
type, the id of the task and its status.

Rules for parameters:
1. The id of a message's task is in the parameters, and is chosen by the caller. It becomes `message.taskId`
   unchanged; `gateway.identity` decides whether the agent knows it.
2. An absent `historyLength` requests no history in 0.1 and all of it in 1.0: absent in 0.1 becomes 0 in 1.0,
   and absent in 1.0 becomes EVERYTHING in 0.1.
3. A task of 0.1 has one push notification config, without an id. In the hub its id is ONLY_CONFIG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from a2a_bridge.codec import DecodeError, JsonObject
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.dialects.boundary import Conversion, request_decoder, response_encoder
from a2a_bridge.dialects.dialect import Beside, MemberNames, PushForm, Row, RowExtras, Rule, renaming
from a2a_bridge.dialects.v0_1 import messages
from a2a_bridge.dialects.v0_1.messages import decode_message, encode_message
from a2a_bridge.dialects.v0_1.parts import Unit, coders, decode_unit, encode_unit, without_nulls
from a2a_bridge.dialects.v0_3 import requests as v0_3
from a2a_bridge.dialects.v0_3 import shapes as newer_shapes
from a2a_bridge.dialects.v0_3.errors import DECODE_KIND, ENCODE_KIND
from a2a_bridge.pb import lf_a2a_v1 as hub

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
decode_config_query, encode_config_query = coders(
    lambda wire: {"pushNotificationConfigId": ONLY_CONFIG, **_up_id(wire)}, _down_config_query
)
#: TaskPushNotificationConfig
decode_task_config, _encode_task_config = coders(_up_task_config, _down_task_config)


Tree = Callable[[Any], Any]
Trees = tuple[Tree, Tree]
"""The functions from trees of 0.1 to trees of 0.3, and back."""

#: in 0.1 an absent historyLength requests no history; 0 means that here, but not in 0.3
_OF_0_3: Mapping[str, Row[str, Any]] = {row.address: row for row in v0_3.ROWS} | {
    v0_3.GET_TASK_LITERALLY.address: v0_3.GET_TASK_LITERALLY
}

#: members by their paths in 0.3 → in 0.1
_RENAMED: tuple[Rule, ...] = (
    (r"^(?:message\.)?taskId\b", "id"),
    (r"^(?:message\.)?contextId\b", "sessionId"),
    (r"^configuration\.pushNotificationConfig\b", "pushNotification"),
    (r"^configuration\.(?=historyLength|acceptedOutputModes)", ""),
    (r"\.artifactId$", ".index"),
    (r"(?<=\])\.kind$", ".type"),
)
_rename = renaming(*ENCODE_KIND, *_RENAMED)
_SEND_NAMES = MemberNames(
    _rename,
    renaming(
        (r"^id\b", "message.taskId"),
        (r"^sessionId\b", "message.contextId"),
        (r"^pushNotification\b", "configuration.pushNotificationConfig"),
        (r"^(?=historyLength\b|acceptedOutputModes\b)", "configuration."),
        *DECODE_KIND,
    ),
)
_OF_CONFIG: Rule = (r"^id\b", "taskId")
#: names in errors of requests, by operation; `id` of a configuration is the id of its task
_NAMES: Mapping[ops.Operation[Any, Any], MemberNames] = {
    ops.SEND_MESSAGE: _SEND_NAMES,
    ops.SEND_STREAMING_MESSAGE: _SEND_NAMES,
    ops.CREATE_PUSH_CONFIG: MemberNames(
        renaming(
            (r"^(?=(?:url|token|authentication)\b)", "pushNotificationConfig."), *ENCODE_KIND, *_RENAMED
        ),
        renaming(_OF_CONFIG, (r"^pushNotificationConfig\.", ""), *DECODE_KIND),
    ),
    ops.GET_PUSH_CONFIG: MemberNames(_rename, renaming(_OF_CONFIG)),
}


def _row(method: str, newer: str, requests: Trees, responses: Trees) -> Row[str, Any]:
    inner = _OF_0_3[newer]
    request, response = _Requests(inner, requests), _Responses(inner, responses)
    return Row(
        inner.operation,
        method,
        encode_request=request.encode,
        decode_request=request.decode,
        encode_response=response.encode,
        decode_response=response.decode,
        extras=RowExtras(
            request.beside(inner.extras.request),
            response.beside(inner.extras.response),
            names=_NAMES.get(inner.operation),
        ),
    )


class _Half:
    """One direction of a row of 0.3, between trees of 0.1."""

    __slots__ = ("_down", "_inner", "_up")

    def __init__(self, inner: Row[str, Any], trees: Trees) -> None:
        self._inner = inner
        self._up, self._down = trees

    def beside(self, newer: Beside[Any] | None) -> Beside[Any] | None:
        """The same content beside a message of 0.1. newer: content beside a message of 0.3."""
        if newer is None:
            return None

        def extract(wire: Any) -> Mapping[str, str]:
            try:
                tree = self._up(wire)
            except DecodeError:
                return {}  # lacks members that 0.1 requires: `decode` reports the error
            return newer.extract(tree)

        def restore(wire: Any, parameters: Mapping[str, str]) -> Any:
            try:
                tree = self._up(wire)
            except (DecodeError, A2AError):
                return wire  # null: there is no content; or invalid: its receiver reports the error
            return self._down(newer.restore(tree, parameters))

        return Beside(extract, restore)


class _Requests(_Half):
    """The request half of a row."""

    __slots__ = ()

    def decode(self, wire: Any) -> Any:
        """Raises INVALID_PARAMS with the member names of 0.1."""
        try:
            return self._inner.decode_request(self._up(wire))
        except DecodeError as error:
            raise invalid_params(error.path, error.problem) from None
        except A2AError as error:
            raise _rename(error) from None
        except RecursionError:
            raise invalid_params("", _TOO_DEEP) from None

    def encode(self, message: Any) -> Any:
        """Raises INVALID_PARAMS for content of another version that is nested too deeply for 0.1."""
        try:
            return self._down(self._inner.encode_request(message))
        except RecursionError:
            raise invalid_params("", _TOO_DEEP) from None


class _Responses(_Half):
    """The response half of a row."""

    __slots__ = ()

    def decode(self, wire: Any) -> Any:
        """Raises INVALID_AGENT_RESPONSE, and TASK_NOT_FOUND for null as the response to a query."""
        try:
            return self._inner.decode_response(self._up(wire))
        except DecodeError as error:
            text = f"the agent's answer is not what 0.1 has for {self._inner.operation.name}: {error}"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from None
        except RecursionError:
            raise _deep_answer() from None

    def encode(self, message: Any) -> Any:
        """Raises INVALID_AGENT_RESPONSE for content that is nested too deeply for 0.1."""
        try:
            return self._down(self._inner.encode_response(message))
        except RecursionError:
            raise _deep_answer() from None


_TOO_DEEP = "is nested too deeply"


def _deep_answer() -> A2AError:
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"the agent's answer {_TOO_DEEP}", blame=Blame.PEER)


def _require(decode: Tree, *names: str) -> Tree:
    """`decode` for parameters whose members have other names in later versions, or are optional there."""

    def decode_checked(wire: Any) -> Any:
        if type(wire) is dict:
            for name in names:
                if wire.get(name) in (None, ""):
                    raise DecodeError(name, "is required")
        return decode(wire)

    return decode_checked


def _task_or_null(wire: Any) -> Any:
    if wire is None:
        raise A2AError(Reason.TASK_NOT_FOUND, blame=Blame.PEER)
    return messages.decode_task(wire)


def _config_or_null(wire: Any) -> Any:
    config = wire.get("pushNotificationConfig") if type(wire) is dict else None
    if wire is None or (type(wire) is dict and not config):
        raise A2AError(Reason.TASK_NOT_FOUND, "the task has no push notification config", blame=Blame.PEER)
    return decode_task_config(wire)


_EVENTS = (messages.decode_event, messages.encode_event)
_SEND = (_require(decode_send, "id", "message"), encode_send)
_ID = (_require(decode_id, "id"), encode_id)
_QUERY = (_require(decode_query, "id"), encode_query)
_CONFIG = (_require(decode_task_config, "id"), encode_task_config)
_CONFIG_QUERY = (_require(decode_config_query, "id"), encode_config_query)
_CONFIG_OR_NULL = (_config_or_null, encode_task_config)
_TASK = (messages.decode_task, messages.encode_task)
_TASK_OR_NULL = (_task_or_null, messages.encode_task)
_RESULT = (messages.decode_result, messages.encode_result)

#: the JSON-RPC methods
ROWS: tuple[Row[str, Any], ...] = (
    _row("tasks/send", "message/send", _SEND, _RESULT),
    _row("tasks/sendSubscribe", "message/stream", _SEND, _EVENTS),
    _row("tasks/get", "tasks/get", _QUERY, _TASK_OR_NULL),
    _row("tasks/cancel", "tasks/cancel", _ID, _TASK),
    _row("tasks/pushNotification/set", "tasks/pushNotificationConfig/set", _CONFIG, _CONFIG_OR_NULL),
    _row("tasks/pushNotification/get", "tasks/pushNotificationConfig/get", _CONFIG_QUERY, _CONFIG_OR_NULL),
    _row("tasks/resubscribe", "tasks/resubscribe", _ID, _EVENTS),
)


def _encode(event: hub.StreamResponse) -> JsonObject:
    """The body for an event; a task is unchanged."""
    tree: Any = newer_shapes.EVENT.encode(event)
    if tree.get("kind") == "task":
        made: JsonObject = messages.encode_task(tree)
    else:
        made = messages.encode_event(tree)
    return made


def decode(body: JsonObject) -> hub.StreamResponse:
    """The event in a body. Raises INVALID_PARAMS."""
    if type(body) is dict and "taskId" in body and "id" not in body:
        wire = {name: value for name, value in body.items() if name != "taskId"}
        body = {**wire, "id": body["taskId"]}
    if type(body) is not dict or type(body.get("id")) is not str:
        raise invalid_params("id", "is required")
    try:
        event: hub.StreamResponse = _decode(body)
    except RecursionError:
        raise invalid_params("", "is nested too deeply") from None
    return event


def _newer(body: JsonObject) -> Any:
    """The body as an event of 0.3. A task without artifacts, history and session looks like a status
    event, but has no `final`.
    """
    is_task = "status" in body and not body.keys() & {"artifact", "final", "eventType"}
    return messages.decode_result(body) if is_task else messages.decode_event(body)


encode: Any = response_encoder(hub.StreamResponse, _encode)
_decode = request_decoder(Conversion(_encode, lambda body: newer_shapes.EVENT.decode(_newer(body))))

PUSH_FORM = PushForm("application/json", encode, decode, whole_tasks=True)
