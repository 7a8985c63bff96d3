"""Errors with the numbers of 0.1. Numbers -32006 to -32009 have other meanings since 0.2, so errors are
matched by name.

Rules:
1. For incoming errors the order of precedence is: ErrorInfo.reason; the meaning of the number in 0.1; its
   meaning in 0.3. The number is stored as `legacyCode` if the hub has another one for the same error.
2. Outgoing errors use that number if it means the error in 0.1; else the number that does.
3. An error without a number in 0.1 gets the nearest one, and `data` that names the error.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.core.errors import A2AError, Blame, Reason, changed
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v0_3 import errors as v0_3
from a2a_bridge.dialects.v1_0 import details as any_details
from a2a_bridge.dialects.v1_0.errors import json_details

#: in ErrorInfo.metadata: the number of the error in 0.1
LEGACY_CODE = "legacyCode"

#: number → its meaning in 0.1, in prose and schema, and its text
MEANINGS: Mapping[int, tuple[Reason, str]] = {
    -32700: (Reason.PARSE_ERROR, "Invalid JSON payload"),
    -32600: (Reason.INVALID_REQUEST, "Request payload validation error"),
    -32601: (Reason.METHOD_NOT_FOUND, "Method not found"),
    -32602: (Reason.INVALID_PARAMS, "Invalid parameters"),
    -32603: (Reason.INTERNAL_ERROR, "Internal error"),
    -32001: (Reason.TASK_NOT_FOUND, "Task not found"),
    -32002: (Reason.TASK_NOT_CANCELABLE, "Task cannot be canceled"),
    -32003: (Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, "Push Notification is not supported"),
    -32004: (Reason.UNSUPPORTED_OPERATION, "This operation is not supported"),
    -32005: (Reason.CONTENT_TYPE_NOT_SUPPORTED, "Incompatible content types"),
    -32006: (Reason.UNSUPPORTED_OPERATION, "Streaming is not supported"),
    -32007: (Reason.UNAUTHENTICATED, "Authentication required"),
    -32008: (Reason.PERMISSION_DENIED, "Authorization failed"),
    -32009: (Reason.UNSUPPORTED_OPERATION, "The task's state does not allow this"),
    -32010: (Reason.RESOURCE_EXHAUSTED, "Rate limit exceeded"),
    -32011: (Reason.UNAVAILABLE, "A required resource is unavailable"),
}


def encode_jsonrpc(error: A2AError) -> ErrorReply[Any]:
    """The JSON-RPC error object."""
    reply = v0_3.encode_jsonrpc(error)
    body: dict[str, Any] = dict(reply.body or {})
    legacy = error.metadata.get(LEGACY_CODE, "")
    if any(str(number) == legacy and known is error.reason for number, (known, _) in MEANINGS.items()):
        body["code"] = int(legacy)
    elif error.code == error.reason.code or error.code in MEANINGS:
        # A number of a newer peer may mean something else here, such as "try again".
        body["code"] = error.reason.number_0_1
    bare = replace(reply, body={"code": body["code"], "message": body["message"]})
    if v0_3.same(decode_jsonrpc(bare), error, apart=LEGACY_CODE):
        return bare
    body.setdefault("data", json_details(error))
    return replace(reply, body=body)


def decode_jsonrpc(reply: ErrorReply[Any]) -> A2AError:
    """A JSON-RPC error object, or an HTTP error without one."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    code = body.get("code")
    meaning = MEANINGS.get(code) if type(code) is int else None
    if meaning is None or _names_reason(body):
        return v0_3.decode_jsonrpc(reply)
    reason, text = meaning
    # Decoded with the number of the reason in the hub, and the peer's other members.
    error = v0_3.decode_jsonrpc(replace(reply, body={**body, "code": reason.code}))
    message = body.get("message")
    metadata = {**error.metadata, LEGACY_CODE: str(code)} if code != reason.code else error.metadata
    text = message if isinstance(message, str) and message else text
    return changed(
        error, reason=reason, message=text, metadata=metadata, code=None, name="", blame=Blame.PEER
    )


def _names_reason(body: Mapping[str, Any]) -> bool:
    """Whether the details name a reason, as other bridges write them."""
    data = body.get("data")
    if not isinstance(data, list):
        return False
    infos = [one for one in data if isinstance(one, Mapping) and one.get("@type") == any_details.ERROR_INFO]
    return any(isinstance(one.get("reason"), str) for one in infos)
