"""The HTTP+JSON rows of 0.3: operations, rules below /v1 and JSON trees. Not the form's errors.

Rules:
1. Two spellings meet here. The proto of 0.3 implies ProtoJSON of a2a.v1 (`content`, ROLE_USER), and implementations
   speak that; the specification's text (0.3.0, 3.5.3) implies the objects of JSON-RPC (`parts`, `kind`, "user"). A
   request tells which it is by what it says, and is answered in the same. What tells nothing is ProtoJSON.
2. Of ProtoJSON all names are read that it ever had: those of 0.2.5 (`request`, `msg`, `update`) and snake_case.
3. Trees hold bare ids, as the paths do; resource names stand in bodies only.
4. A configuration to register may come bare, within `config`, or beside its task's id.
5. Tasks are listed as the text says (GET /v1/tasks, a bare array), for callers. Agents that do so are unheard of, so
   it is not asked of them.
6. As over gRPC, a caller that writes base64 into the bytes of files gets it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.values import describe
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.dialects.dialect import HttpAddress, HttpRule, Row
from a2a_bridge.dialects.v0_3 import events, messages, names, params, proto_card, push_configs, requests
from a2a_bridge.dialects.v0_3 import proto_asides as asides
from a2a_bridge.dialects.v0_3.proto_files import Files
from a2a_bridge.dialects.v0_3.proto_messages import Notes
from a2a_bridge.dialects.v0_3.proto_residue import EVENT, SEND, SENT, TASK, Pair, decode_tree, encode_tree
from a2a_bridge.dialects.v0_3.proto_rows import (
    CONFIG,
    CONFIGS,
    CREATE_CONFIG,
    EMPTY,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
    writes_base64,
)
from a2a_bridge.dialects.v0_3.proto_trees import tree_of, without_unknown
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty

Coder = Callable[[Any], Any]
HttpRow = Row[HttpAddress, Any]

_LISTED = Pair(hub.ListTasksResponse, hub.ListTasksResponse, lambda *_: None, lambda *_: None)
_PAGE = 100
"""Tasks in an answer that has no way to say that there are more."""

_decode_listing = decoder(hub.ListTasksRequest)


# --- addresses -------------------------------------------------------------------------------------------------


def _get(template: str, **query: str) -> HttpRule:
    return HttpRule("GET", template, body=False, query=query)


def _post(template: str, **query: str) -> HttpRule:
    return HttpRule("POST", template, body=True, query=query)


_CONFIGS_PATH = "/v1/tasks/{taskId}/pushNotificationConfigs"

_ADDRESSES: dict[Any, tuple[HttpRule, ...]] = {
    ops.SEND_MESSAGE: (_post("/v1/message:send"),),
    ops.SEND_STREAMING_MESSAGE: (_post("/v1/message:stream"),),
    ops.GET_TASK: (_get("/v1/tasks/{id}", historyLength="int"),),
    ops.LIST_TASKS: (
        _get(
            "/v1/tasks",
            contextId="string",
            status="enum",
            pageSize="int",
            pageToken="string",
            historyLength="int",
        ),
    ),
    ops.CANCEL_TASK: (_post("/v1/tasks/{id}:cancel"),),
    # The proto's rule says GET, the text says POST.
    ops.SUBSCRIBE_TO_TASK: (_get("/v1/tasks/{id}:subscribe"), _post("/v1/tasks/{id}:subscribe")),
    ops.CREATE_PUSH_CONFIG: (
        _post(_CONFIGS_PATH, configId="string"),
        # The proto's rule is misspelt like this in the tags v0.2.5 and v0.3.0.
        _post("/v1/task/{taskId}/pushNotificationConfigs", configId="string"),
    ),
    ops.GET_PUSH_CONFIG: (_get(_CONFIGS_PATH + "/{id}"),),
    ops.LIST_PUSH_CONFIGS: (_get(_CONFIGS_PATH, pageSize="int", pageToken="string"),),
    ops.DELETE_PUSH_CONFIG: (HttpRule("DELETE", _CONFIGS_PATH + "/{id}", body=False),),
    ops.GET_EXTENDED_AGENT_CARD: (_get("/v1/card"),),
}


# --- which spelling --------------------------------------------------------------------------------------------


def says_kind(tree: Any) -> bool:
    """Whether an object (a message, a task, an event) is spelled as in JSON-RPC; False where nothing tells."""
    if type(tree) is not dict or "content" in tree:
        return False
    if "kind" in tree or "parts" in tree:
        return "artifactId" not in tree or "kind" in tree
    role, status = tree.get("role"), tree.get("status")
    if type(role) is str and role in ("user", "agent"):
        return True
    state = status.get("state") if type(status) is dict else None
    return type(state) is str and not state.startswith("TASK_STATE_")


def _sent_in_kind(tree: Any) -> bool:
    return type(tree) is dict and says_kind(tree.get("message"))


def _canceled_in_kind(tree: Any) -> bool:
    return type(tree) is dict and "metadata" in tree and "name" not in tree


def _created_in_kind(tree: Any) -> bool:
    return (
        type(tree) is dict
        and "pushNotificationConfig" in tree
        and not {"name", "parent", "config", "configId"} & tree.keys()
    )


# --- ProtoJSON -------------------------------------------------------------------------------------------------


def _object(tree: Json) -> JsonObject:
    if type(tree) is not dict:
        raise DecodeError("", f"expected an object, got {describe(tree)}")
    return tree


def _from_proto(pair: Pair, tree: JsonObject) -> Any:
    message = pair.hub()
    pair.decode(decoder(pair.wire)(tree), message, Notes())
    return message


def _to_proto(pair: Pair, message: Any) -> Any:
    plain = pair.wire()
    pair.encode(message, plain, Notes())
    return encoder(pair.wire)(plain)


def _decode_cancel(tree: Json) -> hub.CancelTaskRequest:
    tree = _object(tree)
    name = tree.get("name")
    if name is not None and (type(name) is not str or names.decode_task(name) != tree.get("id")):
        raise invalid_params("name", "is not what the path says")
    made: hub.CancelTaskRequest = params.decode_cancel(
        {key: value for key, value in tree.items() if key != "name"}
    )
    return made


def _encode_cancel(request: hub.CancelTaskRequest) -> JsonObject:
    tree = params.encode_cancel(request)
    return {**tree, "name": names.encode_task(request.id)}


def _decode_create(tree: Json) -> hub.TaskPushNotificationConfig:
    config: hub.TaskPushNotificationConfig = _from_proto(CREATE_CONFIG, _create_request(tree))
    if not config.url:
        raise invalid_params("config.pushNotificationConfig.url", "is required")
    return config


def _encode_create(config: hub.TaskPushNotificationConfig) -> JsonObject:
    return {"taskId": config.task_id, **_to_proto(CREATE_CONFIG, config)}


def _create_request(tree: Json) -> JsonObject:
    """Any of the bodies as CreateTaskPushNotificationConfigRequest."""
    tree = dict(_object(tree))
    task_id = tree.pop("taskId", None)
    rest = {name: tree.pop(name) for name in ("parent", "configId", "config_id") if name in tree}
    if type(task_id) is str and task_id:
        parent = rest.setdefault("parent", names.encode_task(task_id))
        if type(parent) is str and parent and names.decode_parent(parent) != task_id:
            raise invalid_params("parent", "is not what the path says")
    if "config" in tree:
        return {**tree, **rest}
    if "pushNotificationConfig" not in tree and "push_notification_config" not in tree:
        tree = {"pushNotificationConfig": tree}
    return {**rest, "config": tree}


def _create_aside(tree: Any) -> Mapping[str, str]:
    # By the names of the proto, whatever spelling was used: it is to fit answers.
    return asides.tell(CREATE_CONFIG, tree_of(decoder(CREATE_CONFIG.wire)(_create_request(tree))))


def _create_recall(tree: Any, told: Mapping[str, str]) -> Any:
    recalled = asides.recall(CREATE_CONFIG, _create_request(tree), told)
    return {"taskId": tree.get("taskId"), **without_unknown(recalled)}


def _decode_config(tree: Json) -> hub.TaskPushNotificationConfig:
    tree = _object(tree)
    if "taskId" in tree:
        return push_configs.decode_push_config(tree)
    config: hub.TaskPushNotificationConfig = _from_proto(CONFIG, tree)
    return config


def _decode_configs(tree: Json) -> hub.ListTaskPushNotificationConfigsResponse:
    if type(tree) is list:
        return hub.ListTaskPushNotificationConfigsResponse(configs=[_decode_config(item) for item in tree])
    tree = _object(tree)
    made: hub.ListTaskPushNotificationConfigsResponse = _from_proto(CONFIGS, {**tree, "configs": []})
    configs = tree.get("configs")
    if configs is not None and type(configs) is not list:
        raise DecodeError("configs", f"expected an array, got {describe(configs)}")
    made.configs.extend(_decode_config(item) for item in configs or ())
    return made


def _string(tree: JsonObject, name: str) -> str:
    value = tree.get(name)
    if type(value) is not str or not value:
        raise invalid_params(
            name, "is required" if not value else f"expected a string, got {describe(value)}"
        )
    return value


def _decode_listing_of(tree: Json) -> hub.ListTasksRequest:
    tree = {"pageSize": _PAGE, **_object(tree)}
    if tree.get("status") == "TASK_STATE_CANCELLED":
        tree["status"] = "TASK_STATE_CANCELED"
    request = _decode_listing(tree)
    request.include_artifacts = True
    return request


def _encode_listing(_: Any) -> Any:
    text = "version 0.3 has no ListTasks"
    raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"operation": ops.LIST_TASKS.name})


def _encode_listed(files: Files, listed: hub.ListTasksResponse) -> Json:
    return [encode_tree(TASK, task, files) for task in listed.tasks]


def _decode_listed(tree: Json) -> hub.ListTasksResponse:
    if type(tree) is not list:
        raise DecodeError("", f"expected an array, got {describe(tree)}")
    tasks = [_decode_task(Files.RAW, task) for task in tree]
    return hub.ListTasksResponse(tasks=tasks, page_size=len(tasks), total_size=len(tasks))


# --- answers, in either spelling -------------------------------------------------------------------------------

_MEMBERS = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
_KINDS = {member: kind for kind, member in _MEMBERS.items()} | {
    "msg": "message",
    "status_update": "status-update",
    "artifact_update": "artifact-update",
}


def _decode_task(files: Files, tree: Json) -> hub.Task:
    task: hub.Task = (
        messages.decode_task(tree) if says_kind(tree) else decode_tree(TASK, _object(tree), files)
    )
    return task


def _decode_sent(files: Files, tree: Json) -> hub.SendMessageResponse:
    found = _in_kind(tree)
    made: hub.SendMessageResponse = (
        decode_tree(SENT, _object(tree), files) if found is None else events.decode_result(found)
    )
    return made


def _decode_event(files: Files, tree: Json) -> hub.StreamResponse:
    found = _in_kind(tree)
    made: hub.StreamResponse = (
        decode_tree(EVENT, _object(tree), files) if found is None else events.decode_event(found)
    )
    return made


def _in_kind(tree: Json) -> JsonObject | None:
    """The object an answer holds, where it is spelled as in JSON-RPC; agents may leave its wrapper out."""
    if type(tree) is not dict:
        return None
    if type(tree.get("kind")) is str:
        return tree
    for member, value in tree.items():
        if len(tree) == 1 and member in _KINDS and says_kind(value):
            return {"kind": _KINDS[member], **value}
    return None


def _wrapped(encode: Coder, message: Any) -> JsonObject:
    tree = encode(message)
    return {_MEMBERS[tree["kind"]]: tree}


def _null_or_empty(tree: Json) -> Empty:
    if tree is not None and type(tree) is not dict:
        raise DecodeError("", f"expected an object, got {describe(tree)}")
    return Empty()


# --- rows ------------------------------------------------------------------------------------------------------


def _row(
    operation: ops.Operation[Any, Any],
    request: tuple[Pair, Coder, Coder],
    response: tuple[Pair, Coder, Coder],
    **beside: Any,
) -> HttpRow:
    """request, response: for the names in error texts, how each is encoded, and decoded."""
    return Row(
        operation,
        HttpAddress(_ADDRESSES[operation]),
        encode_request=request_encoder(request[1]),
        decode_request=request_decoder(request[0], request[2]),
        encode_response=response_encoder(response[1]),
        decode_response=response_decoder(response[0], response[2]),
        **beside,
    )


def _plain(cls: Any) -> Pair:
    return Pair(cls, cls, lambda *_: None, lambda *_: None)


def _request(cls: Any, encode: Coder, decode: Coder) -> tuple[Pair, Coder, Coder]:
    return _plain(cls), encode, decode


def _ids(cls: Any, *members: str) -> tuple[Pair, Coder, Coder]:
    """A request that says ids, and little else, in the hub's names."""
    decode_hub, encode_hub = decoder(cls), encoder(cls)

    def decode(tree: Json) -> Any:
        given = _object(tree)
        for name in members:
            _string(given, name)
        return decode_hub({name: value for name, value in given.items() if name != "tenant"})

    def encode(message: Any) -> JsonObject:
        tree = {name: value for name, value in encode_hub(message).items() if name != "tenant"}
        for name in members:
            _string(tree, name)
        return tree

    return _request(cls, encode, decode)


def _proto_rows(files: Files) -> dict[Any, HttpRow]:
    send = (SEND, lambda message: encode_tree(SEND, message, files), partial(_decode_send, files))
    sent = (SENT, lambda message: encode_tree(SENT, message, files), partial(_decode_sent, files))
    event = (EVENT, lambda message: encode_tree(EVENT, message, files), partial(_decode_event, files))
    task = (TASK, lambda message: encode_tree(TASK, message, files), partial(_decode_task, files))
    config = (CONFIG, partial(_to_proto, CONFIG), _decode_config)
    about_config: dict[str, Any] = {
        "aside_response": partial(asides.tell, CONFIG),
        "recall_response": lambda tree, told: without_unknown(asides.recall(CONFIG, tree, told)),
    }
    rows = (
        _row(ops.SEND_MESSAGE, send, sent),
        _row(ops.SEND_STREAMING_MESSAGE, send, event),
        _row(ops.GET_TASK, _history(_ids(hub.GetTaskRequest, "id")), task),
        _row(
            ops.LIST_TASKS,
            _request(hub.ListTasksRequest, _encode_listing, _decode_listing_of),
            (_LISTED, partial(_encode_listed, files), _decode_listed),
        ),
        _row(ops.CANCEL_TASK, _request(hub.CancelTaskRequest, _encode_cancel, _decode_cancel), task),
        _row(ops.SUBSCRIBE_TO_TASK, _ids(hub.SubscribeToTaskRequest, "id"), event),
        _row(
            ops.CREATE_PUSH_CONFIG,
            (CREATE_CONFIG, _encode_create, _decode_create),
            config,
            aside=_create_aside,
            recall=_create_recall,
            **about_config,
        ),
        _row(
            ops.GET_PUSH_CONFIG,
            _ids(hub.GetTaskPushNotificationConfigRequest, "taskId", "id"),
            config,
            **about_config,
        ),
        _row(
            ops.LIST_PUSH_CONFIGS,
            _ids(hub.ListTaskPushNotificationConfigsRequest, "taskId"),
            (CONFIGS, partial(_to_proto, CONFIGS), _decode_configs),
            aside_response=_list_aside,
            recall_response=_list_recall,
        ),
        _row(
            ops.GET_EXTENDED_AGENT_CARD,
            _request(
                hub.GetExtendedAgentCardRequest, lambda _: {}, lambda _: hub.GetExtendedAgentCardRequest()
            ),
            (proto_card.PAIR, proto_card.encode_json, proto_card.decode_json),
        ),
        _row(
            ops.DELETE_PUSH_CONFIG,
            _ids(hub.DeleteTaskPushNotificationConfigRequest, "taskId", "id"),
            (EMPTY, lambda _: {}, _null_or_empty),
        ),
    )
    return {row.operation: row for row in rows}


def _decode_send(files: Files, tree: Json) -> Any:
    return decode_tree(SEND, _object(tree), files)


def _history(request: tuple[Pair, Coder, Coder]) -> tuple[Pair, Coder, Coder]:
    """historyLength: 0 is "not said" in a2a.v1, and negative is nothing."""
    pair, encode, decode = request

    def decode_request(tree: Json) -> Any:
        message = decode(tree)
        if message.history_length < 0:
            raise invalid_params("historyLength", "has to be 0 or more")
        if not message.history_length:
            message.ClearField("history_length")
        return message

    return pair, encode, decode_request


def _list_aside(tree: Any) -> Mapping[str, str]:
    return asides.tell_list(CONFIG, tree, "configs") if type(tree) is dict else {}


def _list_recall(tree: Any, told: Mapping[str, str]) -> Any:
    return without_unknown(asides.recall_list(CONFIG, tree, told, "configs"))


def _kind_row(
    proto: HttpRow,
    request: tuple[Coder, Coder],
    response: tuple[Coder, Coder],
    source: Row[str, Any] | None = None,
) -> HttpRow:
    """The same row in the spelling of JSON-RPC. source: the row there, for what travels beside the messages."""
    operation = proto.operation
    beside: dict[str, Any] = dict.fromkeys(("aside", "recall", "aside_response", "recall_response"))
    if source is not None:
        beside = {name: getattr(source, name) for name in beside}
    return Row(
        operation,
        proto.address,
        requests.request_encoder(operation.request, request[0]),
        requests.request_decoder(request[1]),
        requests.response_encoder(operation.response, response[0]),
        requests.response_decoder(operation.response, response[1]),
        **beside,
    )


def _kind_rows(proto: Mapping[Any, HttpRow]) -> dict[Any, tuple[Callable[[Any], bool], HttpRow]]:
    of_rpc = {row.operation: row for row in requests.ROWS}
    send = (params.encode_send, params.decode_send)
    task = (messages.encode_task, messages.decode_task)
    sent = (partial(_wrapped, events.encode_result), partial(_decode_sent, Files.RAW))
    event = (partial(_wrapped, events.encode_event), partial(_decode_event, Files.RAW))
    config = (push_configs.encode_push_config, push_configs.decode_push_config)
    return {
        ops.SEND_MESSAGE: (_sent_in_kind, _kind_row(proto[ops.SEND_MESSAGE], send, sent)),
        ops.SEND_STREAMING_MESSAGE: (
            _sent_in_kind,
            _kind_row(proto[ops.SEND_STREAMING_MESSAGE], send, event),
        ),
        ops.CANCEL_TASK: (
            _canceled_in_kind,
            _kind_row(proto[ops.CANCEL_TASK], (params.encode_cancel, params.decode_cancel), task),
        ),
        ops.CREATE_PUSH_CONFIG: (
            _created_in_kind,
            _kind_row(proto[ops.CREATE_PUSH_CONFIG], config, config, of_rpc[ops.CREATE_PUSH_CONFIG]),
        ),
    }


def _spelled(raw: HttpRow, base64: HttpRow, kind: tuple[Callable[[Any], bool], HttpRow] | None) -> HttpRow:
    def choose(tree: Any, parameters: Mapping[str, str]) -> HttpRow:
        if kind is not None and kind[0](tree):
            return kind[1]
        return base64 if writes_base64(parameters) else raw

    return replace(raw, spelled=choose)


_RAW = _proto_rows(Files.RAW)
_BASE64 = _proto_rows(Files.BASE64)
_KIND = _kind_rows(_RAW)

#: for agents that put base64 text into the bytes of files
BASE64_ROWS: tuple[HttpRow, ...] = tuple(_BASE64.values())
ROWS: tuple[HttpRow, ...] = tuple(
    _spelled(row, _BASE64[operation], _KIND.get(operation)) for operation, row in _RAW.items()
)
