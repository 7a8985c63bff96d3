"""Errors survive every binding, with any content: our own, that of peers, and content that nobody can keep."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.errors import A2AError, Blame, GrpcStatus, Reason, Violation
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0, ErrorReply
from a2a_bridge.dialects.v1_0 import details as any_details
from a2a_bridge.pb import google_rpc
from a2a_bridge.testing.each import each
from tests.strategies import json_values, texts

FORMS: dict[str, Any] = {kind.name: V1_0.forms[kind] for kind in (JSONRPC, HTTP_JSON, GRPC)}
every_form = pytest.mark.parametrize("kind", list(FORMS))

HELP = {
    "@type": "type.googleapis.com/google.rpc.Help",
    "links": [{"description": "more", "url": "https://help.example"}],
}
STRUCT = {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"a": [1.0, None, "x"]}}
UNKNOWN = {"@type": "type.example/acme.Thing", "size": 3.0, "parts": ["a"]}
OPAQUE = {"@type": "type.example/acme.Thing", "value": "AAEC/w=="}


def through(kind: str, error: A2AError) -> A2AError:
    """The error after it has been bytes on this binding."""
    reply = FORMS[kind].encode_error(error)
    body = reply.body if isinstance(reply.body, bytes) else loads(dumps(reply.body))
    back = FORMS[kind].decode_error(ErrorReply(reply.status, body))
    assert isinstance(back, A2AError)
    return back


def members(error: A2AError) -> tuple[Any, ...]:
    return (
        error.reason,
        error.message,
        error.violations,
        error.metadata,
        error.details,
        error.code,
        error.name,
        error.retry_after,
    )


CASES = {
    "violations": A2AError(
        Reason.INVALID_PARAMS,
        "two",
        violations=[Violation("message.parts[0]", "é ✓"), Violation("", "whole")],
    ),
    "metadata": A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": "t-1", "text": "é ✓", "empty": ""}),
    "details": A2AError(Reason.UNSUPPORTED_OPERATION, details=[HELP, STRUCT, UNKNOWN, OPAQUE]),
    "retry": A2AError(Reason.RESOURCE_EXHAUSTED, retry_after=2.5),
    "retry at once": A2AError(Reason.UNAVAILABLE, retry_after=0.0),
    "own number": A2AError(
        Reason.INTERNAL_ERROR, "own", code=-32050, name="A2A_32050", metadata={"code": "-32050"}
    ),
    "own name": A2AError(
        Reason.UNAVAILABLE, "own", name="QUOTA_EXCEEDED", metadata={"domain": "acme.example"}
    ),
    "everything": A2AError(
        Reason.INVALID_PARAMS,
        "all",
        violations=[Violation("a", "b")],
        metadata={"k": "v"},
        details=[HELP],
        retry_after=1.0,
    ),
}


@every_form
@pytest.mark.parametrize("case", list(CASES))
def test_nothing_is_lost(kind: str, case: str) -> None:
    assert members(through(kind, CASES[case])) == members(CASES[case])


@each("first", list(FORMS))
@each("second", list(FORMS))
def test_an_unknown_error_number_crosses_gateways(first: str, second: str) -> None:
    heard = FORMS["JSONRPC"].decode_error(ErrorReply(200, {"code": -32077, "message": "odd"}))
    assert (heard.reason, heard.code, heard.name) == (Reason.INTERNAL_ERROR, -32077, "A2A_32077")
    passed = through(second, through(first, heard))
    assert members(passed) == members(heard)
    assert FORMS["JSONRPC"].encode_error(passed).body["code"] == -32077


@each("first", list(FORMS))
@each("second", list(FORMS))
def test_an_unknown_reason_and_domain_cross_gateways(first: str, second: str) -> None:
    info = {"@type": any_details.ERROR_INFO, "reason": "API_DISABLED", "domain": "acme.example"}
    body = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "off", "details": [info]}}
    heard = FORMS["HTTP+JSON"].decode_error(ErrorReply(403, body))
    assert (heard.reason, heard.name) == (Reason.PERMISSION_DENIED, "API_DISABLED")
    sent = FORMS["HTTP+JSON"].encode_error(through(second, through(first, heard))).body
    (found,) = sent["error"]["details"]
    assert (found["reason"], found["domain"]) == ("API_DISABLED", "acme.example")


@every_form
def test_lone_surrogates_do_not_turn_one_error_into_another(kind: str) -> None:
    error = A2AError(
        Reason.TASK_NOT_FOUND,
        "a\ud800b",
        violations=[Violation("f\udfff", "\ud800")],
        metadata={"k\ud800": "v\udc00"},
    )
    back = through(kind, error)
    assert (members(back), back.message, back.metadata) == (members(error), "a?b", {"k?": "v?"})
    assert back.violations == (Violation("f?", "?"),)
    assert through(kind, A2AError(Reason.UNAVAILABLE, name="A\ud800")).name == "A?"


@every_form
@pytest.mark.parametrize(
    "detail",
    [{"@type": "x/y", "v": "\ud800"}, {"@type": "x/y", "v": object()}, {"@type": "x/y", 5: {6}}],
    ids=["surrogate", "object", "keys"],
)
def test_details_that_are_not_json_leave_the_error_as_it_is(kind: str, detail: Any) -> None:
    back = through(kind, A2AError(Reason.TASK_NOT_FOUND, "gone", details=[detail, HELP]))
    assert (back.reason, back.message, len(back.details)) == (Reason.TASK_NOT_FOUND, "gone", 2)
    assert back.details[1] == HELP


def nested(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree


@every_form
@pytest.mark.parametrize("depth", [50, 200, 600, 5000])
def test_deep_details_leave_the_error_as_it_is(kind: str, depth: int) -> None:
    heard = FORMS["JSONRPC"].decode_error(
        ErrorReply(200, {"code": -32001, "message": "gone", "data": nested(depth)})
    )
    back = through(kind, heard)
    assert (back.reason, back.message, len(back.details)) == (Reason.TASK_NOT_FOUND, "gone", 1)


@every_form
def test_metadata_of_other_types_is_sent_as_text(kind: str) -> None:
    error = A2AError(Reason.TASK_NOT_FOUND, metadata={"n": 5})  # type: ignore[dict-item]
    assert through(kind, error).metadata == {"n": "5"}


def test_unknown_types_are_opaque_in_protobuf() -> None:
    packed = google_rpc.Status(code=5, message="gone")
    packed.details.add(type_url="type.example/acme.Thing", value=b"\x00\x01\x02\xff")
    error = FORMS["GRPC"].decode_error(ErrorReply(5, packed.SerializeToString()))
    assert error.details == (OPAQUE,)
    again = google_rpc.Status.FromString(FORMS["GRPC"].encode_error(error).body)
    assert again.details[1] == packed.details[0]


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("type.googleapis.com/google.rpc.Help", b"\xff\xff"),
        ("type.googleapis.com/google.protobuf.Value", b"\x11\x00\x00\x00\x00\x00\x00\xf0\x7f"),
        ("", b"abc"),
        ("no-slash", b""),
    ],
    ids=["no message", "infinity", "no type", "no slash"],
)
def test_details_that_cannot_be_read_stay_bytes(url: str, value: bytes) -> None:
    packed = google_rpc.Status(code=5)
    packed.details.add(type_url=url, value=value)
    error = FORMS["GRPC"].decode_error(ErrorReply(5, packed.SerializeToString()))
    (detail,) = error.details
    assert detail["@type"] == url
    assert isinstance(detail["value"], str)
    assert FORMS["GRPC"].encode_error(error).status == 5


@pytest.mark.parametrize(
    "detail",
    [
        {"@type": "type.googleapis.com/google.rpc.Help", "links": 5},
        {"@type": "type.example/acme.Thing", "value": "not base64!"},
        {"@type": "type.googleapis.com/google.protobuf.Struct", "other": 1.0},
        {"no": "type"},
    ],
    ids=["wrong member", "not base64", "no value", "no type"],
)
def test_details_of_another_type_than_named_are_carried_unchanged(detail: dict[str, Any]) -> None:
    (found,) = through("GRPC", A2AError(Reason.TASK_NOT_FOUND, details=[detail])).details
    assert found in (detail, {"@type": "type.googleapis.com/google.protobuf.Struct", "value": detail})


def test_numbers_that_protobuf_cannot_hold_are_carried_as_text() -> None:
    back = through("GRPC", A2AError(Reason.TASK_NOT_FOUND, details=[{"@type": "x/y", "n": 10**400}]))
    (found,) = back.details
    assert found["@type"] == "x/y"
    assert str(10**400) in found["json"]


@pytest.mark.parametrize(("delay", "seconds"), [("1.5s", 1.5), ("0s", 0.0), ("-3s", 0.0), ("3", 3.0)])
def test_retry_delays(delay: str, seconds: float) -> None:
    detail = {"@type": any_details.RETRY_INFO, "retryDelay": delay}
    body = {"error": {"status": "UNAVAILABLE", "details": [detail]}}
    assert FORMS["HTTP+JSON"].decode_error(ErrorReply(503, body)).retry_after == seconds


@each("delay", ["nan", "infs", "1e300s", "", "soon", None, 5, {}, ["1s"]])
def test_delays_that_are_none(delay: Any) -> None:
    detail = {"@type": any_details.RETRY_INFO, "retryDelay": delay}
    body = {"error": {"status": "UNAVAILABLE", "details": [detail]}}
    error = FORMS["HTTP+JSON"].decode_error(ErrorReply(503, body))
    assert error.retry_after is None
    for kind in FORMS:
        assert through(kind, error).reason is Reason.UNAVAILABLE


def test_a_delay_of_protobuf_that_is_none() -> None:
    packed = google_rpc.Status(code=14)
    packed.details.add(type_url=any_details.RETRY_INFO, value=b"\xff")
    beyond = google_rpc.RetryInfo()
    beyond.retry_delay.seconds = 2**60
    packed.details.add(type_url=any_details.RETRY_INFO, value=beyond.SerializeToString())
    error = FORMS["GRPC"].decode_error(ErrorReply(14, packed.SerializeToString()))
    assert (error.reason, error.retry_after) == (Reason.UNAVAILABLE, 0.0)


@settings(max_examples=60, deadline=None)
@given(
    reason=st.sampled_from(Reason),
    message=texts().filter(bool),
    violations=st.lists(st.builds(Violation, texts(), texts()), max_size=3),
    metadata=st.dictionaries(texts().filter(lambda key: key not in ("phase", "code")), texts(), max_size=3),
    value=json_values(),
    retry=st.none() | st.integers(0, 10**6).map(lambda n: n / 8),
)
def test_any_error_round_trips_on_every_binding(**made: Any) -> None:
    error = A2AError(
        made["reason"],
        made["message"],
        violations=made["violations"],
        metadata=made["metadata"],
        details=[{"@type": "type.googleapis.com/google.protobuf.Value", "value": made["value"]}],
        retry_after=made["retry"],
        blame=Blame.PEER,
    )
    for kind in FORMS:
        assert members(through(kind, error)) == members(error)


def test_statuses_are_googles() -> None:
    assert [(one.name, int(one)) for one in GrpcStatus][5] == ("NOT_FOUND", 5)
    assert [int(one) for one in GrpcStatus] == list(range(17))
