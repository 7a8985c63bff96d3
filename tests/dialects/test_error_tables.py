"""The numbers of every error on each binding, as literal data: a change of the table must be made here too."""

import json

import pytest

from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0
from a2a_bridge.pb import google_rpc

RPC, REST, PROTO = V1_0.forms[JSONRPC], V1_0.forms[HTTP_JSON], V1_0.forms[GRPC]

#: ErrorInfo.reason -> (JSON-RPC code, its HTTP status, gRPC status, its name, status of HTTP+JSON)
TABLE = {
    "TASK_NOT_FOUND": (-32001, 200, 5, "NOT_FOUND", 404),
    "TASK_NOT_CANCELABLE": (-32002, 200, 9, "FAILED_PRECONDITION", 400),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 200, 9, "FAILED_PRECONDITION", 400),
    "UNSUPPORTED_OPERATION": (-32004, 200, 9, "FAILED_PRECONDITION", 400),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 200, 3, "INVALID_ARGUMENT", 400),
    "INVALID_AGENT_RESPONSE": (-32006, 200, 13, "INTERNAL", 500),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, 200, 9, "FAILED_PRECONDITION", 400),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 200, 9, "FAILED_PRECONDITION", 400),
    "VERSION_NOT_SUPPORTED": (-32009, 200, 9, "FAILED_PRECONDITION", 400),
    "TASK_GENERATION_MISMATCH": (-32010, 200, 10, "ABORTED", 409),
    "PARSE_ERROR": (-32700, 200, 3, "INVALID_ARGUMENT", 400),
    "INVALID_REQUEST": (-32600, 200, 3, "INVALID_ARGUMENT", 400),
    "METHOD_NOT_FOUND": (-32601, 200, 12, "UNIMPLEMENTED", 404),
    "INVALID_PARAMS": (-32602, 200, 3, "INVALID_ARGUMENT", 400),
    "INTERNAL_ERROR": (-32603, 200, 13, "INTERNAL", 500),
    "REQUEST_TOO_LARGE": (-32600, 413, 8, "RESOURCE_EXHAUSTED", 413),
    "RESOURCE_EXHAUSTED": (-32603, 429, 8, "RESOURCE_EXHAUSTED", 429),
    "UNAUTHENTICATED": (-32603, 401, 16, "UNAUTHENTICATED", 401),
    "PERMISSION_DENIED": (-32603, 403, 7, "PERMISSION_DENIED", 403),
    "DEADLINE_EXCEEDED": (-32603, 200, 4, "DEADLINE_EXCEEDED", 504),
    "CANCELLED": (-32603, 200, 1, "CANCELLED", 499),
    "UNAVAILABLE": (-32603, 200, 14, "UNAVAILABLE", 503),
    "DATA_LOSS": (-32603, 200, 15, "DATA_LOSS", 500),
}

reasons = pytest.mark.parametrize("name", list(TABLE))


def info(name: str) -> dict[str, str]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": name, "domain": "a2a-protocol.org"}


def test_the_table_is_complete() -> None:
    assert list(TABLE) == [reason.name for reason in Reason]


@reasons
def test_jsonrpc(name: str) -> None:
    code, http, *_ = TABLE[name]
    reply = RPC.encode_error(A2AError(Reason[name], "what happened"))
    assert reply.status == http
    assert reply.body == {"code": code, "message": "what happened", "data": [info(name)]}


@reasons
def test_http_json(name: str) -> None:
    _, _, _, status, http = TABLE[name]
    reply = REST.encode_error(A2AError(Reason[name], "what happened"))
    assert reply.status == http
    assert reply.body == {
        "error": {"code": http, "status": status, "message": "what happened", "details": [info(name)]}
    }


@reasons
def test_grpc(name: str) -> None:
    _, _, number, _, _ = TABLE[name]
    reply = PROTO.encode_error(A2AError(Reason[name], "what happened"))
    assert reply.status == number
    assert reply.body is not None
    status = google_rpc.Status.FromString(reply.body)
    assert (status.code, status.message, len(status.details)) == (number, "what happened", 1)
    assert status.details[0].type_url == "type.googleapis.com/google.rpc.ErrorInfo"
    found = google_rpc.ErrorInfo.FromString(status.details[0].value)
    assert (found.reason, found.domain, dict(found.metadata)) == (name, "a2a-protocol.org", {})


@reasons
@pytest.mark.parametrize("form", [RPC, REST, PROTO], ids=["JSONRPC", "HTTP+JSON", "GRPC"])
def test_a_reason_comes_back(name: str, form: object) -> None:
    assert form in (RPC, REST, PROTO)
    back = form.decode_error(form.encode_error(A2AError(Reason[name])))  # type: ignore[attr-defined]
    assert (back.reason, back.name, back.code, back.blame) == (Reason[name], name, TABLE[name][0], Blame.PEER)


@reasons
def test_errors_have_a_text_of_their_own(name: str) -> None:
    """The default text, on every binding alike."""
    texts = {
        json.loads(dumps(RPC.encode_error(A2AError(Reason[name])).body))["message"],
        json.loads(dumps(REST.encode_error(A2AError(Reason[name])).body))["error"]["message"],
        google_rpc.Status.FromString(PROTO.encode_error(A2AError(Reason[name])).body or b"").message,
    }
    assert texts == {str(A2AError(Reason[name]))}
    assert "" not in texts
