"""0.2.5 over each binding: the rows of `requests`, and those that 0.3 has for protobuf and HTTP+JSON."""

from __future__ import annotations

from typing import Any

from a2a_bridge.dialects.dialect import Form
from a2a_bridge.dialects.v0_2_5.errors import SPELLING
from a2a_bridge.dialects.v0_2_5.requests import ROWS

JSONRPC_FORM: Form[str, Any] = Form(ROWS, SPELLING.encode_jsonrpc, SPELLING.decode_jsonrpc)
