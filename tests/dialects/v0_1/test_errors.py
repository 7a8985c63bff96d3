"""Errors go by name: the numbers of 0.1 mean other things in later versions."""

from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v0_1.errors import LEGACY_CODE, MEANINGS, decode_jsonrpc, encode_jsonrpc
from a2a_bridge.dialects.v0_3 import errors as v0_3
from a2a_bridge.dialects.v1_0 import errors as v1_0
from a2a_bridge.testing.each import each


def error_of(code: int, message: str = "said so", data: Any = None) -> A2AError:
    body = {"code": code, "message": message}
    return decode_jsonrpc(ErrorReply(200, body if data is None else {**body, "data": data}))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-32005, Reason.CONTENT_TYPE_NOT_SUPPORTED),
        (-32006, Reason.UNSUPPORTED_OPERATION),
        (-32007, Reason.UNAUTHENTICATED),
        (-32008, Reason.PERMISSION_DENIED),
        (-32009, Reason.UNSUPPORTED_OPERATION),
        (-32010, Reason.RESOURCE_EXHAUSTED),
        (-32011, Reason.UNAVAILABLE),
    ],
)
def test_colliding_error_numbers_have_the_meaning_of_0_1(code: int, reason: Reason) -> None:
    error = error_of(code)
    assert error.reason is reason
    assert error.code == reason.code
    assert error.metadata == ({} if code == reason.code else {LEGACY_CODE: str(code)})


@each(
    ("reason", "code"),
    [
        (Reason.INVALID_AGENT_RESPONSE, -32603),
        (Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, -32004),
        (Reason.EXTENSION_SUPPORT_REQUIRED, -32004),
        (Reason.VERSION_NOT_SUPPORTED, -32600),
        (Reason.TASK_GENERATION_MISMATCH, -32600),
        (Reason.UNAUTHENTICATED, -32007),
        (Reason.PERMISSION_DENIED, -32008),
        (Reason.RESOURCE_EXHAUSTED, -32010),
        (Reason.UNAVAILABLE, -32011),
        (Reason.CONTENT_TYPE_NOT_SUPPORTED, -32005),
        (Reason.UNSUPPORTED_OPERATION, -32004),
    ],
)
def test_later_errors_get_a_number_that_0_1_does_not_misread(reason: Reason, code: int) -> None:
    assert encode_jsonrpc(A2AError(reason)).body["code"] == code


@each("code", [-32007, -32008, -32010, -32011])
def test_a_number_of_an_unknown_error_does_not_ask_for_a_retry(code: int) -> None:
    error = A2AError(Reason.INTERNAL_ERROR, "of the peer", code=code, name=f"A2A_{-code}")
    assert encode_jsonrpc(error).body["code"] == -32603


@each("code", MEANINGS)
def test_every_number_of_0_1_comes_back_through_later_versions(code: int) -> None:
    body = {"code": code, "message": "said so"}
    error = decode_jsonrpc(ErrorReply(200, body))
    assert encode_jsonrpc(error).body == body
    for form in (v0_3, v1_0):
        passed = form.decode_jsonrpc(form.encode_jsonrpc(error))
        assert passed.reason is error.reason
        assert encode_jsonrpc(passed).body["code"] == code


@each("reason", Reason)
def test_every_reason_comes_back_through_0_1(reason: Reason) -> None:
    error = A2AError(reason, "said so", metadata={"a": "b"}, violations=[Violation("f", "is wrong")])
    passed = decode_jsonrpc(encode_jsonrpc(error))
    assert (passed.reason, passed.message, passed.metadata, passed.violations) == (
        error.reason,
        error.message,
        error.metadata,
        error.violations,
    )


def test_a_legacy_code_that_does_not_mean_the_error_is_not_believed() -> None:
    error = A2AError(Reason.TASK_NOT_FOUND, metadata={LEGACY_CODE: "-32011"})
    assert encode_jsonrpc(error).body["code"] == -32001
    assert encode_jsonrpc(A2AError(Reason.TASK_NOT_FOUND, metadata={LEGACY_CODE: "x"})).body["code"] == -32001


def test_an_unknown_error_number_is_kept() -> None:
    error = error_of(-32055)
    assert (error.code, encode_jsonrpc(error).body["code"]) == (-32055, -32055)


def test_data_of_any_kind_is_kept() -> None:
    error = error_of(-32009, data={"state": "completed"})
    assert error.reason is Reason.UNSUPPORTED_OPERATION
    assert any(one.get("value") == {"state": "completed"} for one in error.details)


@pytest.mark.parametrize("body", [None, {}, {"code": "x"}, {"code": True, "message": 5}, "text"])
def test_anything_is_an_error(body: Any) -> None:
    assert isinstance(decode_jsonrpc(ErrorReply(500, body)), A2AError)


def test_an_error_without_words_gets_those_of_0_1() -> None:
    assert "treaming" in decode_jsonrpc(ErrorReply(200, {"code": -32006})).message
