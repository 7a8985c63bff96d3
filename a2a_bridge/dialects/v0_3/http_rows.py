"""HTTP+JSON of 0.3: rows with rules below /v1, and requests in their many body formats. Not the form's
errors.

Rules:
1. Two variants are in use. The proto of 0.3 implies ProtoJSON of a2a.v1 (`content`, ROLE_USER), which
   implementations use; the specification's text (0.3.0, 3.5.3) implies the objects of JSON-RPC (`parts`,
   `kind`, "user"). The members of a request show its variant, and the response uses the same. A request
   without such members is ProtoJSON.
2. All names that ProtoJSON has had are read: those of 0.2.5 (`request`, `msg`, `update`) and snake_case.
3. Callers can list tasks as the text defines it (GET /v1/tasks, a bare array). No agent is known to support
   it, so it is not sent to agents.
4. As over gRPC, rows that hold files exist for each encoding of their contents (`proto_files`).
5. Trees hold bare ids, as the paths do; resource names occur only in bodies, and must agree with the ids.
6. A configuration to register may be bare, inside `config`, or beside the id of its task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import Json, JsonObject, decoder, encoder
from a2a_bridge.codec.values import base64_wire, describe
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.dialects.boundary import Coder, Conversion, response_decoder, response_encoder, row
from a2a_bridge.dialects.dialect import HttpAddress, HttpRule, Row, RowExtras
from a2a_bridge.dialects.pair import Context, Pair
from a2a_bridge.dialects.scalars import an_array, an_object
from a2a_bridge.dialects.v0_3 import proto_card, requests, shapes
from a2a_bridge.dialects.v0_3.errors import PROTO
from a2a_bridge.dialects.v0_3.proto import (
    EVENT,
    SEND,
    SENT,
    TASK,
    decode_tree,
    encode_tree,
    without_younger_members,
)
from a2a_bridge.dialects.v0_3.proto_files import ENCODINGS, choose_row, in_base64
from a2a_bridge.dialects.v0_3.proto_rows import (
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
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.peers import Files, caller

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


HttpRow = Row[HttpAddress, Any]
Coders = tuple[Coder, Coder]
"""The encoder and the decoder of a message."""

# --- addresses ---


def _get(template: str, **query: str) -> HttpRule:
    return HttpRule("GET", template, body=False, query=query)


def _post(template: str, **query: str) -> HttpRule:
    return HttpRule("POST", template, body=True, query=query)


_CONFIGS_PATH = "/v1/tasks/{taskId}/pushNotificationConfigs"


# --- detection of the variant ---


def says_kind(tree: Any) -> bool:
    """Whether an object (a message, a task, an event) is encoded as in JSON-RPC; False if undetermined."""
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


def _created_in_kind(tree: Any) -> bool:
    return (
        type(tree) is dict
        and "pushNotificationConfig" in tree
        and not {"name", "parent", "config", "configId"} & tree.keys()
    )


def _encode_listed(files: Files, listed: hub.ListTasksResponse) -> Json:
    return [encode_tree(TASK, task, files) for task in listed.tasks]


def _decode_listed(tree: Json) -> hub.ListTasksResponse:
    tasks = [_decode_task(Files.AUTO, task) for task in an_array(tree)]
    return hub.ListTasksResponse(tasks=tasks, page_size=len(tasks), total_size=len(tasks))


# --- answers, in either variant ---

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
    document = an_object(tree)
    task: hub.Task = (
        shapes.TASK.decode(document) if says_kind(document) else decode_tree(TASK, document, files)
    )
    return task


def _decode_either(pair: Pair, decode_kind: Coder, files: Files, tree: Json) -> Any:
    """A response or an event in either variant. decode_kind: the decoder of JSON-RPC."""
    found = _in_kind(tree)
    return decode_tree(pair, an_object(tree), files) if found is None else decode_kind(found)


_decode_sent = partial(_decode_either, SENT, shapes.RESULT.decode)
_decode_event = partial(_decode_either, EVENT, shapes.EVENT.decode)


def _in_kind(tree: Json) -> JsonObject | None:
    """The object in a response with the variant of JSON-RPC; agents may omit its wrapper."""
    if type(tree) is not dict:
        return None
    if type(tree.get("kind")) is str:
        return tree
    for member, value in tree.items():
        if len(tree) == 1 and member in _KINDS and says_kind(value):
            return {"kind": _KINDS[member], **value}
    return None


def _wrap(encode: Coder, message: Any) -> JsonObject:
    tree = encode(message)
    return {_MEMBERS[tree["kind"]]: tree}


def _null_or_empty(tree: Json) -> Empty:
    if tree is not None:
        an_object(tree)
    return Empty()


# --- rows ---


def _row(operation: ops.Operation[Any, Any], request: Coders, response: Coders, *rules: HttpRule) -> HttpRow:
    extras: RowExtras[HttpAddress, Any] = RowExtras(
        strict=without_younger_members, names=PROTO.get(operation)
    )
    return row(operation, HttpAddress(rules), Conversion(*request), Conversion(*response), extras)


#: members of the hub for which 0.3 has no place in a path or query
_LATER = frozenset({"tenant", "currentGeneration"})


def _ids(cls: Any, *members: str) -> Coders:
    """A request that consists mainly of ids, with the names of the hub."""
    decode_hub, encode_hub = decoder(cls), encoder(cls)

    def decode(tree: Json) -> Any:
        document = an_object(tree)
        for name in members:
            a_required_string(document, name)
        return decode_hub({name: value for name, value in document.items() if name not in _LATER})

    def encode(message: Any) -> JsonObject:
        tree = {name: value for name, value in encode_hub(message).items() if name not in _LATER}
        for name in members:
            a_required_string(tree, name)
        return tree

    return encode, decode


def _proto_rows(files: Files) -> dict[Any, HttpRow]:
    def encoder_of(pair: Pair) -> Coder:
        return lambda message: encode_tree(pair, message, files)

    send = (encoder_of(SEND), lambda tree: decode_tree(SEND, an_object(tree), files))
    sent = (encoder_of(SENT), partial(_decode_sent, files))
    event = (encoder_of(EVENT), partial(_decode_event, files))
    task = (encoder_of(TASK), partial(_decode_task, files))
    tasks = (partial(_encode_listed, files), _decode_listed)
    config, configs = (partial(to_proto, CONFIG), decode_config), (partial(to_proto, CONFIGS), decode_configs)
    rows = (
        _row(ops.SEND_MESSAGE, send, sent, _post("/v1/message:send")),
        _row(ops.SEND_STREAMING_MESSAGE, send, event, _post("/v1/message:stream")),
        _row(ops.GET_TASK, _GET_TASK, task, _get("/v1/tasks/{id}", historyLength="int")),
        _row(ops.LIST_TASKS, (encode_listing, decode_listing), tasks, _LISTING),
        _row(ops.CANCEL_TASK, (encode_cancel, decode_cancel), task, _post("/v1/tasks/{id}:cancel")),
        _row(
            ops.SUBSCRIBE_TO_TASK,
            _ids(hub.SubscribeToTaskRequest, "id"),
            event,
            # The proto's rule has GET, the text has POST.
            _get("/v1/tasks/{id}:subscribe"),
            _post("/v1/tasks/{id}:subscribe"),
        ),
        _row(
            ops.CREATE_PUSH_CONFIG,
            (encode_create, decode_create),
            config,
            _post(_CONFIGS_PATH, configId="string"),
            # The proto's rule has this misspelling in the tags v0.2.5 and v0.3.0.
            _post("/v1/task/{taskId}/pushNotificationConfigs", configId="string"),
        ).with_extras(request=CREATE_CHANNEL.request(), response=CONFIG_CHANNEL.response()),
        _row(
            ops.GET_PUSH_CONFIG,
            _ids(hub.GetTaskPushNotificationConfigRequest, "taskId", "id"),
            config,
            _get(_CONFIGS_PATH + "/{id}"),
        ).with_extras(response=CONFIG_CHANNEL.response()),
        _row(
            ops.LIST_PUSH_CONFIGS,
            _ids(hub.ListTaskPushNotificationConfigsRequest, "taskId"),
            configs,
            _get(_CONFIGS_PATH, pageSize="int", pageToken="string"),
        ).with_extras(response=CONFIGS_CHANNEL.response()),
        _row(
            ops.DELETE_PUSH_CONFIG,
            _ids(hub.DeleteTaskPushNotificationConfigRequest, "taskId", "id"),
            (_no_members, _null_or_empty),
            HttpRule("DELETE", _CONFIGS_PATH + "/{id}", body=False),
        ),
        _row(ops.GET_EXTENDED_AGENT_CARD, _GET_CARD, _CARD, _get("/v1/card")),
    )
    return {row.operation: row for row in rows}


def _no_members(_: Any) -> JsonObject:
    return {}


def _history(request: Coders) -> Coders:
    """historyLength: 0 means absent in a2a.v1, and a negative value is rejected."""
    encode, decode = request

    def decode_request(tree: Json) -> Any:
        message = decode(tree)
        if message.history_length < 0:
            raise invalid_params("historyLength", "has to be 0 or more")
        if not message.history_length:
            message.ClearField("history_length")
        return message

    return encode, decode_request


_GET_TASK = _history(_ids(hub.GetTaskRequest, "id"))
_GET_CARD: Coders = (_no_members, lambda _: hub.GetExtendedAgentCardRequest())
_CARD: Coders = (proto_card.encode_json, proto_card.decode_json)
_LISTING = _get(
    "/v1/tasks",
    contextId="string",
    status="enum",
    pageSize="int",
    pageToken="string",
    historyLength="int",
)

_IN_KIND: Mapping[Any, Callable[[Any], bool]] = {
    ops.SEND_MESSAGE: _sent_in_kind,
    ops.SEND_STREAMING_MESSAGE: _sent_in_kind,
    ops.CANCEL_TASK: lambda tree: type(tree) is dict and "metadata" in tree and "name" not in tree,
    ops.CREATE_PUSH_CONFIG: _created_in_kind,
}
"""Operations with two variants, and the test for requests in the variant of JSON-RPC."""


def _kind_row(proto: HttpRow) -> HttpRow:
    """The row of JSON-RPC at the address of a row of a2a.v1."""
    operation = proto.operation
    of_rpc: Row[Any, Any] = next(row for row in requests.ROWS if row.operation is operation)
    made = replace(of_rpc, address=proto.address).with_extras(explicit=None)
    match operation:
        case ops.SEND_MESSAGE:
            answer = Conversion(partial(_wrap, shapes.RESULT.encode), partial(_decode_sent, Files.AUTO))
        case ops.SEND_STREAMING_MESSAGE:
            answer = Conversion(partial(_wrap, shapes.EVENT.encode), partial(_decode_event, Files.AUTO))
        case _:
            return made
    # In JSON files are base64 text, and callers of JSON know no other encoding.
    return in_base64(
        replace(
            made,
            encode_response=response_encoder(operation.response, answer.encode, of_row=True),
            decode_response=response_decoder(operation.response, answer),
        )
    )


def _first_file(tree: Any) -> tuple[bytes, str] | None:
    message = tree.get("message") or tree.get("request") if type(tree) is dict else None
    content = message.get("content") if type(message) is dict else None
    for part in content if type(content) is list else ():
        file = part.get("file") if type(part) is dict else None
        if type(file) is not dict:
            continue
        raw_bytes = file.get("fileWithBytes", file.get("file_with_bytes"))
        media_type = file.get("mimeType", file.get("mime_type"))
        if type(raw_bytes) is not str or not raw_bytes:
            continue
        with contextlib.suppress(ValueError):
            return base64_wire(raw_bytes).encode("latin-1"), media_type if type(media_type) is str else ""
    return None


def _with_variants(row: HttpRow) -> HttpRow:
    by_files, is_kind = row.extras.variant, _IN_KIND.get(row.operation)
    if is_kind is None and by_files is None:
        return row
    kind = row if is_kind is None else _kind_row(row)

    def choose(tree: Any, parameters: Mapping[str, str]) -> HttpRow:
        if is_kind is not None and is_kind(tree):
            return kind
        found = row if by_files is None else by_files(tree, parameters)
        return _strict(found) if caller(parameters).quirks.strict_json else found

    return row.with_extras(variant=choose)


def _strict(row: HttpRow) -> HttpRow:
    encode = row.encode_response
    return replace(row, encode_response=lambda message: without_younger_members(encode(message)))


_PROTO = {files: _proto_rows(files) for files in ENCODINGS}

#: for agents with a known encoding
BY_FILES: Mapping[Files, tuple[HttpRow, ...]] = {
    files: tuple(rows.values()) for files, rows in _PROTO.items()
}
ROWS: tuple[HttpRow, ...] = tuple(
    _with_variants(choose_row({files: rows[operation] for files, rows in _PROTO.items()}, _first_file))
    for operation in _PROTO[Files.AUTO]
)

#: the messages of a2a.v1 in requests and responses. GET /v1/tasks is not among them: it is no operation of
#: the proto, and its response is a bare array
MESSAGES: Mapping[ops.Operation[Any, Any], tuple[type[Message], type[Message]]] = {
    ops.SEND_MESSAGE: (v0.SendMessageRequest, v0.SendMessageResponse),
    ops.SEND_STREAMING_MESSAGE: (v0.SendMessageRequest, v0.StreamResponse),
    ops.GET_TASK: (v0.GetTaskRequest, v0.Task),
    ops.CANCEL_TASK: (v0.CancelTaskRequest, v0.Task),
    ops.SUBSCRIBE_TO_TASK: (v0.TaskSubscriptionRequest, v0.StreamResponse),
    ops.CREATE_PUSH_CONFIG: (v0.CreateTaskPushNotificationConfigRequest, v0.TaskPushNotificationConfig),
    ops.GET_PUSH_CONFIG: (v0.GetTaskPushNotificationConfigRequest, v0.TaskPushNotificationConfig),
    ops.LIST_PUSH_CONFIGS: (
        v0.ListTaskPushNotificationConfigRequest,
        v0.ListTaskPushNotificationConfigResponse,
    ),
    ops.DELETE_PUSH_CONFIG: (v0.DeleteTaskPushNotificationConfigRequest, Empty),
    ops.GET_EXTENDED_AGENT_CARD: (v0.GetAgentCardRequest, v0.AgentCard),
}
