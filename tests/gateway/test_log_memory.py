"""The replay logs of a gateway count in its memory account."""

from typing import Any

import pytest

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.gateway.sharing_scene import QUICK, context, read, sending
from tests.resume.scripted import Log, became, begun, chunk


async def answered(call: Call[Any, Any]) -> hub.SendMessageResponse:
    return hub.SendMessageResponse()


async def test_streams_count_and_are_evicted_before_messages_are_rejected() -> None:
    memory = MemoryAccount(200_000)
    events = [begun(), *(chunk("x" * 10_000) for _ in range(8)), became(hub.TASK_STATE_COMPLETED)]
    probe = Probe()
    probe.on_stream = lambda call: Log(*events, numbered=False).stream(call)
    probe.on_unary = answered
    sharing = StreamSharing(probe, QUICK, memory=memory)
    for owner in "abc":
        assert len(await read(sharing, sending(context(owner=owner)))) == len(events)
        assert 0 < memory.used == sharing.streams.held <= memory.limit
    assert len(sharing.streams) == 2  # the first one was evicted
    memory.add(190_000)
    assert sharing.streams.held == 0
    for rejected in (
        sharing.unary(Call(ops.SEND_MESSAGE, sending().request, context())),
        read(sharing, sending()),
    ):
        with pytest.raises(A2AError) as caught:
            await rejected
        assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
    memory.add(-190_000)
    await sharing.unary(Call(ops.SEND_MESSAGE, sending().request, context()))
    await sharing.streams.aclose()
    assert memory.used == 0
