"""Content in the `kind` shape comes back unchanged, as far as the hub can hold it; and the other way round."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.dialects.v0_3.forms import LOSSES
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from tests import strategies, strategies_v0
from tests.dialects.v0_3.kind_hops import HOPS, ROW, check, reading
from tests.dialects.v0_3.test_proto_files import below, without_default
from tests.identity import says

#: documents are large and slow to make: fewer than usual, and more with a profile that asks for more
some = settings(max_examples=max(settings().max_examples * 3 // 10, 10))

UNITS_ONLY = ("message/send", "message/stream", "tasks/cancel")
"""Methods whose params have metadata in the hub."""


@pytest.mark.parametrize("method", UNITS_ONLY)
@some
@given(data=st.data())
def test_params_come_back(method: str, data: Any) -> None:
    row = ROW[method]
    check(row.decode_request, row.encode_request, data.draw(strategies_v0.PARAMS[method]()))


@pytest.mark.parametrize("method", [name for name in strategies_v0.PARAMS if name not in UNITS_ONLY])
@some
@given(data=st.data())
def test_params_come_back_with_their_side_content(method: str, data: Any) -> None:
    row = ROW[method]
    tree = data.draw(strategies_v0.PARAMS[method]().filter(strategies_v0.is_small))
    text = codec.dumps(tree)

    def told(wire: Any) -> Any:
        return row.decode_request(wire), row.extras.request.extract(wire)

    if method == "tasks/get" and not tree.get("historyLength", 1):
        # No configuration at all, which an agent of 0.3 does not get.
        del tree["historyLength"]
        text = codec.dumps(tree)
    message, told = reading(told, text)
    assert all(value.isascii() for value in told.values())
    for hop in HOPS.values():
        wire = row.extras.request.restore(row.encode_request(hop(message)), told)
        assert says(codec.loads_exact(codec.dumps(wire)), codec.loads_exact(text))


@pytest.mark.parametrize("method", [name for name in strategies_v0.RESULTS if "push" not in name])
@some
@given(data=st.data())
def test_results_come_back(method: str, data: Any) -> None:
    row = ROW[method]
    check(row.decode_response, row.encode_response, data.draw(strategies_v0.RESULTS[method]()))


@pytest.mark.parametrize("method", [name for name in strategies_v0.RESULTS if "push" in name])
@some
@given(data=st.data())
def test_push_configs_in_results_come_back_with_their_side_content(method: str, data: Any) -> None:
    row = ROW[method]
    tree = data.draw(strategies_v0.RESULTS[method]().filter(strategies_v0.is_small))
    text = codec.dumps(tree)

    def told(wire: Any) -> Any:
        return row.decode_response(wire), row.extras.response.extract(wire)

    message, told = reading(told, text)
    wire = row.extras.response.restore(row.encode_response(message), told)
    assert says(codec.loads_exact(codec.dumps(wire)), codec.loads_exact(text))


def without_lost(message: Any) -> Any:
    """A copy without the losses in LOSSES for its type, and without content that JSON-RPC rows never carry."""
    name = message.DESCRIPTOR.name
    for loss in LOSSES:
        owner, _, member = loss.path.partition(".")
        if owner == name and member and loss.concerns("JSONRPC"):
            field = next(field for field in message.DESCRIPTOR.fields if field.json_name == member)
            message.ClearField(field.name)
    for one in below(without_default(message)):
        if "status" in one.DESCRIPTOR.fields_by_name:
            one.status.SetInParent()  # members that 0.x requires are written with their defaults
        if "artifact" in one.DESCRIPTOR.fields_by_name:
            one.artifact.SetInParent()
        if "metadata" in one.DESCRIPTOR.fields_by_name and not one.metadata.fields:
            one.ClearField("metadata")
    return message


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("method", [method for method in ROW if "Card" not in method])
@some
@given(data=st.data())
def test_hub_messages_come_back(method: str, side: str, data: Any) -> None:
    row = ROW[method]
    cls: Any = getattr(row.operation, side)
    if cls is Empty:
        assert row.decode_response(row.encode_response(Empty())) == Empty()
        return
    message = without_lost(data.draw(strategies.messages(cls)))
    if cls in (hub.SendMessageResponse, hub.StreamResponse) and message.WhichOneof("payload") is None:
        return
    if cls is hub.GetTaskRequest and not message.history_length:
        message.ClearField("history_length")  # 0 has the same meaning in 0.x
    text = codec.dumps(getattr(row, f"encode_{side}")(message))
    assert reading(getattr(row, f"decode_{side}"), text) == message, text


@some
@given(task=strategies.messages(hub.Task))
def test_hub_messages_come_back_from_a_second_bridge_too(task: hub.Task) -> None:
    row = ROW["tasks/get"]
    once = codec.dumps(row.encode_response(task))
    message = reading(row.decode_response, once)
    assert codec.loads_exact(codec.dumps(row.encode_response(message))) == codec.loads_exact(once)
