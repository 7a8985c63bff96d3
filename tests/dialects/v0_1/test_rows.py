"""The methods of 0.1, invalid params and results, and push notifications."""

from typing import Any

import pytest

from a2a_bridge.codec import DecodeError
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V0_1, by_version
from a2a_bridge.dialects.v0_1.requests import PUSH_FORM, ROWS
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
