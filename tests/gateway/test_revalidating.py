"""A caller that joins a stream of a gateway was accepted by the agent, and recently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.sharing_scene import QUICK, Shaky, numbered, sharing, subscribing
from tests.resume.scripted import Log, whole


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
