"""The three forms of 0.3, put together of rows and errors. Nothing is spelled here.

Two exist twice: a2a.v1 says that a file's bytes are its content, and agents of a widely used SDK take base64 text
there and nothing else. For dialling such an agent there are the forms with BASE64 in their names. Callers need none
of that: the usual forms tell them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from a2a_bridge.dialects.dialect import Form, HttpAddress
from a2a_bridge.dialects.v0_3 import errors, http_rows, proto_rows, requests

JSONRPC_FORM: Form[str, Any] = Form(requests.ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc)

HTTP_JSON_FORM: Form[HttpAddress, Any] = Form(
    http_rows.ROWS, errors.encode_http_json, errors.decode_http_json
)
HTTP_JSON_FORM_BASE64: Form[HttpAddress, Any] = Form(
    http_rows.BASE64_ROWS, errors.encode_http_json, errors.decode_http_json
)

GRPC_FORM: Form[str, bytes] = Form(
    proto_rows.ROWS, errors.encode_grpc, errors.decode_grpc, errors.encode_grpc_declared
)
GRPC_FORM_BASE64: Form[str, bytes] = replace(GRPC_FORM, rows=proto_rows.BASE64_ROWS)
