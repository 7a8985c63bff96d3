"""Errors of real and possible peers: reading never fails, and gets as much as possible."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0, ErrorReply
from a2a_bridge.pb import google_rpc
from a2a_bridge.testing.each import each

RPC, REST, PROTO = V1_0.forms[JSONRPC], V1_0.forms[HTTP_JSON], V1_0.forms[GRPC]
INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def rpc(body: Any, status: int = 200, text: str = "") -> A2AError:
    return RPC.decode_error(ErrorReply(status, body, text))


def rest(status: int, body: Any = None, text: str = "") -> A2AError:
    return REST.decode_error(ErrorReply(status, body, text))


def info(reason: Any, **more: Any) -> dict[str, Any]:
    return {"@type": INFO, "reason": reason, "domain": "a2a-protocol.org", **more}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-32001, Reason.TASK_NOT_FOUND),
        (-32009, Reason.VERSION_NOT_SUPPORTED),
        (-32700, Reason.PARSE_ERROR),
        (-32600, Reason.INVALID_REQUEST),
        (-32601, Reason.METHOD_NOT_FOUND),
        (-32602, Reason.INVALID_PARAMS),
        (-32603, Reason.INTERNAL_ERROR),
    ],
)
def test_numbers_of_jsonrpc(code: int, reason: Reason) -> None:
    error = rpc({"code": code, "message": "m"})
    assert (error.reason, error.message, error.code, error.blame) == (reason, "m", code, Blame.PEER)


@each("code", [0, 1, -32000, -32050, -32099, 418, 2**63, -(10**40)])
def test_unknown_error_numbers_are_kept(code: int) -> None:
    error = rpc({"code": code, "message": "m"})
    assert (error.reason, error.code, error.metadata["code"]) == (Reason.INTERNAL_ERROR, code, str(code))


@pytest.mark.parametrize("code", [None, True, "x", 1.5, [], {}])
def test_without_a_number_the_status_speaks(code: Any) -> None:
    assert rpc({"code": code, "message": "m"}, 503).reason is Reason.UNAVAILABLE
    assert rpc({"message": "m"}, 200).reason is Reason.INTERNAL_ERROR


@pytest.mark.parametrize("body", [None, 5, "text", [], [1], True, 1.5])
def test_a_body_that_is_no_error_object(body: Any) -> None:
    for error in (rpc(body, 401, "who?"), rest(401, body, "who?")):
        assert (error.reason, error.message) == (Reason.UNAUTHENTICATED, Reason.UNAUTHENTICATED.text)
        assert error.__notes__ == ["the peer said: who?"]


@pytest.mark.parametrize("form", [RPC, REST, PROTO])
def test_error_texts_in_no_known_format_are_not_forwarded(form: Any) -> None:
    """A stack trace or an address inside the agent's network must not reach the callers of a gateway."""
    trace = "Traceback (most recent call last): KeyError at /srv/agent.py"
    error = form.decode_error(ErrorReply(2 if form is PROTO else 500, None, trace))
    for other in (RPC, REST, PROTO):
        sent = other.encode_error(error).body
        assert b"Traceback" not in (sent if isinstance(sent, bytes) else dumps(sent))
    assert error.reason is Reason.INTERNAL_ERROR


def test_words_outside_of_any_format_still_tell_the_reason() -> None:
    assert rest(404, None, "TaskNotFoundError: Task not found").reason is Reason.TASK_NOT_FOUND


@each("data", [5, "text", True, 1.5, {"a": [1]}, [1, {"b": None}], [{"no": "type"}], []])
def test_data_may_be_any_json(data: Any) -> None:
    error = rpc({"code": -32001, "message": "m", "data": data})
    assert error.reason is Reason.TASK_NOT_FOUND
    if data:
        assert [one["value"] for one in error.details] == [data]
    else:
        assert error.details == ()


def test_no_data_and_null_data_are_the_same() -> None:
    assert rpc({"code": -32001, "message": "m", "data": None}).details == ()


def test_the_name_outweighs_number_and_status() -> None:
    body = {"code": -32603, "message": "m", "data": [info("TASK_NOT_CANCELABLE")]}
    assert rpc(body).reason is Reason.TASK_NOT_CANCELABLE
    error = {"status": "FAILED_PRECONDITION", "details": [info("EXTENSION_SUPPORT_REQUIRED")]}
    assert rest(400, {"error": error}).reason is Reason.EXTENSION_SUPPORT_REQUIRED


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("INTERNAL", Reason.INTERNAL_ERROR),
        ("UNAUTHORIZED", Reason.PERMISSION_DENIED),
        ("UNSUPPORTED_CONTENT_TYPE", Reason.CONTENT_TYPE_NOT_SUPPORTED),
        ("EXTENDED_CARD_NOT_CONFIGURED", Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
    ],
)
def test_names_that_sdks_have_of_their_own(name: str, reason: Reason) -> None:
    """They are forwarded under the name of the specification, which all readers know."""
    body = {"code": -32000, "message": "m", "data": [info(name, metadata={"k": "v"})]}
    status = google_rpc.Status(code=2, message="m")
    status.details.add().Pack(
        google_rpc.ErrorInfo(reason=name, domain="a2a-protocol.org", metadata={"k": "v"})
    )
    found = [
        rpc(body),
        rest(500, {"error": {"message": "m", "details": [info(name, metadata={"k": "v"})]}}),
        PROTO.decode_error(ErrorReply(2, status.SerializeToString(), "m")),
    ]
    for error in found:
        assert (error.reason, error.name, error.message) == (reason, reason.name, "m")
        assert error.metadata["k"] == "v"


@pytest.mark.parametrize(
    ("reason", "number", "http", "grpc"),
    [(Reason.UNAUTHENTICATED, -31401, 401, 16), (Reason.PERMISSION_DENIED, -31403, 403, 7)],
)
def test_rejected_permissions_are_the_same_error_on_every_binding(
    reason: Reason, number: int, http: int, grpc: int
) -> None:
    """The form of a2a-go 2, and the status alone: both become the same kind of rejection on each binding."""
    name = {16: "UNAUTHENTICATED", 7: "UNAUTHORIZED"}[grpc]
    error = {"code": http, "status": "UNKNOWN", "message": "no", "details": [info(name)]}
    for rejection in (
        rpc({"code": number, "message": "no", "data": [info(name)]}),
        rpc({"code": number, "message": "no"}),
        rpc({"code": -32603, "message": "no"}, http),
        rpc(None, http),
        rest(http, {"error": error}),
        rest(200, {"code": number, "message": "no"}),
        rest(http),
        PROTO.decode_error(ErrorReply(grpc, None, "no")),
    ):
        assert rejection.reason is reason
        statuses = [form.encode_error(rejection).status for form in (RPC, REST, PROTO)]
        assert statuses == [http, http, grpc]


def test_names_with_the_suffix_of_the_types() -> None:
    error = rest(404, {"error": {"details": [info("TASK_NOT_FOUND_ERROR")]}})
    assert (error.reason, error.name) == (Reason.TASK_NOT_FOUND, "TASK_NOT_FOUND_ERROR")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("TaskNotFoundError: Task not found", Reason.TASK_NOT_FOUND),
        ("UnsupportedOperationError: This operation is not supported", Reason.UNSUPPORTED_OPERATION),
        ("PUSH NOTIFICATION IS NOT SUPPORTED by me", Reason.PUSH_NOTIFICATION_NOT_SUPPORTED),
        ("something else", Reason.INTERNAL_ERROR),
    ],
)
def test_texts_decide_if_the_number_is_generic(message: str, reason: Reason) -> None:
    assert rpc({"code": -32603, "message": message}).reason is reason
    assert PROTO.decode_error(ErrorReply(2, None, message)).reason is reason
    assert rest(500, None, message).reason is reason


def test_a_text_does_not_outweigh_a_name() -> None:
    body = {"code": -32603, "message": "Task not found", "data": [info("INTERNAL_ERROR")]}
    assert rpc(body).reason is Reason.INTERNAL_ERROR


@each(
    ("status", "reason"),
    [
        (400, Reason.INVALID_REQUEST),
        (401, Reason.UNAUTHENTICATED),
        (403, Reason.PERMISSION_DENIED),
        (404, Reason.METHOD_NOT_FOUND),
        (405, Reason.METHOD_NOT_FOUND),
        (408, Reason.DEADLINE_EXCEEDED),
        (409, Reason.TASK_NOT_CANCELABLE),
        (413, Reason.REQUEST_TOO_LARGE),
        (415, Reason.CONTENT_TYPE_NOT_SUPPORTED),
        (418, Reason.INTERNAL_ERROR),
        (429, Reason.RESOURCE_EXHAUSTED),
        (499, Reason.CANCELLED),
        (500, Reason.INTERNAL_ERROR),
        (501, Reason.UNSUPPORTED_OPERATION),
        (502, Reason.UNAVAILABLE),
        (503, Reason.UNAVAILABLE),
        (504, Reason.DEADLINE_EXCEEDED),
        (302, Reason.INTERNAL_ERROR),
        (0, Reason.INTERNAL_ERROR),
    ],
)
def test_bare_http_statuses(status: int, reason: Reason) -> None:
    assert rest(status).reason is reason
    assert rest(status, {"error": {}}).reason is reason
    assert rpc(None, status).reason is reason


@each(
    ("status", "reason"),
    [
        (0, Reason.INTERNAL_ERROR),
        (1, Reason.CANCELLED),
        (2, Reason.INTERNAL_ERROR),
        (3, Reason.INVALID_PARAMS),
        (4, Reason.DEADLINE_EXCEEDED),
        (5, Reason.TASK_NOT_FOUND),
        (6, Reason.INTERNAL_ERROR),
        (7, Reason.PERMISSION_DENIED),
        (8, Reason.RESOURCE_EXHAUSTED),
        (9, Reason.UNSUPPORTED_OPERATION),
        (12, Reason.METHOD_NOT_FOUND),
        (13, Reason.INTERNAL_ERROR),
        (14, Reason.UNAVAILABLE),
        (16, Reason.UNAUTHENTICATED),
        (17, Reason.INTERNAL_ERROR),
        (-1, Reason.INTERNAL_ERROR),
    ],
)
@each("body", [None, b"", b"\xff"])
def test_bare_grpc_statuses(status: int, reason: Reason, body: bytes | None) -> None:
    error = PROTO.decode_error(ErrorReply(status, body, "words"))
    # The text of an unexpected exception in a server is not repeated.
    known = 0 <= status <= 16 and status != 2
    assert (error.reason, error.blame) == (reason, Blame.PEER)
    assert error.message == ("words" if known else reason.text)


def test_the_message_of_the_details_outweighs_that_of_the_status() -> None:
    body = google_rpc.Status(code=5, message="whole text").SerializeToString()
    assert PROTO.decode_error(ErrorReply(5, body, "cut text")).message == "whole text"


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("NOT_FOUND", 404, Reason.TASK_NOT_FOUND),
        ("FAILED_PRECONDITION", 400, Reason.UNSUPPORTED_OPERATION),
        ("UNKNOWN", 503, Reason.UNAVAILABLE),
        ("NONSENSE", 404, Reason.METHOD_NOT_FOUND),
        ("__class__", 404, Reason.METHOD_NOT_FOUND),
        (5, 404, Reason.METHOD_NOT_FOUND),
    ],
)
def test_status_names_of_http_json(name: Any, status: int, reason: Reason) -> None:
    assert rest(status, {"error": {"status": name, "message": "m"}}).reason is reason


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"type": "about:blank", "title": "Gone", "status": 404, "detail": "no such task"}, "no such task"),
        ({"title": "Gone"}, "Gone"),
        ({"message": "Gone"}, "Gone"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, Reason.METHOD_NOT_FOUND.text),
        ({"error": "Gone"}, Reason.METHOD_NOT_FOUND.text),
        ({}, Reason.METHOD_NOT_FOUND.text),
    ],
)
def test_problem_json_and_its_like(body: Any, message: str) -> None:
    error = rest(404, body, "raw")
    assert (error.reason, error.message) == (Reason.METHOD_NOT_FOUND, message)


def test_the_phase_of_a_call_is_ours_alone_to_say() -> None:
    """Its readers conclude that the agent has not seen the call, and send it again."""
    metadata = {"phase": "connect", "k": "v"}
    found = info("UNAVAILABLE", metadata=metadata)
    assert rpc({"code": -32603, "message": "m", "data": [found]}).metadata == {"k": "v"}
    assert rest(503, {"error": {"details": [found]}}).metadata == {"k": "v"}
    packed = google_rpc.Status(code=14)
    inner = google_rpc.ErrorInfo(reason="UNAVAILABLE", metadata=metadata)
    packed.details.add(type_url=INFO, value=inner.SerializeToString())
    assert PROTO.decode_error(ErrorReply(14, packed.SerializeToString())).metadata == {"k": "v"}


def test_metadata_of_any_type_becomes_text() -> None:
    found = info("X", metadata={"n": 1, "b": True, "l": [1, None], "s": "s", "z": None})
    metadata = rest(400, {"error": {"details": [found]}}).metadata
    assert metadata == {"n": "1", "b": "true", "l": "[1,null]", "s": "s", "z": "null"}


@each("number", ["--5", "²", "9" * 5000, "-", "", "x", "1.5", "\u0665"])
def test_a_number_in_the_metadata_that_is_none(number: str) -> None:
    error = rest(400, {"error": {"details": [info("A2A_X", metadata={"code": number})]}})
    assert (error.reason, error.code) == (Reason.INVALID_REQUEST, -32600)


def test_only_the_first_info_counts_and_none_is_lost() -> None:
    second = info("TASK_NOT_CANCELABLE")
    error = rest(400, {"error": {"details": [info("TASK_NOT_FOUND"), second]}})
    assert (error.reason, error.details) == (Reason.TASK_NOT_FOUND, (second,))


DEEP: Any = 1
for _ in range(5000):
    DEEP = [DEEP]

HOSTILE: list[Any] = [
    {"@type": INFO, "reason": 5, "metadata": 5},
    {"@type": INFO, "reason": "A2A_1", "metadata": {"code": "-99999999999999999999"}},
    {"@type": INFO, "reason": "X", "metadata": {"deep": DEEP}},
    {"@type": INFO, "reason": "\ud800", "metadata": {"\ud800": "\udfff"}, "domain": 5},
    {"@type": INFO, "reason": "X", "domain": "\ud800"},
    {"@type": 5},
    {"@type": None, "x": 10**400},
    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": 5},
    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [5, {}, {"field": []}]},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1e999s"},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo"},
    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": "x"},
    {"@type": "type.googleapis.com/google.protobuf.Value", "value": DEEP},
    {"@type": "type.googleapis.com/google.protobuf.Value", "value": 1e308},
]


@each("detail", HOSTILE)
def test_hostile_details(detail: Any) -> None:
    for error in (
        rpc({"code": -32001, "message": "m", "data": [detail]}),
        rest(404, {"error": {"message": "m", "details": [detail, 5, None]}}),
    ):
        assert error.blame is Blame.PEER
        assert error.message == "m"
        dumps(RPC.encode_error(error).body)
        dumps(REST.encode_error(error).body)
        assert isinstance(PROTO.encode_error(error).body, bytes)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["ErrorInfo", "BadRequest", "RetryInfo", "Help", "DebugInfo", "Nonsense"])
any_detail = any_json | st.fixed_dictionaries(
    {"@type": names.map("type.googleapis.com/google.rpc.{}".format)},
    optional=dict.fromkeys(
        ("reason", "metadata", "domain", "fieldViolations", "retryDelay", "links", "value"), any_json
    ),
)
any_error = any_json | st.fixed_dictionaries(
    {},
    optional={
        "code": any_json | st.sampled_from([reason.code for reason in Reason]),
        "message": any_json,
        "status": any_json | st.sampled_from(["NOT_FOUND", "UNKNOWN"]),
        "data": any_json | st.lists(any_detail, max_size=3),
        "details": any_json | st.lists(any_detail, max_size=3),
        "detail": any_json,
        "title": any_json,
    },
)


def check(error: A2AError) -> None:
    """It is an error that can be sent, and comes back as the same kind."""
    assert isinstance(error, A2AError)
    assert "phase" not in error.metadata
    assert loads(dumps(RPC.encode_error(error).body)) is not None
    assert PROTO.decode_error(PROTO.encode_error(error)).blame is Blame.PEER


@settings(max_examples=150, deadline=None)
@given(body=any_error, status=st.integers(0, 999), text=st.text())
def test_any_json_is_read_as_an_error(body: Any, status: int, text: str) -> None:
    check(rpc(body, status, text))
    check(rest(status, body, text))
    check(rest(status, {"error": body}, text))


@settings(max_examples=100, deadline=None)
@given(body=st.none() | st.binary(), status=st.integers(-5, 99), text=st.text())
def test_any_bytes_are_read_as_an_error(body: bytes | None, status: int, text: str) -> None:
    check(PROTO.decode_error(ErrorReply(status, body, text)))


@settings(max_examples=60, deadline=None)
@given(
    details=st.lists(
        st.tuples(names.map("type.googleapis.com/google.rpc.{}".format) | st.text(), st.binary()), max_size=3
    )
)
def test_any_packed_details_are_read(details: list[tuple[str, bytes]]) -> None:
    packed = google_rpc.Status(code=5, message="m")
    for url, value in details:
        packed.details.add(type_url=url.encode("utf-8", "replace").decode(), value=value)
    check(PROTO.decode_error(ErrorReply(5, packed.SerializeToString())))


@each(
    ("status", "code", "reason"),
    [
        (503, -32603, Reason.UNAVAILABLE),
        (429, -32603, Reason.RESOURCE_EXHAUSTED),
        (401, -32603, Reason.UNAUTHENTICATED),
        (413, -32600, Reason.REQUEST_TOO_LARGE),
        (500, -32603, Reason.INTERNAL_ERROR),
        (400, -32600, Reason.INVALID_REQUEST),
        (503, -32001, Reason.TASK_NOT_FOUND),
        (404, -32603, Reason.INTERNAL_ERROR),
    ],
)
def test_the_status_tells_reasons_of_one_number_apart(status: int, code: int, reason: Reason) -> None:
    assert rpc({"code": code, "message": "m"}, status).reason is reason
    assert rpc({"code": code, "message": "m", "data": [info("OWN_NAME")]}, status).reason is reason
