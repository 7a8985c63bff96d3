"""The methods of 0.1, their errors, and push notifications."""

from typing import Any

import pytest

from a2a_bridge.codec import DecodeError
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V0_1, by_version
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v0_1.errors import LEGACY_CODE, MEANINGS, decode_jsonrpc, encode_jsonrpc
from a2a_bridge.dialects.v0_1.requests import PUSH_FORM, ROWS
from a2a_bridge.dialects.v0_3 import errors as v0_3
from a2a_bridge.dialects.v1_0 import errors as v1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.rejections import rejected

BY_METHOD = {row.address: row for row in ROWS}
MESSAGE = {"role": "user", "parts": [{"type": "text", "text": "a"}]}


def test_the_seven_methods() -> None:
    assert {row.address: row.operation for row in ROWS} == {
        "tasks/send": ops.SEND_MESSAGE,
        "tasks/sendSubscribe": ops.SEND_STREAMING_MESSAGE,
        "tasks/get": ops.GET_TASK,
        "tasks/cancel": ops.CANCEL_TASK,
        "tasks/pushNotification/set": ops.CREATE_PUSH_CONFIG,
        "tasks/pushNotification/get": ops.GET_PUSH_CONFIG,
        "tasks/resubscribe": ops.SUBSCRIBE_TO_TASK,
    }


def test_0_1_is_the_oldest_and_speaks_json_rpc_only() -> None:
    assert KNOWN[-1] is V0_1 is by_version("0.1.0")
    assert V0_1.form(JSONRPC) is not None
    assert V0_1.form(HTTP_JSON) is V0_1.form(GRPC) is None
    assert (V0_1.declares, V0_1.final_events) == (False, True)


@each(
    ("method", "params", "path"),
    [
        ("tasks/send", {"message": MESSAGE}, "id"),
        ("tasks/send", {"id": None, "message": MESSAGE}, "id"),
        ("tasks/send", {"id": 5, "message": MESSAGE}, "id"),
        ("tasks/send", {"id": "t"}, "message"),
        ("tasks/send", {"id": "t", "message": 5}, "message"),
        ("tasks/send", {"id": "t", "sessionId": 5, "message": MESSAGE}, "sessionId"),
        ("tasks/send", {"id": "t", "historyLength": "x", "message": MESSAGE}, "historyLength"),
        (
            "tasks/send",
            {"id": "t", "pushNotification": {"url": 5}, "message": MESSAGE},
            "pushNotification.url",
        ),
        ("tasks/send", {"id": "t", "message": {"role": "user", "parts": [5]}}, "message.parts[0]"),
        (
            "tasks/send",
            {"id": "t", "message": {"role": "user", "parts": [{"type": 5, "text": ""}]}},
            "message.parts[0].type",
        ),
        ("tasks/get", {}, "id"),
        ("tasks/get", {"id": "t", "historyLength": "x"}, "historyLength"),
        ("tasks/cancel", {"id": []}, "id"),
        ("tasks/resubscribe", {}, "id"),
        ("tasks/pushNotification/set", {"pushNotificationConfig": {"url": "u"}}, "id"),
        ("tasks/pushNotification/set", {"id": "t"}, "pushNotificationConfig"),
        ("tasks/pushNotification/get", {}, "id"),
    ],
)
def test_bad_params_name_the_member_as_0_1_does(method: str, params: Any, path: str) -> None:
    with rejected(Reason.INVALID_PARAMS) as raised:
        BY_METHOD[method].decode_request(params)
    assert path in [one.field for one in raised.value.violations]
    assert str(raised.value) == raised.value.message


@each("params", [None, [], "text", 5, True])
@each("method", BY_METHOD)
def test_params_of_another_type_are_rejected(method: str, params: Any) -> None:
    with rejected(Reason.INVALID_PARAMS):
        BY_METHOD[method].decode_request(params)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tasks/send", 5),
        (
            "tasks/get",
            {"id": "t", "status": {"state": "working"}, "artifacts": [{"index": "x", "parts": []}]},
        ),
        ("tasks/sendSubscribe", {"id": "t", "artifact": {"index": [], "parts": []}}),
        ("tasks/sendSubscribe", {"id": "t", "artifact": 5}),
        ("tasks/resubscribe", None),
        ("tasks/cancel", []),
    ],
)
def test_answers_that_are_none_blame_the_agent(method: str, result: Any) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE) as raised:
        BY_METHOD[method].decode_response(result)
    assert raised.value.blame is Blame.PEER


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tasks/get", None),
        ("tasks/pushNotification/get", None),
        ("tasks/pushNotification/get", {"id": "t", "pushNotificationConfig": None}),
        ("tasks/pushNotification/get", {"id": "t", "pushNotificationConfig": {}}),
    ],
)
def test_a_null_where_something_was_asked_for_is_not_found(method: str, result: Any) -> None:
    with rejected(Reason.TASK_NOT_FOUND):
        BY_METHOD[method].decode_response(result)


def task_event() -> hub.StreamResponse:
    task = hub.Task(id="t", context_id="s")
    task.status.state = hub.TASK_STATE_COMPLETED
    task.artifacts.add(artifact_id="index-0", parts=[hub.Part(text="a")])
    return hub.StreamResponse(task=task)


def test_a_notification_is_the_task_as_0_1_shows_it_and_is_read_again() -> None:
    body = PUSH_FORM.encode(task_event())
    assert body == {
        "id": "t",
        "sessionId": "s",
        "status": {"state": "completed"},
        "artifacts": [{"index": 0, "parts": [{"type": "text", "text": "a"}]}],
    }
    assert PUSH_FORM.decode(body) == task_event()
    assert PUSH_FORM.whole_tasks


def test_a_notification_of_a_task_with_nothing_but_a_status_is_read_as_a_task() -> None:
    event = hub.StreamResponse(task=hub.Task(id="t"))
    event.task.status.state = hub.TASK_STATE_WORKING
    body = PUSH_FORM.encode(event)
    assert body == {"id": "t", "status": {"state": "working"}}
    assert PUSH_FORM.decode(body) == event
    assert PUSH_FORM.decode({**body, "final": False}).HasField("status_update")


def test_a_notification_in_the_words_of_the_text_of_0_1_is_read() -> None:
    body = {
        "eventType": "task_completed",
        "taskId": "t",
        "status": {"state": "completed"},
        "summary": "it is done",
    }
    update = PUSH_FORM.decode(body).status_update
    assert (update.task_id, update.status.state) == ("t", hub.TASK_STATE_COMPLETED)


@pytest.mark.parametrize("body", [5, [], {}, {"id": "t", "artifact": {"index": "x"}}])
def test_a_notification_that_is_none_is_rejected(body: Any) -> None:
    with rejected(Reason.INVALID_PARAMS):
        PUSH_FORM.decode(body)


def test_all_invalid_members_of_a_notification_are_named() -> None:
    with pytest.raises(A2AError) as raised:
        PUSH_FORM.decode({"id": "t", "status": {"state": 5, "timestamp": 5}})
    assert {one.field for one in raised.value.violations} == {"status.state", "status.timestamp"}


def test_a_notification_that_json_cannot_express_blames_the_agent() -> None:
    event = task_event()
    event.task.metadata["x"] = float("nan")
    for broken in (event, hub.StreamResponse()):
        with pytest.raises(A2AError) as raised:
            PUSH_FORM.encode(broken)
        assert (raised.value.reason, raised.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


def test_no_error_of_the_codec_gets_out() -> None:
    for method, row in BY_METHOD.items():
        for wire in ({"id": "t", "artifact": {"index": "x"}}, {"artifacts": [{"index": {}}], "status": 5}):
            try:
                row.decode_response(wire)
            except DecodeError:
                pytest.fail(method)
            except A2AError:
                continue


@pytest.mark.parametrize("method", ["tasks/send", "tasks/sendSubscribe"])
def test_too_deep_nesting_is_rejected(method: str) -> None:
    deep: Any = "x"
    for _ in range(950):
        deep = [deep]
    message = {"role": "user", "parts": [{"type": "text", "text": deep}]}
    with rejected(Reason.INVALID_PARAMS):
        BY_METHOD[method].decode_request({"id": "t", "message": message})
    status = {"state": "working", "message": {"role": "agent", "parts": [{"type": "text", "text": deep}]}}
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        BY_METHOD[method].decode_response({"id": "t", "status": status})
    with rejected(Reason.INVALID_PARAMS):
        PUSH_FORM.decode({"id": "t", "status": status})


# --- Errors go by name: the numbers of 0.1 mean other things in later versions ---
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
