"""A caller that joins a stream of a gateway was accepted by the agent, and recently."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import SUBSCRIBE_TO_TASK
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.sharing_scene import QUICK, Shaky, numbered, read, sending, sharing, subscribing
from tests.gateway.test_sharing import Asking
from tests.patience import PATIENCE
from tests.resume.scripted import Log, became, begun, whole


@pytest.mark.parametrize("after", ["", "1"])
async def test_who_joins_later_is_accepted_by_the_agent_first(after: str) -> None:
    events = whole(4)
    log = Log(*events[:2])
    agent = Shaky(log)
    rejected: A2AError | None = None

    async def unary(call: Call[Any, Any]) -> Any:
        agent.gets += 1
        if rejected is not None:
            raise rejected
        return hub.Task(id=call.request.id)

    agent.unary = unary  # type: ignore[method-assign]
    async with sharing(agent, replace(QUICK, revalidate=0.0), resumes=False) as service:
        first = numbered(service, subscribing())
        id_, _ = await anext(first)
        log.add(events[2])
        await anext(first)
        assert agent.gets == 0, "the agent has accepted the subscription"
        asked = id_ if after else ""
        second = numbered(service, subscribing(asked))
        await anext(second)
        assert (agent.gets, len(agent.streams)) == (1, 1)
        for reason in (
            Reason.UNAUTHENTICATED,
            Reason.PERMISSION_DENIED,
            Reason.TASK_NOT_FOUND,
            Reason.UNAVAILABLE,
        ):
            rejected = A2AError(reason)
            with pytest.raises(A2AError) as caught:
                await anext(numbered(service, subscribing(asked)))
            assert caught.value is rejected
        await first.aclose()
        await second.aclose()


async def test_who_was_accepted_lately_joins_at_once() -> None:
    agent = Shaky(Log(*whole(2)[:2]))
    async with sharing(agent, replace(QUICK, revalidate=3600.0)) as service:
        streams = [numbered(service, subscribing()) for _ in range(2)]
        for stream in streams:
            await anext(stream)
        assert (agent.gets, len(agent.streams)) == (0, 1)
        for stream in streams:
            await stream.aclose()


class Slow(Asking):
    """Answers a subscription when the test says so."""

    def __init__(self, *events: hub.StreamResponse) -> None:
        super().__init__(*events, numbered=False)
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def stream(self, call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        if call.operation is SUBSCRIBE_TO_TASK:
            self.asked.set()
            await self.answers.wait()
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                yield event


async def test_callers_that_are_accepted_at_once_each_get_the_task() -> None:
    """The stream that they were accepted for has ended, so that a new one is needed."""
    log = Slow(begun(), became(hub.TASK_STATE_INPUT_REQUIRED))
    agent, all_asked = Shaky(log), asyncio.Event()

    async def unary(call: Call[Any, Any]) -> Any:
        agent.gets += 1
        if agent.gets == 3:
            all_asked.set()
        await all_asked.wait()
        return await log.unary(call)

    agent.unary = unary  # type: ignore[method-assign]
    async with sharing(agent, replace(QUICK, revalidate=0.0)) as service:
        await read(service, sending())
        streams = [numbered(service, subscribing()) for _ in range(3)]
        reads = [asyncio.create_task(anext(stream)) for stream in streams]
        async with asyncio.timeout(PATIENCE):
            await log.asked.wait()
        log.answers.set()
        snapshots = await asyncio.gather(*reads)
        (_, first), *others = snapshots
        assert all(snapshot == first for _, snapshot in others)
        assert len(agent.streams) == 4
        reading = numbered(service, subscribing())
        assert (await anext(reading))[1] == first
        assert len(agent.streams) == 4, "a later caller joins"
        await reading.aclose()
        for stream in streams:
            await stream.aclose()
