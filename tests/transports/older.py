"""Versions for tests: the messages of 1.0 at the addresses and with the errors of 0.3. No tests.

They carry content beside their messages: a `note` of GetTask, in the request and in the answer.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.dialects import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    V1_0,
    Dialect,
    Form,
    HttpAddress,
    HttpRule,
    Row,
)
from a2a_bridge.dialects.dialect import Beside
from a2a_bridge.dialects.v0_3 import errors

METHODS = {
    ops.SEND_MESSAGE: "message/send",
    ops.SEND_STREAMING_MESSAGE: "message/stream",
    ops.GET_TASK: "tasks/get",
    ops.CANCEL_TASK: "tasks/cancel",
    ops.SUBSCRIBE_TO_TASK: "tasks/resubscribe",
    ops.DELETE_PUSH_CONFIG: "tasks/pushNotificationConfig/delete",
    ops.GET_EXTENDED_AGENT_CARD: "agent/getAuthenticatedExtendedCard",
}
CARD = "GET ../agent/authenticatedExtendedCard"
EXTENSIONS = ("x-a2a-extensions", "a2a-extensions")
PACKAGE = "/a2a.v1.A2AService/"
NOTE = b"\x92\x03\x04note"  # member 50 of any message: unknown to it


def _noted(row: Row[Any, Any]) -> Row[Any, Any]:
    if row.operation is not ops.GET_TASK:
        return row

    def extract(wire: Any) -> Mapping[str, str]:
        if isinstance(wire, bytes):
            return {SIDE_CHANNEL: "note"} if wire.endswith(NOTE) else {}
        return {SIDE_CHANNEL: wire["note"]} if "note" in wire else {}

    def restore(wire: Any, parameters: Mapping[str, str]) -> Any:
        note = parameters.get(SIDE_CHANNEL)
        if note is None:
            return wire
        return wire + NOTE if isinstance(wire, bytes) else {**wire, "note": note}

    return row.with_extras(request=Beside(extract, restore), response=Beside(extract, restore))


def _http(address: HttpAddress) -> HttpAddress:
    rules = tuple(
        HttpRule(rule.method, "/v1" + rule.template, rule.body, {**rule.query, "note": "string"})
        for rule in address.rules
        if "{tenant}" not in rule.template
    )
    return HttpAddress(rules)


def made(version: str, *, card: bool = False) -> Dialect:
    """A version. card: its extended card is a document beside the URL of JSON-RPC."""
    jsonrpc = [
        _noted(replace(row, address=CARD if card and method.startswith("agent/") else method))
        for row in V1_0.forms[JSONRPC].rows
        if (method := METHODS.get(row.operation)) is not None
    ]
    http_json = [
        _noted(replace(row, address=_http(row.address)))
        for row in V1_0.forms[HTTP_JSON].rows
        if row.operation in METHODS
    ]
    grpc = [
        _noted(replace(row, address=PACKAGE + row.operation.name))
        for row in V1_0.forms[GRPC].rows
        if row.operation in METHODS
    ]
    return Dialect(
        version,
        V1_0.card,
        {
            JSONRPC: Form(tuple(jsonrpc), errors.encode_jsonrpc, errors.decode_jsonrpc),
            HTTP_JSON: Form(tuple(http_json), errors.encode_http_json, errors.decode_http_json),
            GRPC: Form(tuple(grpc), errors.encode_grpc, errors.decode_grpc),
        },
        declares=False,
        extensions=EXTENSIONS,
        final_events=True,
    )


OLD = made("0.3")
OLDER = made("0.2.5", card=True)
