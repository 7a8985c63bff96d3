"""Params of the requests of 0.3 over JSON-RPC, `kind` shape ↔ hub (spec 0.3.0, 7). Not the rows they belong to, nor
their results.

Rules:
1. `blocking` is the reverse of `returnImmediately`. A request that does not say waits in 1.0; in 0.x some agents do
   not. So it is written out wherever there is a configuration, as the official SDKs do, and for all callers of 1.0.
2. historyLength goes through as it is; what is larger than the hub can say is as much as it can say. A negative one is
   for the agent to refuse: the schema allows it. 0 in tasks/get is read as absent, as the servers of the Python and Java
   SDKs do: the Java client sends it with every request (a2a-java 0.3.3.Final, TaskQueryParams.java:20).
3. Requests with metadata in the hub are units. What the others cannot hold is told aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.structs import LEVELS, read_struct
from a2a_bridge.codec.values import describe
from a2a_bridge.codec.wire import VARINT
from a2a_bridge.core.call import ASIDE_PARAMETER
from a2a_bridge.dialects import scalars, unmapped
from a2a_bridge.dialects.irregular import Reader, Shape, decode_with, restored, text_with
from a2a_bridge.dialects.scalars import LONGEST, SHORTEST, strings, struct
from a2a_bridge.dialects.unmapped import KEY, KIND, PROTO
from a2a_bridge.dialects.v0_3.push_configs import (
    check_aside,
    decode_inner,
    encode_inner,
    read_inner,
    read_push_config,
    schemes_told,
)
from a2a_bridge.dialects.v0_3.shapes import CALLERS_MESSAGE
from a2a_bridge.pb import lf_a2a_v1 as hub

_callers_message_text = text_with(CALLERS_MESSAGE)


def write_send(tree: Any) -> str:
    """Wire text of canonical MessageSendParams. Raises Irregular for any others."""
    get = tree.get
    rest = len(tree)
    out = ""
    value = get("message")
    if value is not None:
        rest -= 1
        body = _callers_message_text(value)
        out = f"\x12{VARINT[len(body)]}{body}"
        if not rest:
            return out
    value = get("configuration")
    if value is not None:
        rest -= 1
        body = _configuration(value)
        out += f"\x1a{VARINT[len(body)]}{body}"
        if not rest:
            return out
    value = get("metadata")
    if value is not None:
        rest -= 1
        if KEY in value:
            raise Irregular
        body = struct(value, LEVELS)
        out += f'"{VARINT[len(body)]}{body}'
    if rest:
        raise Irregular
    return out


def _configuration(tree: Any) -> str:
    get = tree.get
    rest = len(tree)
    out = ""
    value = get("acceptedOutputModes")
    if value is not None:
        rest -= 1
        out = strings(value, "\n")
    value = get("pushNotificationConfig")
    if value is not None:
        rest -= 1
        body = _push_config(value)
        out += f"\x12{VARINT[len(body)]}{body}"
    value = get("historyLength")
    if value is not None:
        rest -= 1
        if type(value) is not int or not SHORTEST <= value <= LONGEST:
            raise Irregular
        out += f"\x18{VARINT[value]}"
    value = get("blocking")
    if value is False:
        out += " \1"
    elif value is not True:
        raise Irregular
    if rest != 1:
        raise Irregular
    return out


def _push_config(tree: Any) -> str:
    if type(tree) is not dict:
        raise Irregular
    reader = Reader(tree)
    _read_nested_config(reader)
    if reader.problems or not unmapped.same(reader.tree, tree):
        raise Irregular
    return decode_inner(tree).SerializeToString().decode("latin-1")


def encode_send(request: Any) -> JsonObject:
    """MessageSendParams as a 0.x peer gets them. Raises ValueError for what JSON cannot say."""
    tree: JsonObject = {}
    if request.HasField("message"):
        tree["message"] = CALLERS_MESSAGE.encode(request.message)
    if request.HasField("configuration"):
        tree["configuration"] = _encode_configuration(request.configuration)
    if request.HasField("metadata"):
        metadata = read_struct(request.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:
            return restored(SEND, tree)
    return tree


def explicit_send(tree: Any, older: bool) -> Any:
    """MessageSendParams with defaults that not all agents of 0.x share.

    fasta2a 0.6 answers 500 to a configuration without media types. a2akit 0.0.32 does not wait unless told to, which is
    the default of 1.0 only: callers of 0.x keep the agent's default.
    """
    said = tree.get("configuration")
    if not older:
        return {**tree, "configuration": {"acceptedOutputModes": [], "blocking": True, **(said or {})}}
    if not said or "acceptedOutputModes" in said:
        return tree
    return {**tree, "configuration": {"acceptedOutputModes": [], **said}}


def _encode_configuration(configuration: Any) -> JsonObject:
    tree: JsonObject = {}
    value = configuration.accepted_output_modes
    if value:
        tree["acceptedOutputModes"] = value[:]
    if configuration.HasField("task_push_notification_config"):
        config = configuration.task_push_notification_config
        inner = tree["pushNotificationConfig"] = encode_inner(config)
        if config.task_id:
            inner["taskId"] = config.task_id
        if config.tenant:
            inner["tenant"] = config.tenant
    if configuration.HasField("history_length"):
        tree["historyLength"] = configuration.history_length
    tree["blocking"] = not configuration.return_immediately
    return tree


def _read_send(reader: Reader) -> None:
    reader.unit("message")
    given = reader.object("configuration")
    if given is not None:
        inner = Reader(given, f"{reader.path}.configuration" if reader.path else "configuration")
        inner.strings("acceptedOutputModes")
        _read_history_length(inner)
        blocking = given.get("blocking")
        if blocking is not None and type(blocking) is not bool:
            inner.expected("blocking", "true or false")
        inner.tree["blocking"] = blocking is not False
        nested = inner.object("pushNotificationConfig")
        if nested is not None:
            config = Reader(nested, f"{inner.path}.pushNotificationConfig")
            _read_nested_config(config)
            inner.tree["pushNotificationConfig"] = inner.within(config)
        reader.tree["configuration"] = reader.within(inner)
    reader.metadata()


def _read_nested_config(reader: Reader) -> None:
    read_inner(reader)
    reader.later("taskId")
    reader.later("tenant")


def _read_history_length(reader: Reader) -> None:
    value = reader.given.get("historyLength")
    if value is None:
        return
    length = scalars.history_length(value)
    if length is None:
        got = "a fraction" if isinstance(value, float) else describe(value)
        reader.wrong("historyLength", f"expected an integer, got {got}")
    else:
        reader.tree["historyLength"] = length


def _send_inside(tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    if "message" in tree:
        yield "message", CALLERS_MESSAGE, tree["message"]


def write_cancel(tree: Any) -> str:
    """Wire text of canonical TaskIdParams for a cancellation. Raises Irregular for any others."""
    seen = 1
    value = tree.get("id")
    if type(value) is not str:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    out = f"\x12{VARINT[len(value)]}{value}"
    value = tree.get("metadata")
    if value is not None:
        seen += 1
        if KEY in value:
            raise Irregular
        body = struct(value, LEVELS)
        out += f"\x1a{VARINT[len(body)]}{body}"
    if seen != len(tree):
        raise Irregular
    return out


def encode_cancel(request: Any) -> JsonObject:
    """TaskIdParams as a 0.x peer gets them. Raises ValueError for what JSON cannot say."""
    tree: JsonObject = {"id": request.id}
    if request.HasField("metadata"):
        metadata = read_struct(request.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:
            return restored(CANCEL, tree)
    return tree


def _read_cancel(reader: Reader) -> None:
    reader.string("id", required=True)
    reader.metadata()


SEND = Shape(hub.SendMessageRequest, '"', _read_send, write_send, encode_send, _send_inside)
CANCEL = Shape(hub.CancelTaskRequest, "\x1a", _read_cancel, write_cancel, encode_cancel)

send_text = text_with(SEND)
cancel_text = text_with(CANCEL)
decode_send = decode_with(SEND, send_text)
decode_cancel = decode_with(CANCEL, cancel_text)


class Params:
    """Params whose hub message has no metadata: what it cannot hold is told aside.

    read: makes canonical params of any. message: the hub's message of canonical ones.
    """

    def __init__(self, read: Callable[[Json], Reader], message: Callable[[JsonObject], Any]) -> None:
        self._read = read
        self._message = message

    def decode(self, tree: Json) -> Any:
        """JSON tree → message. Raises DecodeError."""
        reader = self._read(tree)
        if reader.problems:
            raise DecodeError.of(reader.problems)
        return self._message(reader.tree)

    def aside(self, tree: Json) -> Mapping[str, str]:
        """What these params say and the message does not. Raises INVALID_PARAMS for what is too much."""
        reader = self._read(tree)
        return {} if reader.problems else check_aside(tree, reader.tree)

    def recall(self, tree: Json, parameters: Mapping[str, str]) -> Json:
        """Canonical params with what was told aside. Changes them in place."""
        text = parameters.get(ASIDE_PARAMETER)
        made: Json = unmapped.restore(tree, unmapped.read(text, KIND) or schemes_told(text, PROTO))
        return made


def _params(*strings: str, length: bool = False) -> Callable[[Json], Reader]:
    first, *others = strings

    def read(tree: Json) -> Reader:
        if type(tree) is not dict:
            reader = Reader({})
            reader.wrong("", f"expected an object, got {describe(tree)}")
            return reader
        reader = Reader(tree)
        reader.string(first, required=True)
        for name in others:
            reader.string(name)
        if length:
            _read_history_length(reader)
        return reader

    return read


def _get_task(tree: JsonObject) -> hub.GetTaskRequest:
    request = hub.GetTaskRequest(id=tree["id"])
    if "historyLength" in tree:
        request.history_length = tree["historyLength"]
    return request


def decode_get_task(tree: Json) -> hub.GetTaskRequest:
    """TaskQueryParams, in which a historyLength of 0 is none. Raises DecodeError."""
    request: hub.GetTaskRequest = GET_TASK.decode(tree)
    if not request.history_length:
        request.ClearField("history_length")
    return request


def encode_get_task(request: hub.GetTaskRequest) -> JsonObject:
    """TaskQueryParams."""
    tree: JsonObject = {"id": request.id}
    if request.HasField("history_length"):
        tree["historyLength"] = request.history_length
    return tree


def encode_subscribe(request: hub.SubscribeToTaskRequest) -> JsonObject:
    """TaskIdParams."""
    return {"id": request.id}


def encode_get_push_config(request: hub.GetTaskPushNotificationConfigRequest) -> JsonObject:
    """GetTaskPushNotificationConfigParams, or TaskIdParams for no config in particular."""
    tree: JsonObject = {"id": request.task_id}
    if request.id:
        tree["pushNotificationConfigId"] = request.id
    return tree


def encode_list_push_configs(request: hub.ListTaskPushNotificationConfigsRequest) -> JsonObject:
    """ListTaskPushNotificationConfigParams."""
    return {"id": request.task_id}


def encode_delete_push_config(request: hub.DeleteTaskPushNotificationConfigRequest) -> JsonObject:
    """DeleteTaskPushNotificationConfigParams."""
    return {"id": request.task_id, "pushNotificationConfigId": request.id}


def _read_delete(tree: Json) -> Reader:
    reader = _params("id")(tree)
    if type(tree) is dict:
        reader.string("pushNotificationConfigId", required=True)
    return reader


def _push_config_message(tree: JsonObject) -> hub.TaskPushNotificationConfig:
    config = decode_inner(tree["pushNotificationConfig"])
    config.task_id = tree["taskId"]
    config.tenant = tree.get("tenant", "")
    return config


GET_TASK = Params(_params("id", length=True), _get_task)
SUBSCRIBE = Params(_params("id"), lambda tree: hub.SubscribeToTaskRequest(id=tree["id"]))
SET_PUSH_CONFIG = Params(read_push_config, _push_config_message)
GET_PUSH_CONFIG = Params(
    _params("id", "pushNotificationConfigId"),
    lambda tree: hub.GetTaskPushNotificationConfigRequest(
        task_id=tree["id"], id=tree.get("pushNotificationConfigId", "")
    ),
)
LIST_PUSH_CONFIGS = Params(
    _params("id"), lambda tree: hub.ListTaskPushNotificationConfigsRequest(task_id=tree["id"])
)
DELETE_PUSH_CONFIG = Params(
    _read_delete,
    lambda tree: hub.DeleteTaskPushNotificationConfigRequest(
        task_id=tree["id"], id=tree["pushNotificationConfigId"]
    ),
)

decode_subscribe = SUBSCRIBE.decode
decode_get_push_config = GET_PUSH_CONFIG.decode
decode_list_push_configs = LIST_PUSH_CONFIGS.decode
decode_delete_push_config = DELETE_PUSH_CONFIG.decode
