"""0.1 → hub → bytes and ProtoJSON → hub → 0.1 is identity: the means of 0.3 carry 0.1, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads, loads_exact
from a2a_bridge.dialects.v0_1 import card
from a2a_bridge.dialects.v0_1.requests import ROWS
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.dialects.v0_1 import payloads
from tests.identity import says

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
