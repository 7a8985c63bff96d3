"""deadline(): a caller gets an error at its deadline, and its work stops."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import deadline
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.middleware.scene import PATIENCE, TASK, ask, get, subscribe
from tests.rejections import rejected


@pytest.fixture
def probe() -> Probe:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK, TASK)
    return probe


def within(seconds: float) -> CallContext:
    return CallContext(deadline=time.monotonic() + seconds)


@pytest.mark.parametrize("call", [get, subscribe])
async def test_without_a_deadline_or_before_it_nothing_changes(call: Any, probe: Probe) -> None:
    service = deadline()(probe)
    expected = TASK if call is get else [TASK, TASK]
    assert await ask(service, call()) == expected
    assert await ask(service, call(within(PATIENCE))) == expected


@pytest.mark.parametrize("call", [get, subscribe])
async def test_a_call_beyond_its_deadline_is_stopped(call: Any, probe: Probe) -> None:
    probe.on_unary = waiting
    probe.on_stream = holding(TASK)
    with rejected(Reason.DEADLINE_EXCEEDED):
        await ask(deadline()(probe), call(within(0.02)))
    await probe.wait_running(0)
    assert probe.cancelled == 1


@pytest.mark.parametrize("call", [get, subscribe])
@pytest.mark.parametrize("seconds", [0.0, -100.0])
async def test_a_call_after_its_deadline_is_not_begun(call: Any, seconds: float, probe: Probe) -> None:
    with rejected(Reason.DEADLINE_EXCEEDED):
        await ask(deadline()(probe), call(within(seconds)))
    assert probe.calls == []


async def test_events_before_the_deadline_arrive(probe: Probe) -> None:
    probe.on_stream = holding(TASK, TASK)
    async with aclosing(deadline()(probe).stream(subscribe(within(0.05)))) as events:
        assert [(await anext(events)).message for _ in range(2)] == [TASK, TASK]
        with pytest.raises(A2AError):
            await anext(events)


async def test_the_deadline_does_not_strike_the_consumer(probe: Probe) -> None:
    async with aclosing(deadline()(probe).stream(subscribe(within(0.01)))) as events:
        await anext(events)
        finished = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, finished.set)
        await finished.wait()  # busy beyond the deadline, and not cancelled
        with pytest.raises(A2AError):
            await anext(events)


@pytest.mark.parametrize("call", [get, subscribe])
async def test_a_timeout_of_the_services_own_is_not_the_deadline(call: Any, probe: Probe) -> None:
    probe.on_unary = answering(TimeoutError("inside"))
    probe.on_stream = yielding(TimeoutError("inside"))
    with pytest.raises(TimeoutError, match="inside"):
        await ask(deadline()(probe), call(within(PATIENCE)))


async def test_closing_early_reaches_the_service(probe: Probe) -> None:
    closed = asyncio.Event()

    async def stream(_: Any) -> AsyncGenerator[Any, None]:
        try:
            yield TASK
            await asyncio.Event().wait()
        finally:
            closed.set()

    probe.on_stream = stream
    events = deadline()(probe).stream(subscribe(within(PATIENCE)))
    await anext(events)
    await events.aclose()
    assert closed.is_set()
