"""The forms of 0.2.5, composed of rows and errors.

The text of 0.2.5 defines JSON-RPC only; its proto is a2a.v1, which 0.3 extends compatibly. So gRPC is that of
0.3, and HTTP+JSON is too except for some names. BY_FILES as in 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, BindingKind, Form, HttpAddress
from a2a_bridge.dialects.v0_2_5.http_rows import older
from a2a_bridge.dialects.v0_2_5.requests import ROWS
from a2a_bridge.dialects.v0_3 import errors, forms
from a2a_bridge.peers import Files

#: 0.2.5 has no number for a missing extended card (spec 0.2.5, 8): details explain it, and a request for
#: such a card gets HTTP 404
_KNOWN_ERRORS = errors.KNOWN - {Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED}

JSONRPC_FORM: Form[str, Any] = replace(
    forms.JSONRPC_FORM, rows=ROWS, encode_error=partial(errors.encode_jsonrpc, known=_KNOWN_ERRORS)
)


def _http_json(newer: Form[HttpAddress, Any]) -> Form[HttpAddress, Any]:
    return replace(newer, rows=tuple(older(row) for row in newer.rows))


def _grpc(newer: Form[str, bytes]) -> Form[str, bytes]:
    return replace(newer, encode_declared=None)


HTTP_JSON_FORM = _http_json(forms.HTTP_JSON_FORM)

GRPC_FORM = _grpc(forms.GRPC_FORM)

BY_FILES: Mapping[Files, Mapping[BindingKind[Any, Any], Form[Any, Any]]] = {
    files: {HTTP_JSON: _http_json(newer[HTTP_JSON]), GRPC: _grpc(newer[GRPC])}
    for files, newer in forms.BY_FILES.items()
}
