"""An agent that stops answering while its connection lives: calls end with a clear error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.upstream import SilenceLimit
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, waiting
from tests.gateway.sharing_scene import Seen, contents, into, numbered, read, sending, sharing
from tests.gateway.test_gateway import bridged
from tests.patience import PATIENCE
from tests.resume.scripted import whole

LIMIT = 0.05


def asking() -> Call[Any, Any]:
    return Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())


def falls_silent(*events: hub.StreamResponse) -> Probe:
    probe = Probe()

    async def stream(call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        for event in events:
            yield event
        await asyncio.Event().wait()

    probe.on_stream, probe.on_unary = stream, waiting
    return probe


async def test_a_silent_agent_blocks_no_caller() -> None:
    probe = falls_silent(*whole(3)[:3])
    service = SilenceLimit(probe, LIMIT)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError, match=r"nothing for 0\.05 seconds") as caught:
            await service.unary(asking())
        assert caught.value.reason is Reason.DEADLINE_EXCEEDED
        seen: list[Seen] = []
        with pytest.raises(A2AError, match=r"nothing for 0\.05 seconds"):
            await into(seen, numbered(service, sending()))
    assert contents(seen) == whole(3)[:3]
    await probe.wait_running(0)


async def test_a_shared_stream_is_not_resumed_twice() -> None:
    probe = falls_silent(*whole(3)[:3])
    async with sharing(SilenceLimit(probe, LIMIT)) as service:
        stream = numbered(
            service, sending(CallContext(deadline=asyncio.get_running_loop().time() + PATIENCE))
        )
        with pytest.raises(A2AError, match="said nothing"):
            await into([], stream)
    assert [call.operation for call in probe.calls] == [ops.SEND_STREAMING_MESSAGE]


async def test_a_slow_reader_is_no_silence_and_the_services_own_timeouts_are_its_own() -> None:
    service = SilenceLimit(falls_silent(*whole(3)), LIMIT)
    stream = numbered(service, sending())
    seen: list[Seen] = [await anext(stream)]
    asleep = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(4 * LIMIT, asleep.set_result, None)
    await asleep
    with pytest.raises(A2AError, match="said nothing"):
        await into(seen, stream)
    assert contents(seen) == whole(3)

    async def timing_out(call: Call[Any, Any], /) -> Any:
        raise TimeoutError

    probe = Probe()
    probe.on_unary = timing_out
    with pytest.raises(TimeoutError):
        await SilenceLimit(probe, LIMIT).unary(asking())


async def test_only_the_call_itself_suspends_its_limit() -> None:
    started: list[asyncio.Task[None]] = []

    async def connect() -> None:
        with unsent():
            await asyncio.Event().wait()

    async def send(call: Call[Any, Any], /) -> Any:
        with unsent():
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=4 * LIMIT)
        seen.append("sent")
        started.append(asyncio.create_task(connect()))
        await asyncio.Event().wait()

    seen: list[str] = []
    probe = Probe()
    probe.on_unary = send
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError, match="said nothing"):
            await SilenceLimit(probe, LIMIT).unary(asking())
    assert seen == ["sent"]
    started[0].cancel()  # its wait is over only now
    await asyncio.wait(started)


async def test_an_agent_that_answers_is_not_touched() -> None:
    probe = Probe()

    async def stream(call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        for event in whole(3):
            yield event

    probe.on_stream = stream
    async with sharing(SilenceLimit(probe, PATIENCE)) as service:
        assert contents(await read(service, sending())) == whole(3)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_through_a_gateway(binding: str) -> None:
    async with bridged(falls_silent(), binding, binding, silence_timeout=LIMIT) as client:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(A2AError, match="said nothing") as caught:
                await client.get_task(hub.GetTaskRequest(id="t"))
    assert caught.value.reason is Reason.DEADLINE_EXCEEDED
