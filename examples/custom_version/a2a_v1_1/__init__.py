"""An invented A2A 1.1, as a version in a distribution of its own: only its differences from 1.0.

The change: members that 1.0 names `contextId` are named `conversationId` in JSON. Protobuf is as in 1.0,
because field numbers carry the meaning there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from a2a_bridge.ext import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    V1_0,
    Dialect,
    Form,
    HttpAddress,
    PushForm,
    Row,
    RowExtras,
    hub,
)
from a2a_v1_1.renaming import Renaming

_RENAMING = Renaming({"contextId": "conversationId"})


def _form(kind: Any) -> Form[Any, Any]:
    form = V1_0.form(kind)
    if form is None:
        raise LookupError(f"1.0 has no form for {kind.name}")
    return replace(form, rows=tuple(_row(row) for row in form.rows))


def _row(row: Row[Any, Any]) -> Row[Any, Any]:
    request, response = row.operation.request, row.operation.response
    return replace(
        row,
        address=_address(row.address),
        encode_request=_then(row.encode_request, _RENAMING.writer(request)),
        decode_request=_after(_RENAMING.reader(request), row.decode_request),
        encode_response=_then(row.encode_response, _RENAMING.writer(response)),
        decode_response=_after(_RENAMING.reader(response), row.decode_response),
        # The forms of 1.0 for peers of its drafts do not belong to 1.1.
        extras=RowExtras(),
    )


def _address(address: Any) -> Any:
    """The members of a query have the names of 1.1, too."""
    if not isinstance(address, HttpAddress):
        return address
    return HttpAddress(
        tuple(
            replace(rule, query={_RENAMING.names.get(name, name): kind for name, kind in rule.query.items()})
            for rule in address.rules
        )
    )


def _then(encode: Callable[[Any], Any], rename: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda message: rename(encode(message))


def _after(rename: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda wire: decode(rename(wire))


def _push() -> PushForm | None:
    form = V1_0.push
    if form is None:
        return None
    encode = _then(form.encode, _RENAMING.writer(hub.StreamResponse))
    decode = _after(_RENAMING.reader(hub.StreamResponse), form.decode)
    return replace(form, encode=encode, decode=decode)


DIALECT = Dialect(
    version="1.1",
    card=V1_0.card,
    forms={
        JSONRPC: _form(JSONRPC),
        HTTP_JSON: _form(HTTP_JSON),
        GRPC: V1_0.forms[GRPC],
    },
    push=_push(),
)
