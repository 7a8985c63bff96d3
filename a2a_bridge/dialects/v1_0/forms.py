"""1.0 as forms: the rows of each binding, the agent card and push notifications. All of it is derived from
the descriptor, so that nothing is defined twice.

Rules:
1. A card is strict ProtoJSON with all REQUIRED members, and with no member of another version (spec 4.4,
   8.2).
2. A push notification is a StreamResponse for each event (spec 4.3). Its headers are the same in all
   versions.

Push configurations may have the format of a 1.0 draft, used by the previews of A2A .NET:

| | draft | 1.0 |
|---|---|---|
| create | `{taskId, configId, config: {url…}}` | `{taskId, id, url…}` |
| answer | `{id, taskId, pushNotificationConfig: {url…}}` | `{id, taskId, url…}` |
| list | method `ListTaskPushNotificationConfig` | `ListTaskPushNotificationConfigs` |
| in a message's configuration | `pushNotificationConfig` | `taskPushNotificationConfig` |

Rules for the draft:
1. A request is recognised by its shape or the name of its method. A response to it has the members of both
   shapes.
2. An agent gets the draft's shape after it has rejected the other, and from then on (RowExtras.fallback).
3. For callers that query a configuration the profile decides, because the query is the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject, decoder, encoder
from a2a_bridge.codec.plan import FieldKind, FieldPlan, plan_of
from a2a_bridge.codec.unknown import unknown_names
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.boundary import (
    Conversion,
    card_decoder,
    chain,
    params_required,
    parser,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
    row,
)
from a2a_bridge.dialects.dialect import CardForm, Form, HttpAddress, HttpRule, PushForm, Row
from a2a_bridge.dialects.v1_0 import errors
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb._pool import POOL
from a2a_bridge.pb.google_protobuf import Empty, MethodOptions
from a2a_bridge.peers import caller

AnyRow = Row[Any, Any]
LIST_METHOD = "ListTaskPushNotificationConfig"

#: members that hold the configuration
_NESTING = ("config", "pushNotificationConfig")
#: members of a configuration that do not belong to the webhook
_OUTER = frozenset({"taskId", "tenant"})
_SINGLE = frozenset({ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG})


def _find_nesting(tree: Any) -> str:
    """The member with the configuration in the draft's shape; empty for the shape of 1.0."""
    if type(tree) is not dict or "url" in tree:
        return ""
    return next((name for name in _NESTING if type(tree.get(name)) is dict), "")


def _flat(tree: Any) -> Any:
    """A configuration of either shape in the shape of 1.0. A configuration of both shapes loses the members
    of the draft: they do not count as unknown members, and callers get them from `_both`.
    """
    name = _find_nesting(tree)
    if not name:
        if type(tree) is dict and any(type(tree.get(one)) is dict for one in _NESTING):
            return {key: value for key, value in tree.items() if key not in _NESTING}
        return tree
    inner = _flat(tree[name])
    id_ = tree.get("configId") or tree.get("id") or inner.get("id")
    outer = {key: value for key, value in tree.items() if key not in (name, "configId")}
    return {**inner, **outer, "id": id_} if id_ else {**inner, **outer}


def _both(tree: Any) -> Any:
    """A configuration of 1.0 with the member of the draft in addition."""
    inner = {name: value for name, value in tree.items() if name not in _OUTER}
    return {**tree, "pushNotificationConfig": inner}


def _nest(tree: Any) -> Any:
    """A request of 1.0 to create a configuration, in the draft's shape."""
    config = {name: value for name, value in tree.items() if name not in _OUTER and name != "id"}
    outer = {name: value for name, value in tree.items() if name in _OUTER}
    return {**outer, "configId": tree.get("id", ""), "config": config}


def _each(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for a list of configurations."""

    def apply(tree: Any) -> Any:
        configs = tree.get("configs") if type(tree) is dict else None
        return {**tree, "configs": [change(one) for one in configs]} if type(configs) is list else tree

    return apply


def with_draft(row: AnyRow) -> AnyRow:
    """A row over JSON that also reads the draft, and answers callers of the draft in it."""
    if row.operation in ops.SEND:
        read = row.decode_request

        def decode_request(tree: Any) -> Any:
            # Most messages have no configuration: skipping them saves time.
            return read(
                _rename_configuration(tree) if type(tree) is dict and "configuration" in tree else tree
            )

        return replace(row, decode_request=decode_request)
    if row.operation not in _SINGLE and row.operation is not ops.LIST_PUSH_CONFIGS:
        return row
    listed = row.operation is ops.LIST_PUSH_CONFIGS
    flat, both = (_each(_flat), _each(_both)) if listed else (_flat, _both)
    row = replace(row, decode_response=chain(flat, row.decode_response))
    if row.operation is ops.CREATE_PUSH_CONFIG:
        row = replace(row, decode_request=chain(_flat, row.decode_request))
    draft = replace(row, encode_response=chain(row.encode_response, both))
    if row.operation is ops.CREATE_PUSH_CONFIG:
        draft = replace(draft, encode_request=chain(row.encode_request, _nest))
        row = row.with_extras(fallback=draft)

    def variant(wire: Any, parameters: Mapping[str, str]) -> AnyRow:
        nested = row.operation is ops.CREATE_PUSH_CONFIG and _find_nesting(wire)
        return draft if nested or caller(parameters).quirks.draft_push_configs else row

    return row.with_extras(variant=variant)


def draft_list(row: AnyRow) -> AnyRow:
    """The row of the draft's list method, made from the row of 1.0."""
    listed = replace(row, address=LIST_METHOD, encode_response=chain(row.encode_response, _each(_both)))
    return listed.with_extras(variant=None)


def _rename_configuration(tree: Any) -> Any:
    """Params of a message, with the 1.0 name for the configuration's member."""
    configuration = tree["configuration"]
    if type(configuration) is not dict or "pushNotificationConfig" not in configuration:
        return tree
    rest = {name: value for name, value in configuration.items() if name != "pushNotificationConfig"}
    config = configuration["pushNotificationConfig"]
    return {**tree, "configuration": {"taskPushNotificationConfig": config, **rest}}


SERVICE = hub.DESCRIPTOR.services_by_name["A2AService"]

_VARIABLE = re.compile(r"\{([a-z_]+)(?:=\*)?\}")

#: names of filters in a2a-go's client (v2.3.1, a2aclient/rest.go:234) -> their standard names
_FILTERS = {"lastUpdatedAfter": "statusTimestampAfter"}

#: kinds of values allowed in a query (spec 11.5); messages are not
_QUERY_KINDS = {
    FieldKind.STRING: "string",
    FieldKind.INTEGER: "int",
    FieldKind.BOOL: "bool",
    FieldKind.ENUM: "enum",
    FieldKind.TIMESTAMP: "timestamp",
}


def http_address(operation: ops.Operation[Any, Any]) -> HttpAddress:
    """The HTTP rules of an operation, tenant forms included. SubscribeToTask is GET in the rule and POST in
    the specification's prose (5.3, 11.3.2). Both are included, and POST first: every SDK accepts POST, but
    the SDKs of Go, Java and .NET do not accept GET.
    """
    method: MethodDescriptor = SERVICE.methods_by_name[operation.name]
    options = MethodOptions.FromString(method.GetOptions().SerializeToString())
    first = options.Extensions[POOL.FindExtensionByName("google.api.http")]
    rules = [_http_rule(rule, operation.request) for rule in (first, *first.additional_bindings)]
    if operation is ops.SUBSCRIBE_TO_TASK:
        rules = [HttpRule("POST", rule.template, body=True) for rule in rules] + rules
    if operation is ops.LIST_TASKS:
        rules = [replace(rule, aliases=_FILTERS) for rule in rules]
    return HttpAddress(tuple(rules))


def _http_rule(rule: Any, request: type[Message]) -> HttpRule:
    verb = rule.WhichOneof("pattern")
    bound: set[str] = set()

    def rename(match: re.Match[str]) -> str:
        bound.add(match[1])
        return "{" + request.DESCRIPTOR.fields_by_name[match[1]].json_name + "}"

    template = _VARIABLE.sub(rename, getattr(rule, verb))
    query = {
        field.json_name: kind
        for field in plan_of(request).fields
        if not rule.body and field.name not in bound and (kind := _query_kind(field))
    }
    return HttpRule(verb.upper(), template, bool(rule.body), query)


def _query_kind(field: FieldPlan) -> str:
    kind = _QUERY_KINDS.get(field.kind, "")
    if not kind or field.map_value is not None:
        return ""
    return f"[]{kind}" if field.repeated else kind


def conversion(cls: type[Message], *, whole: bool = False) -> Conversion:
    """ProtoJSON with its unknown members. null counts as `{}` where every member is optional (spec 9.4).
    whole: as `codec.encoder`; a request may lack what its receiver then asks for.
    """
    required = any(field.required for field in plan_of(cls).fields)
    decode = decoder(cls, keeps=True)
    encode = encoder(cls, keeps=True, whole=whole)
    return Conversion(encode, decode, absent=params_required if required else cls)


def _json_row(operation: ops.Operation[Message, Message], address: Any) -> Row[Any, Any]:
    answer = Conversion(
        encoder(operation.response, keeps=True, whole=True),
        decoder(operation.response, keeps=True),
        absent=Empty if operation.response is Empty else None,
    )
    return with_draft(row(operation, address, conversion(operation.request), answer))


def _jsonrpc_row(operation: ops.Operation[Message, Message]) -> Row[str, Any]:
    made = _json_row(operation, operation.name)
    # The specification shows no result for delete; peers in the field send and expect null.
    return replace(made, encode_response=_null) if operation is ops.DELETE_PUSH_CONFIG else made


def _jsonrpc_rows() -> tuple[Row[str, Any], ...]:
    rows: dict[Any, Row[str, Any]] = {operation: _jsonrpc_row(operation) for operation in ops.ALL}
    listed = draft_list(rows[ops.LIST_PUSH_CONFIGS])
    rows[ops.LIST_PUSH_CONFIGS] = rows[ops.LIST_PUSH_CONFIGS].with_extras(fallback=listed)
    return (*rows.values(), listed)


def _http_row(operation: ops.Operation[Message, Message]) -> Row[HttpAddress, Any]:
    address = http_address(operation)
    made = _json_row(operation, address)
    if not all(rule.body for rule in address.rules):  # a query has no place for unknown members
        encode_request = request_encoder(operation.request, encoder(operation.request))
        made = replace(made, encode_request=encode_request)
    if operation is not ops.LIST_TASKS:
        return made
    # A2A .NET (1.0.0-preview3, A2AHttpProcessor.cs) reads the states in its query as C# names or numbers.
    encode = made.encode_request
    return made.with_extras(
        fallback=replace(made, encode_request=lambda message: _number_state(encode(message)))
    )


def _number_state(tree: Any) -> Any:
    """A ListTasks request with the number of its state."""
    state = tree.get("status")
    return {**tree, "status": hub.TaskState.Value(state)} if type(state) is str else tree


def _null(_: Any) -> None:
    return None


def _grpc_row(operation: ops.Operation[Message, Message]) -> Row[str, bytes]:
    request, response = parser(operation.request), parser(operation.response)
    decode = request_decoder(request)
    return Row(
        operation,
        f"/{SERVICE.full_name}/{operation.name}",
        encode_request=request.encode,
        decode_request=_without_empty_page(decode) if operation is ops.LIST_TASKS else decode,
        encode_response=response.encode,
        decode_response=response_decoder(operation.response, response),
    )


def _without_empty_page(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Ignores a page size of 0 in protobuf: a2a-go sends it with every ListTasks (v2.3.1,
    a2apb/v1/pbconv/to_proto.go:476).
    """

    def decode_request(wire: bytes) -> Any:
        request = decode(wire)
        if not request.page_size:
            request.ClearField("page_size")
        return request

    return decode_request


JSONRPC_FORM: Form[str, Any] = Form(
    _jsonrpc_rows(),
    errors.encode_jsonrpc,
    errors.decode_jsonrpc,
)

HTTP_JSON_FORM: Form[HttpAddress, Any] = Form(
    tuple(_http_row(operation) for operation in ops.ALL),
    errors.encode_http_json,
    errors.decode_http_json,
)

GRPC_FORM: Form[str, bytes] = Form(
    tuple(_grpc_row(operation) for operation in ops.ALL),
    errors.encode_grpc,
    errors.decode_grpc,
)


WELL_KNOWN_PATH = "/.well-known/agent-card.json"

#: unknown members are ignored
decode_card = card_decoder(decoder(hub.AgentCard))

CARD_FORM = CardForm(paths=(WELL_KNOWN_PATH,), encode=encoder(hub.AgentCard, whole=True), decode=decode_card)


_EVENT = conversion(hub.StreamResponse, whole=True)
_decode = request_decoder(_EVENT)


def _decode_event(tree: JsonObject) -> hub.StreamResponse:
    event: hub.StreamResponse = _decode(tree)
    # As in a stream: a member that is not known here is handed on where that is possible.
    if event.WhichOneof("payload") is None and not unknown_names(event):
        raise invalid_params("", "a notification holds a task, a message or an update")
    return event


_encode: Any = response_encoder(hub.StreamResponse, _EVENT.encode)

PUSH_FORM = PushForm("application/a2a+json", _encode, _decode_event)
