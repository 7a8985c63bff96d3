"""The three forms of 0.3, composed of rows and errors.

Two of them also exist for each encoding of file contents in a2a.v1, for dialling agents with a known
encoding. Callers do not need these: the usual forms detect the encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, BindingKind, Form, HttpAddress
from a2a_bridge.dialects.v0_3 import errors, http_rows, proto_rows, requests
from a2a_bridge.peers import Files

JSONRPC_FORM: Form[str, Any] = Form(
    requests.ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc, shape_error=errors.shape_jsonrpc
)

HTTP_JSON_FORM: Form[HttpAddress, Any] = Form(
    http_rows.ROWS, errors.encode_http_json, errors.decode_http_json
)

GRPC_FORM: Form[str, bytes] = Form(
    proto_rows.ROWS, errors.encode_grpc, errors.decode_grpc, errors.encode_grpc_declared
)

BY_FILES: Mapping[Files, Mapping[BindingKind[Any, Any], Form[Any, Any]]] = {
    files: {
        HTTP_JSON: replace(HTTP_JSON_FORM, rows=http_rows.BY_FILES[files]),
        GRPC: replace(GRPC_FORM, rows=proto_rows.BY_FILES[files]),
    }
    for files in (Files.RAW, Files.BASE64)
}
