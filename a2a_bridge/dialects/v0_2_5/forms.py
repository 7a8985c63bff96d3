"""The forms of 0.2.5: the forms of 0.3 with few differences.

The text of 0.2.5 defines JSON-RPC only; its proto is a2a.v1, which 0.3 extends compatibly. So gRPC is the
same as in 0.3, and so is HTTP+JSON except for some names. BY_FILES as in 0.3.

Rules:
1. Over JSON-RPC a configuration always lists media types; an empty list means none (spec 0.2.5, 7).
2. `unknown` is a state that ends a stream, so its events are `final` unless annotated otherwise.
3. The extended card is a plain GET beside the agent's URL; 0.2.6 also has a method for it.
4. Over HTTP+JSON three members are named as in the proto of 0.2.5 (its tag v0.2.5). Both versions read all
   names. The usual name of one version becomes the usual name of the other, and an unusual one the unusual
   one, so that a round trip preserves it. Bodies in the variant of JSON-RPC have no such names.
5. The card is at another path (spec 0.2.5, 5.3). Additions of 0.3 are further members of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.boundary import chain
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, BindingKind, Form, HttpAddress, Row
from a2a_bridge.dialects.v0_3 import errors, forms
from a2a_bridge.dialects.v0_3.card import OLD_WELL_KNOWN_PATH, card_form
from a2a_bridge.dialects.v0_3.http_rows import says_kind
from a2a_bridge.dialects.v0_3.requests import rows, send_params
from a2a_bridge.dialects.v0_3.shapes import FINAL_STATES, events, status_update
from a2a_bridge.peers import Files

#: the version of cards that name none
VERSION = "0.2.5"

CARD_FORM = card_form(VERSION, OLD_WELL_KNOWN_PATH)


EXTENDED_CARD = "GET ../agent/authenticatedExtendedCard"
"""Not a method: bindings decide how to serve it."""
EXTENDED_CARD_METHOD = "agent/authenticatedExtendedCard"

SEND = send_params(modes=True)
EVENT = events(status_update(FINAL_STATES | {"unknown"}))

ROWS = rows(SEND, EVENT, CARD_FORM, EXTENDED_CARD, EXTENDED_CARD_METHOD)


HttpRow = Row[HttpAddress, Any]
Rename = Callable[[Any], Any]


def _exchange(tree: Any, one: str, other: str) -> Any:
    """The object with the values of these two members exchanged, unless it has the variant of JSON-RPC."""
    if type(tree) is not dict or not (one in tree or other in tree) or says_kind(tree.get(one)):
        return tree
    names = {one: other, other: one}
    return {names.get(name, name): value for name, value in tree.items()}


def _sent(tree: Any) -> Any:
    """SendMessageRequest."""
    return _exchange(tree, "message", "request")


def _task(tree: Any) -> Any:
    """A task, or an event about one."""
    if type(tree) is not dict or says_kind(tree) or "status" not in tree:
        return tree
    status = _exchange(tree["status"], "message", "update")
    return tree if status is tree["status"] else {**tree, "status": status}


def _answer(tree: Any) -> Any:
    """SendMessageResponse and StreamResponse."""
    if type(tree) is not dict or "kind" in tree:
        return tree
    found = {name: _task(value) if name in _ABOUT_TASKS else value for name, value in tree.items()}
    return _exchange(found, "message", "msg")


#: the same for documents: member of 0.3 → member of 0.2.5
_NAMES = {
    "SendMessageRequest.message": "request",
    "SendMessageResponse.message": "msg",
    "StreamResponse.message": "msg",
    "TaskStatus.message": "update",
}
_ABOUT_TASKS = ("task", "statusUpdate", "status_update")

_REQUESTS: Mapping[Any, Rename] = {ops.SEND_MESSAGE: _sent, ops.SEND_STREAMING_MESSAGE: _sent}
_RESPONSES: Mapping[Any, Rename] = {
    ops.SEND_MESSAGE: _answer,
    ops.SEND_STREAMING_MESSAGE: _answer,
    ops.SUBSCRIBE_TO_TASK: _answer,
    ops.GET_TASK: _task,
    ops.CANCEL_TASK: _task,
    ops.LIST_TASKS: lambda tree: [_task(one) for one in tree] if type(tree) is list else tree,
}


def older(row: HttpRow) -> HttpRow:
    """The 0.2.5 form of a row of 0.3: unchanged if no name differs."""
    request, response = _REQUESTS.get(row.operation), _RESPONSES.get(row.operation)
    variant, for_agent = row.extras.variant, row.extras.for_agent
    changed: dict[str, Any] = {}
    if request is not None:
        changed["encode_request"] = chain(row.encode_request, request)
        changed["decode_request"] = chain(request, row.decode_request)
    if response is not None:
        changed["encode_response"] = chain(row.encode_response, response)
        changed["decode_response"] = chain(response, row.decode_response)
    if not changed:
        return row
    row = replace(row, **changed)
    if variant is not None:
        row = row.with_extras(variant=lambda tree, parameters: older(variant(tree, parameters)))
    if for_agent is not None:
        row = row.with_extras(for_agent=lambda context: older(for_agent(context)))
    return row


#: 0.2.5 has no number for a missing extended card (spec 0.2.5, 8): details explain the error, and a request
#: for such a card gets HTTP 404
_KNOWN_ERRORS = errors.KNOWN - {Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED}

JSONRPC_FORM: Form[str, Any] = replace(
    forms.JSONRPC_FORM, rows=ROWS, encode_error=partial(errors.encode_jsonrpc, known=_KNOWN_ERRORS)
)


def _http_json(newer: Form[HttpAddress, Any]) -> Form[HttpAddress, Any]:
    return replace(newer, rows=tuple(older(row) for row in newer.rows), json_names=_NAMES)


def _grpc(newer: Form[str, bytes]) -> Form[str, bytes]:
    return replace(newer, encode_declared=None)


HTTP_JSON_FORM = _http_json(forms.HTTP_JSON_FORM)

GRPC_FORM = _grpc(forms.GRPC_FORM)

BY_FILES: Mapping[Files, Mapping[BindingKind[Any, Any], Form[Any, Any]]] = {
    files: {HTTP_JSON: _http_json(newer[HTTP_JSON]), GRPC: _grpc(newer[GRPC])}
    for files, newer in forms.BY_FILES.items()
}
