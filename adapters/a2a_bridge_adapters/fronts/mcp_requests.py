"""Requests of MCP before the SDK answers them: its errors do not name the member, and it takes a request
whose id is not valid for a notification.
"""

from __future__ import annotations

from mcp import types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from pydantic_core import from_json

from a2a_bridge.core.errors import Reason
from a2a_bridge_adapters.fronts.callers import EdgeError


def method_and_id(body: bytes) -> tuple[str, str]:
    """The method and the id of a request; no id for a notification, and neither for a response of the client.
    Raises EdgeError for anything else.
    """
    try:
        frame = from_json(body)
    except ValueError:
        raise EdgeError(400, Reason.PARSE_ERROR, "the body is not valid JSON") from None
    if not isinstance(frame, dict):
        raise _invalid("the body is one message of JSON-RPC, an object")
    if frame.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc: is "2.0"')
    if "method" not in frame and ("result" in frame or "error" in frame):
        return "", ""
    method = frame.get("method")
    if not isinstance(method, str):
        raise _invalid("method: is required, as text")
    if not isinstance(frame.get("params"), dict | None):
        raise _invalid("params: is an object")
    if "id" not in frame:
        return method, ""
    if type(frame["id"]) not in (str, int):
        raise _invalid("id: is text or a whole number")
    return method, str(frame["id"])


def _invalid(text: str) -> EdgeError:
    return EdgeError(400, Reason.INVALID_REQUEST, text)


def invalid_params(error: ValidationError) -> MCPError:
    """The error for parameters that are not valid. It names the first one."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return MCPError(types.INVALID_PARAMS, f"{place or 'params'}: {first['msg']}")
