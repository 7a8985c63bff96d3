"""Errors of 0.3 and 0.2.5: no loss on any binding, the numbers of these versions, and the errors of peers."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_2_5, V0_3, V1_0, ErrorReply
from a2a_bridge.dialects.v0_3 import errors
from a2a_bridge.dialects.v1_0 import details as any_details
from a2a_bridge.dialects.v1_0.errors import BY_CODE
from a2a_bridge.pb import google_rpc
from a2a_bridge.testing.each import each
from a2a_bridge.testing.samples import every_error
from tests.strategies import json_values, texts

KINDS = ["JSONRPC", "HTTP+JSON", "GRPC"]
FORMS = {
    (dialect.version, kind.name): dialect.forms[kind]
    for dialect in (V1_0, V0_3, V0_2_5)
    for kind in (JSONRPC, HTTP_JSON, GRPC)
}
ENCODE = {place: form.encode_error for place, form in FORMS.items()}
DECODE = {place: form.decode_error for place, form in FORMS.items()}

#: reason -> (JSON-RPC number, its HTTP status, HTTP+JSON status, gRPC status, how the gRPC message begins)
TABLE = {
    "TASK_NOT_FOUND": (-32001, 200, 404, 5, "TaskNotFoundError: "),
    "TASK_NOT_CANCELABLE": (-32002, 200, 409, 9, "TaskNotCancelableError: "),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 200, 501, 12, "PushNotificationNotSupportedError: "),
    "UNSUPPORTED_OPERATION": (-32004, 200, 501, 12, "UnsupportedOperationError: "),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 200, 415, 3, "ContentTypeNotSupportedError: "),
    "INVALID_AGENT_RESPONSE": (-32006, 200, 502, 13, "InvalidAgentResponseError: "),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (
        -32007,
        200,
        404,
        9,
        "AuthenticatedExtendedCardNotConfiguredError: ",
    ),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 200, 400, 12, "ExtensionSupportRequiredError: "),
    "VERSION_NOT_SUPPORTED": (-32009, 200, 400, 12, "VersionNotSupportedError: "),
    "TASK_GENERATION_MISMATCH": (-32010, 200, 409, 10, "TaskGenerationMismatchError: "),
    "PARSE_ERROR": (-32700, 200, 400, 3, "JSONParseError: "),
    "INVALID_REQUEST": (-32600, 200, 400, 3, "InvalidRequestError: "),
    "METHOD_NOT_FOUND": (-32601, 200, 404, 12, "MethodNotFoundError: "),
    "INVALID_PARAMS": (-32602, 200, 422, 3, "InvalidParamsError: "),
    "INTERNAL_ERROR": (-32603, 200, 500, 13, "InternalError: "),
    "REQUEST_TOO_LARGE": (-32600, 413, 413, 8, ""),
    "RESOURCE_EXHAUSTED": (-32603, 429, 429, 8, ""),
    "UNAUTHENTICATED": (-32603, 401, 401, 16, ""),
    "PERMISSION_DENIED": (-32603, 403, 403, 7, ""),
    "DEADLINE_EXCEEDED": (-32603, 200, 504, 4, ""),
    "CANCELLED": (-32603, 200, 499, 1, ""),
    "UNAVAILABLE": (-32603, 200, 503, 14, ""),
    "DATA_LOSS": (-32603, 200, 500, 15, ""),
}
reasons = pytest.mark.parametrize("reason", list(Reason), ids=[reason.name for reason in Reason])


def wired(reply: ErrorReply[Any], *, status: int | None = None) -> ErrorReply[Any]:
    """A reply after it has been bytes; `status` where the binding has lost its own (inside a stream)."""
    body = reply.body if isinstance(reply.body, bytes) else loads(dumps(reply.body))
    return ErrorReply(reply.status if status is None else status, body, reply.text)


def through(version: str, kind: str, error: A2AError) -> A2AError:
    return DECODE[version, kind](wired(ENCODE[version, kind](error)))


def members(error: A2AError) -> tuple[Any, ...]:
    details = [dict(one) for one in error.details]
    return (
        *(error.reason, error.name, error.code, error.message, error.violations),
        *(error.metadata, details, error.retry_after),
    )


def rpc(body: Any, status: int = 200, operation: Any = None) -> A2AError:
    return errors.decode_jsonrpc(ErrorReply(status, body, "", operation))


def rest(status: int, body: Any = None, operation: Any = None, text: str = "") -> A2AError:
    return errors.decode_http_json(ErrorReply(status, body, text, operation))


def proto(status: int, text: str, operation: Any = None, body: bytes | None = None) -> A2AError:
    return errors.decode_grpc(ErrorReply(status, body, text, operation))


def test_the_table_is_complete() -> None:
    assert list(TABLE) == [reason.name for reason in Reason]


@reasons
def test_numbers_and_statuses(reason: Reason) -> None:
    number, http, status, grpc, prefix = TABLE[reason.name]
    error = A2AError(reason, "what happened")
    sent = errors.encode_jsonrpc(error)
    assert (sent.status, sent.body["code"], sent.body["message"]) == (http, number, "what happened")
    sent = errors.encode_http_json(error)
    assert (sent.status, sent.body["message"]) == (status, "what happened")
    assert (sent.body.get("type", ""), sent.body["code"]) == (prefix.removesuffix(": "), number)
    assert (sent.body["error"]["code"], sent.body["error"]["message"]) == (status, "what happened")
    assert sent.body["error"]["details"][0]["reason"] == reason.name
    reply = errors.encode_grpc(error)
    assert (reply.status, reply.text) == (grpc, f"{prefix}what happened")
    parsed = google_rpc.Status.FromString(reply.body)
    assert (parsed.code, parsed.message) == (grpc, reply.text)
    assert google_rpc.ErrorInfo.FromString(parsed.details[0].value).reason == reason.name
    # SDKs of 1.0, which declare the version, look for the reason among those of the status in 1.0.
    declared = errors.encode_grpc_declared(error)
    parsed = google_rpc.Status.FromString(declared.body)
    assert (declared.status, parsed.code, declared.text) == (reason.grpc, reason.grpc, reply.text)


@reasons
def test_jsonrpc_data_has_only_content_beyond_the_number(reason: Reason) -> None:
    explained = reason.level in ("http", "call") or TABLE[reason.name][0] in (-32008, -32009, -32010)
    assert ("data" in errors.encode_jsonrpc(A2AError(reason)).body) == explained
    if reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED:
        assert ENCODE["0.2.5", "JSONRPC"](A2AError(reason)).body["data"][0]["reason"] == reason.name


def test_default_messages_are_those_of_the_version() -> None:
    said = {
        reason.name: errors.encode_jsonrpc(A2AError(reason)).body["message"]
        for reason in (Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, Reason.PARSE_ERROR, Reason.INVALID_REQUEST)
    }
    assert said == {
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED": "Authenticated Extended Card is not configured",
        "PARSE_ERROR": "Invalid JSON payload",
        "INVALID_REQUEST": "Request payload validation error",
    }


@each("kind", KINDS)
@each("version", ["0.3", "0.2.5"])
@each("sent", every_error())
def test_nothing_is_lost(version: str, kind: str, sent: A2AError) -> None:
    got = through(version, kind, sent)
    assert members(got) == members(sent)
    assert got.blame is Blame.PEER
    bare = A2AError(sent.reason)
    assert members(through(version, kind, bare)) == members(bare)


@pytest.mark.parametrize("version", ["0.3", "0.2.5"])
@reasons
def test_inside_a_stream_the_status_is_not_needed(version: str, reason: Reason) -> None:
    for kind in ("JSONRPC", "HTTP+JSON"):
        reply = ENCODE[version, kind](A2AError(reason, "m"))
        assert members(DECODE[version, kind](wired(reply, status=200))) == members(A2AError(reason, "m"))


#: every pair of (reason, first), (reason, second) and (first, second), of 22 x 9 x 9 combinations
CROSSINGS = [
    pytest.param(reason, first, list(ENCODE)[(i + j) % len(ENCODE)], id=f"{reason.name}-{first}")
    for i, reason in enumerate(Reason)
    for j, first in enumerate(ENCODE)
]


def test_crossings_have_every_pair() -> None:
    rows = [one.values for one in CROSSINGS]
    assert {(first, second) for _, first, second in rows} == set(product(ENCODE, ENCODE))
    for position in (1, 2):
        assert {(row[0], row[position]) for row in rows} == set(product(Reason, ENCODE))


@each(("reason", "first", "second"), CROSSINGS)
def test_errors_cross_gateways(first: tuple[str, str], second: tuple[str, str], reason: Reason) -> None:
    sent = A2AError(reason, "é ✓", violations=[Violation("a", "b")], metadata={"k": "v"})
    assert members(through(*second, through(*first, sent))) == members(sent)


@each("kind", KINDS)
@each(
    "message",
    [
        "TaskNotFoundError: x",
        "TaskNotFoundError",
        "InternalError: Task not found",
        "Task not found",
        "Error: é",
    ],
)
def test_no_message_makes_it_another_error(kind: str, message: str) -> None:
    for reason in Reason:
        sent = A2AError(reason, message)
        assert members(through("0.3", kind, sent)) == members(sent), reason


@each("kind", KINDS)
@each("message", ["TaskNotFoundError: x", "Task not found", "Method not found", "InternalError: x"])
@each("reason", [Reason.INTERNAL_ERROR, Reason.UNAVAILABLE, Reason.PERMISSION_DENIED])
def test_a_name_of_its_own_outweighs_words(kind: str, message: str, reason: Reason) -> None:
    sent = A2AError(reason, message, name="OWN", metadata={"domain": "acme.example"})
    assert members(through("0.3", kind, sent)) == members(sent)


@pytest.mark.parametrize("second", [key for key in ENCODE if key[1] != "GRPC"], ids=str)
@given(data=json_values())
def test_data_of_any_type_survives(second: tuple[str, str], data: Any) -> None:
    body = {"code": -32001, "message": "m", "data": data}
    heard = rpc(loads(dumps(body)))
    assert heard.reason is Reason.TASK_NOT_FOUND
    assert errors.encode_jsonrpc(through(*second, heard)).body == body


@each(
    "data",
    [
        None,
        True,
        5,
        -0.5,
        "t",
        [],
        [1, {"b": None}],
        {},
        {"a": [1]},
        [{"no": "t"}],
        10**400,
        2**70,
        ["\ud800"],
    ],
)
def test_data_of_any_type_survives_protobuf(data: Any) -> None:
    body = {"code": -32001, "message": "m", "data": data}
    for version in ("0.3", "1.0"):
        assert errors.encode_jsonrpc(through(version, "GRPC", rpc(body))).body == body


def test_data_that_looks_like_details_comes_back() -> None:
    detail = {"@type": "type.example/acme.Thing", "size": 3}
    for data in ([detail], [detail, detail], [any_details.value([detail])]):
        body = {"code": -32002, "message": "m", "data": data}
        assert errors.encode_jsonrpc(rpc(body)).body == body


@example(code=-31401, message="m")
@given(code=st.integers(-40_000, 40_000), message=texts())
def test_unknown_numbers_pass(code: int, message: str) -> None:
    body = {"code": code, "message": message or "m"}
    heard = rpc(body)
    for version in ("0.3", "1.0"):
        for kind in KINDS:
            assert members(through(version, kind, heard)) == members(heard)
    if code not in BY_CODE:
        assert errors.encode_jsonrpc(heard).body == body
        assert heard.metadata["code"] == str(code)


@each(
    ("message", "reason"),
    [
        ("Task not found", Reason.TASK_NOT_FOUND),
        ("Task cannot be canceled", Reason.TASK_NOT_CANCELABLE),
        ("Push Notification is not supported", Reason.PUSH_NOTIFICATION_NOT_SUPPORTED),
        ("This operation is not supported", Reason.UNSUPPORTED_OPERATION),
        ("Incompatible content types", Reason.CONTENT_TYPE_NOT_SUPPORTED),
        ("Invalid agent response", Reason.INVALID_AGENT_RESPONSE),
        ("Authenticated Extended Card is not configured", Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        ("TaskNotFoundError: no t-1 here", Reason.TASK_NOT_FOUND),
        ("InvalidParamsError: no", Reason.INVALID_PARAMS),
        ("something else", Reason.INTERNAL_ERROR),
    ],
)
def test_words_speak_where_every_error_has_one_number(message: str, reason: Reason) -> None:
    error = rpc({"code": -32603, "message": message})
    assert (error.reason, error.code) == (reason, reason.code)


def test_a_name_outweighs_a_number_and_a_reason_a_name() -> None:
    assert rpc({"code": -32600, "message": "InvalidParamsError: x"}).reason is Reason.INVALID_PARAMS
    info = {"@type": any_details.ERROR_INFO, "reason": "TASK_NOT_CANCELABLE", "domain": "a2a-protocol.org"}
    body = {"code": -32603, "message": "TaskNotFoundError: x", "data": [info]}
    assert rpc(body).reason is Reason.TASK_NOT_CANCELABLE


@each(
    ("status", "body", "operation", "reason"),
    [
        (404, {"message": "Task not found"}, ops.GET_TASK, Reason.TASK_NOT_FOUND),
        (404, {"message": "nope"}, ops.GET_TASK, Reason.TASK_NOT_FOUND),
        (404, {"message": "no such task"}, ops.SEND_MESSAGE, Reason.TASK_NOT_FOUND),
        (404, {"message": "nope"}, ops.SEND_MESSAGE, Reason.METHOD_NOT_FOUND),
        (404, {"message": "Method not found"}, ops.GET_TASK, Reason.METHOD_NOT_FOUND),
        (404, {"detail": "Not Found"}, ops.GET_TASK, Reason.METHOD_NOT_FOUND),
        (404, None, ops.GET_TASK, Reason.METHOD_NOT_FOUND),
        (404, None, ops.GET_EXTENDED_AGENT_CARD, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        (404, {"error": "no card"}, ops.GET_EXTENDED_AGENT_CARD, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        (405, {"detail": "Method Not Allowed"}, ops.SUBSCRIBE_TO_TASK, Reason.METHOD_NOT_FOUND),
        (409, {"message": "m"}, ops.CANCEL_TASK, Reason.TASK_NOT_CANCELABLE),
        (415, {"message": "m"}, ops.SEND_MESSAGE, Reason.CONTENT_TYPE_NOT_SUPPORTED),
        (422, {"message": "m"}, ops.SEND_MESSAGE, Reason.INVALID_PARAMS),
        (400, {"message": "Invalid JSON payload"}, ops.SEND_MESSAGE, Reason.PARSE_ERROR),
        (400, {"message": "Request payload validation error"}, ops.SEND_MESSAGE, Reason.INVALID_REQUEST),
        (500, {"message": "Internal error"}, ops.SEND_MESSAGE, Reason.INTERNAL_ERROR),
        (501, {"message": "m"}, ops.CREATE_PUSH_CONFIG, Reason.PUSH_NOTIFICATION_NOT_SUPPORTED),
        (501, {"message": "m"}, ops.SUBSCRIBE_TO_TASK, Reason.UNSUPPORTED_OPERATION),
        (
            *(501, {"message": "Push Notification is not supported"}, ops.SEND_MESSAGE),
            Reason.PUSH_NOTIFICATION_NOT_SUPPORTED,
        ),
        (502, {"message": "m"}, ops.SEND_MESSAGE, Reason.INVALID_AGENT_RESPONSE),
        (502, None, ops.SEND_MESSAGE, Reason.UNAVAILABLE),
        (401, {"message": "m"}, ops.SEND_MESSAGE, Reason.UNAUTHENTICATED),
        (503, None, None, Reason.UNAVAILABLE),
        (400, {"code": -32602, "message": "m"}, ops.SEND_MESSAGE, Reason.INVALID_PARAMS),
        (500, {"error": {"code": -32001, "message": "m"}}, ops.GET_TASK, Reason.TASK_NOT_FOUND),
        (500, {"message": "TaskNotFoundError: x"}, None, Reason.TASK_NOT_FOUND),
        (404, {"type": "TaskNotFoundError", "message": "x"}, None, Reason.TASK_NOT_FOUND),
        (400, {"type": "about:blank", "title": "x"}, None, Reason.INVALID_REQUEST),
    ],
)
def test_errors_of_http_servers(status: int, body: Any, operation: Any, reason: Reason) -> None:
    assert rest(status, body, operation).reason is reason


def test_jsonrpc_without_a_body_goes_by_the_status() -> None:
    assert rpc(None, 404, ops.GET_EXTENDED_AGENT_CARD).reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED
    assert rpc(None, 401).reason is Reason.UNAUTHENTICATED
    assert rpc({"message": "x"}).reason is Reason.INTERNAL_ERROR


@each(
    ("status", "text", "operation", "reason", "message"),
    [
        (5, "TaskNotFoundError: Task not found", ops.GET_TASK, Reason.TASK_NOT_FOUND, "Task not found"),
        (5, "MethodNotFoundError: x", ops.GET_TASK, Reason.METHOD_NOT_FOUND, "x"),
        (12, "TaskNotCancelableError: x", ops.CANCEL_TASK, Reason.TASK_NOT_CANCELABLE, "x"),
        (12, "PushNotificationNotSupportedError: x", None, Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, "x"),
        (12, "ContentTypeNotSupportedError: x", None, Reason.CONTENT_TYPE_NOT_SUPPORTED, "x"),
        (13, "JSONParseError: x", None, Reason.PARSE_ERROR, "x"),
        (13, "InternalError: x", None, Reason.INTERNAL_ERROR, "x"),
        (2, "TaskNotFoundError: x", None, Reason.TASK_NOT_FOUND, "x"),
        (5, "gone", ops.GET_TASK, Reason.TASK_NOT_FOUND, "gone"),
        (12, "Method not found!", ops.LIST_PUSH_CONFIGS, Reason.METHOD_NOT_FOUND, "Method not found!"),
        (
            12,
            "Method not implemented!",
            ops.LIST_PUSH_CONFIGS,
            Reason.METHOD_NOT_FOUND,
            "Method not implemented!",
        ),
        (12, "", ops.LIST_PUSH_CONFIGS, Reason.METHOD_NOT_FOUND, "Method not found"),
        (12, "no push", ops.LIST_PUSH_CONFIGS, Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, "no push"),
        (12, "is done", ops.CANCEL_TASK, Reason.TASK_NOT_CANCELABLE, "is done"),
        (12, "no", ops.SEND_MESSAGE, Reason.UNSUPPORTED_OPERATION, "no"),
        (9, "is done", ops.CANCEL_TASK, Reason.TASK_NOT_CANCELABLE, "is done"),
        (9, "no card", ops.GET_EXTENDED_AGENT_CARD, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, "no card"),
        (9, "no", ops.SEND_MESSAGE, Reason.UNSUPPORTED_OPERATION, "no"),
        (16, "who?", None, Reason.UNAUTHENTICATED, "who?"),
        (14, "later", None, Reason.UNAVAILABLE, "later"),
        (3, "bad", None, Reason.INVALID_PARAMS, "bad"),
        (2, "KeyError in agent.py", None, Reason.INTERNAL_ERROR, "Internal error"),
    ],
)
def test_errors_of_grpc_servers(status: int, text: str, operation: Any, reason: Reason, message: str) -> None:
    error = proto(status, text, operation)
    assert (error.reason, error.message) == (reason, message)


def test_a_stack_trace_goes_no_further() -> None:
    for error in (proto(2, "Traceback: secret"), rest(500, None, text="Traceback: secret")):
        for encode in ENCODE.values():
            reply = encode(error)
            sent = reply.body if isinstance(reply.body, bytes) else dumps(reply.body)
            assert b"secret" not in sent
            assert "secret" not in reply.text


@given(body=json_values(), status=st.integers(0, 600))
def test_reading_never_fails(body: Any, status: int) -> None:
    for found in (
        body,
        {"error": body},
        {"error": {"details": body, "code": body}},
        {"code": body, "data": body},
    ):
        for error in (rpc(found, status), rest(status, found)):
            assert isinstance(error, A2AError)


@given(body=st.binary(max_size=64), status=st.integers(-1, 30), text=texts())
def test_reading_bytes_never_fails(body: bytes, status: int, text: str) -> None:
    assert isinstance(proto(status, text, None, body), A2AError)
