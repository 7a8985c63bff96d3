"""1.0 as forms: the rows of each binding, the agent card and push notifications. All of it is derived from
the descriptor, so that nothing is defined twice.

Rules:
1. A card is strict ProtoJSON with all REQUIRED members, and with no member of another version (spec 4.4,
   8.2).
2. A push notification is a StreamResponse for each event (spec 4.3). Its headers are the same in all
   versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject, decoder, encoder
from a2a_bridge.codec.plan import FieldKind, FieldPlan, plan_of
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.boundary import (
    Conversion,
    card_decoder,
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
from a2a_bridge.dialects.v1_0.draft import draft_list, with_draft
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb._pool import POOL
from a2a_bridge.pb.google_protobuf import Empty, MethodOptions

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
    """The HTTP rules of an operation, tenant forms included.

    SubscribeToTask is GET in the rule and POST in the specification's prose (5.3, 11.3.2). Both are included,
    and POST first: every SDK accepts it, but those of Go, Java and .NET do not accept GET.
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
    if event.WhichOneof("payload") is None:
        raise invalid_params("", "a notification holds a task, a message or an update")
    return event


_encode: Any = response_encoder(hub.StreamResponse, _EVENT.encode)

PUSH_FORM = PushForm("application/a2a+json", _encode, _decode_event)
