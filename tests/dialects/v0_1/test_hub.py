"""0.1 → hub → bytes and ProtoJSON → hub → 0.1 is identity: the means of 0.3 carry 0.1, too."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads, loads_exact
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.v0_1 import card
from a2a_bridge.dialects.v0_1.requests import EVERYTHING, ROWS
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.dialects.v0_1 import payloads
from tests.identity import says
from tests.strategies import messages

BY_METHOD = {row.address: row for row in ROWS}
RESULTS = {
    "tasks/send": payloads.tasks,
    "tasks/sendSubscribe": payloads.status_events | payloads.artifact_events,
    "tasks/get": payloads.tasks,
    "tasks/cancel": payloads.tasks,
    "tasks/pushNotification/set": payloads.task_configs,
    "tasks/pushNotification/get": payloads.task_configs,
    "tasks/resubscribe": payloads.status_events | payloads.artifact_events,
}
PARAMS = {
    "tasks/send": payloads.sends,
    "tasks/sendSubscribe": payloads.sends,
    "tasks/get": payloads.queries,
    "tasks/cancel": payloads.queries,
    "tasks/pushNotification/set": payloads.task_configs,
    "tasks/pushNotification/get": payloads.queries,
    "tasks/resubscribe": payloads.queries,
}


def decoded(decode: Callable[[Any], Any], wire: Any, beside: Any = None) -> tuple[Any, Any, Any]:
    """The message, the content beside it, and their tree."""
    tree = loads(dumps(wire))
    return decode(tree), {} if beside is None else beside.extract(tree), tree


def hops(message: Message) -> list[Any]:
    """The message itself, after a binary hop, and after one as ProtoJSON."""
    cls = type(message)
    text = dumps(encoder(cls)(message))
    return [message, cls.FromString(message.SerializeToString()), decoder(cls)(loads_exact(text))]


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("method", RESULTS)
def test_any_result_comes_back(method: str, data: st.DataObject) -> None:
    row = BY_METHOD[method]
    wire = data.draw(RESULTS[method])
    message, extract, tree = decoded(row.decode_response, wire, row.extras.response)
    for one in hops(message):
        made = row.encode_response(one)
        if row.extras.response is not None:
            made = row.extras.response.restore(made, extract)
        assert says(loads(dumps(made)), loads(dumps(tree)))


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("method", PARAMS)
def test_any_parameters_come_back(method: str, data: st.DataObject) -> None:
    row = BY_METHOD[method]
    wire = data.draw(PARAMS[method])
    message, extract, tree = decoded(row.decode_request, wire, row.extras.request)
    for one in hops(message):
        made = row.encode_request(one)
        if row.extras.request is not None:
            made = row.extras.request.restore(made, extract)
        assert says(loads(dumps(made)), loads(dumps(tree)))


@settings(max_examples=60)
@given(payloads.cards)
def test_any_card_comes_back(wire: Any) -> None:
    message, _, tree = decoded(card.decode, wire)
    assert message.supported_interfaces[0] == hub.AgentInterface(
        url="http://h/a", protocol_binding="JSONRPC", protocol_version="0.1.0"
    )
    for one in hops(message):
        assert says(loads(dumps(card.encode(one))), loads(dumps(tree)))


# Hub → 0.1 → hub: content that 0.1 lacks is preserved. The exceptions are in `settled`, with the reason.

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
