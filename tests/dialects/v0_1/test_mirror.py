"""Hub → 0.1 → hub: content that 0.1 lacks is preserved. The exceptions are in `settled`, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.v0_1.requests import EVERYTHING, ROWS
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.strategies import messages

BY_METHOD = {row.address: row for row in ROWS}
DOWNGRADED = (hub.TASK_STATE_REJECTED, hub.TASK_STATE_AUTH_REQUIRED)


def settled(message: Any) -> Any:
    """The message without content that does not come back."""
    if not isinstance(message, (hub.SendMessageResponse, hub.StreamResponse, hub.Task)):
        message.tenant = ""  # a tenant is part of the address, and no member of 0.1
    if isinstance(message, hub.TaskPushNotificationConfig):
        message.id = message.id or "a config of 0.1 has an id for the hub at least"
        message.task_id = message.task_id or "required"
    if isinstance(message, hub.SendMessageRequest):
        if message.configuration.HasField("task_push_notification_config"):
            settled(message.configuration.task_push_notification_config)
        counted(message.configuration)
    if isinstance(message, hub.GetTaskRequest):
        counted(message)
    for one in (message, getattr(message, "task", None), getattr(message, "status_update", None)):
        # Such metadata contains only the mark of the true state, and then nothing.
        if isinstance(one, (hub.Task, hub.TaskStatusUpdateEvent)):
            bare = one.HasField("metadata") and not one.metadata.fields
            if bare and one.status.state in DOWNGRADED:
                one.ClearField("metadata")
    return message


def counted(message: Any) -> None:
    if message.HasField("history_length") and not 0 <= message.history_length < EVERYTHING:
        message.ClearField("history_length")  # invalid, or the number that stands for all of these


def again(decode: Any, tree: Any) -> Any:
    return decode(loads(dumps(tree)))


@settings(max_examples=20)
@given(data=st.data())
@pytest.mark.parametrize(
    ("method", "cls"),
    [
        ("tasks/send", hub.SendMessageRequest),
        ("tasks/get", hub.GetTaskRequest),
        ("tasks/cancel", hub.CancelTaskRequest),
        ("tasks/resubscribe", hub.SubscribeToTaskRequest),
        ("tasks/pushNotification/set", hub.TaskPushNotificationConfig),
    ],
)
def test_any_request_comes_back(method: str, cls: Any, data: st.DataObject) -> None:
    request = settled(data.draw(messages(cls, complete=True)))
    if isinstance(request, hub.SendMessageRequest):
        request.message.task_id = request.message.task_id or "made by the client side"
    row = BY_METHOD[method]
    decoded = again(row.decode_request, row.encode_request(request))
    unmapped.strip(request)
    unmapped.strip(decoded)
    assert decoded == request


@settings(max_examples=20)
@given(data=st.data())
@pytest.mark.parametrize(
    ("method", "cls"),
    [
        ("tasks/send", hub.SendMessageResponse),
        ("tasks/get", hub.Task),
        ("tasks/sendSubscribe", hub.StreamResponse),
        ("tasks/pushNotification/set", hub.TaskPushNotificationConfig),
    ],
)
def test_any_response_comes_back(method: str, cls: Any, data: st.DataObject) -> None:
    response = data.draw(messages(cls, complete=True).filter(said))
    response = settled(response)
    row = BY_METHOD[method]
    decoded = again(row.decode_response, row.encode_response(response))
    unmapped.strip(response)
    unmapped.strip(decoded)
    assert decoded == response


def said(response: Any) -> bool:
    """Whether it has content that 0.1 can express: a stream has no whole tasks, see `gateway.identity_names`."""
    if isinstance(response, hub.StreamResponse):
        return response.WhichOneof("payload") not in (None, "task")
    return not isinstance(response, hub.SendMessageResponse) or response.WhichOneof("payload") is not None
