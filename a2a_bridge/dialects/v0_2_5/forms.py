"""The forms of 0.2.5, composed of rows and errors.

The text of 0.2.5 defines JSON-RPC only; its proto is a2a.v1, which 0.3 extends compatibly. So gRPC is that of
0.3, and HTTP+JSON is too except for some names. BY_FILES as in 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, Form, HttpAddress, Kind
from a2a_bridge.dialects.v0_2_5.errors import SPELLING
from a2a_bridge.dialects.v0_2_5.http_rows import older
from a2a_bridge.dialects.v0_2_5.requests import ROWS
from a2a_bridge.dialects.v0_3 import forms
from a2a_bridge.dialects.v0_3.errors import shape_jsonrpc
from a2a_bridge.peers import Files

JSONRPC_FORM: Form[str, Any] = Form(
    ROWS, SPELLING.encode_jsonrpc, SPELLING.decode_jsonrpc, shape_error=shape_jsonrpc
)


def _http_json(newer: Form[HttpAddress, Any]) -> Form[HttpAddress, Any]:
    rows = tuple(older(row) for row in newer.rows)
    return Form(rows, SPELLING.encode_http_json, SPELLING.decode_http_json)


def _grpc(newer: Form[str, bytes]) -> Form[str, bytes]:
    return Form(newer.rows, SPELLING.encode_grpc, SPELLING.decode_grpc)


HTTP_JSON_FORM = _http_json(forms.HTTP_JSON_FORM)

GRPC_FORM = _grpc(forms.GRPC_FORM)

BY_FILES: Mapping[Files, Mapping[Kind[Any, Any], Form[Any, Any]]] = {
    files: {HTTP_JSON: _http_json(newer[HTTP_JSON]), GRPC: _grpc(newer[GRPC])}
    for files, newer in forms.BY_FILES.items()
}
