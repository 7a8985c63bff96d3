"""Runs that take too long, or send no event for too long."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.agents import ScriptedAgent, SlowAgent
from tests.hosting.hand_clock import HandClock
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    WORKING,
    Gate,
    Talk,
    agent_of,
    shape,
)
from tests.rejections import rejected

RUN = 60.0
SILENCE = 7.0


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


class Held:
    """Sends so many events, and then none until its gate opens."""

    def __init__(self, *states: str) -> None:
        self.gate = Gate()
        self.cancelled = False
        self._states = states or ("working",)

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        for state in self._states:
            yield run.status(state)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = run.cancelled
            raise
        yield run.status("completed")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(RUN, "the agent did not finish within 60 seconds"), (SILENCE, "the agent said nothing for 7 seconds")],
)
async def test_a_run_that_takes_too_long_fails(clock: HandClock, seconds: float, text: str) -> None:
    held = Held()
    talk = Talk(agent_of(held.execute), clock=clock, run_timeout=RUN, silence_timeout=SILENCE)
    sending = asyncio.create_task(talk.send("x"))
    await held.gate.reached()
    (task,) = (await talk.list()).tasks
    queued = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    clock.strike(seconds)
    failed = await sending
    assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, text)
    assert held.cancelled
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await queued
    await talk.rest()
    assert clock.timers == []


async def test_nothing_is_timed_unless_asked_for(clock: HandClock) -> None:
    held = Held()
    talk = Talk(agent_of(held.execute), clock=clock)
    sending = asyncio.create_task(talk.send("x"))
    await held.gate.reached()
    assert clock.timers == []
    held.gate.open()
    assert (await sending).status.state == COMPLETED


async def test_each_event_breaks_the_silence(clock: HandClock) -> None:
    gates = [Gate() for _ in range(3)]

    async def execute(run: Run) -> AsyncIterator[Event]:
        for gate in gates:
            await gate.wait()
            yield run.status("working")
        yield run.status("completed")

    talk = Talk(agent_of(execute), clock=clock, silence_timeout=SILENCE)
    sending = asyncio.create_task(talk.send("x"))
    seen = []
    for gate in gates:
        await gate.reached()
        seen += clock.timers
        assert len(clock.timers) == 1
        gate.open()
    assert (await sending).status.state == COMPLETED
    assert len({id(callback) for _, callback in seen}) == 3
    assert clock.timers == []


@pytest.mark.parametrize("state", ["input-required", "auth-required"])
async def test_waiting_for_input_is_no_silence(clock: HandClock, state: str) -> None:
    held = Held(state)
    talk = Talk(agent_of(held.execute), clock=clock, silence_timeout=SILENCE)
    await talk.send("x")
    await held.gate.reached()
    assert clock.timers == []
    held.gate.open()
    await talk.rest()


async def test_a_silent_run_is_stopped(clock: HandClock) -> None:
    slow = SlowAgent()
    for agent in (agent_of(slow.executor.execute), slow):
        talk = Talk(agent, clock=clock, run_timeout=0.05 if agent is slow else RUN)
        sending = asyncio.create_task(talk.send("x"))
        await slow.wait_running(1)
        clock.strike()
        with rejected(Reason.DEADLINE_EXCEEDED):
            await sending
        await slow.wait_running(0)
        await talk.rest()
        assert (await talk.list()).total_size == 0


async def test_the_next_message_has_its_own_time(clock: HandClock) -> None:
    talk = Talk(ScriptedAgent(), clock=clock, run_timeout=RUN)
    task = await talk.send("input")
    assert (task.status.state, clock.timers) == (INPUT, [])
    assert (await talk.send("x", task_id=task.id, message_id="m-2")).status.state == COMPLETED
    assert clock.timers == []


@pytest.mark.parametrize("began", [True, False])
async def test_a_deaf_run_is_left_behind(
    clock: HandClock, began: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stop, started = asyncio.Event(), asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        if began:
            yield run.status("working")
        started.set()
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        yield run.status("completed")

    talk = Talk(agent_of(execute), clock=clock, run_timeout=RUN, patience=0.01)
    sending = asyncio.create_task(talk.send("x"))
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    clock.strike(RUN)
    if began:
        assert (await sending).status.state == FAILED
    else:
        with rejected(Reason.DEADLINE_EXCEEDED):
            await sending
    stop.set()
    await talk.rest()
    assert [task.status.state for task in (await talk.list()).tasks] == [FAILED] * began
    assert "ignores its cancellation" in caplog.text


async def test_a_cancellation_and_a_timeout_at_once(clock: HandClock) -> None:
    held, gate = Held(), Gate()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await gate.wait()
        for event in ():
            yield event

    talk = Talk(agent_of(held.execute, cancel), clock=clock, run_timeout=RUN)
    events = talk.events("x")
    task = await anext(events)
    await held.gate.reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await gate.reached()
    clock.strike(RUN)
    gate.open()
    assert (await cancelling).status.state == CANCELED
    assert [shape(one) async for one in events] == [WORKING, CANCELED]


async def test_cancelling_a_task_during_its_timeout_returns_its_end(clock: HandClock) -> None:
    gate, cleaning = Gate(), Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        try:
            await gate.wait()
        finally:
            await cleaning.wait()

    talk = Talk(agent_of(execute), clock=clock, run_timeout=RUN)
    task: hub.Task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    clock.strike(RUN)
    await cleaning.reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await asyncio.sleep(0)
    cleaning.open()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await cancelling
    assert (await talk.get(task.id)).status.state == FAILED


@pytest.mark.parametrize("option", ["run_timeout", "silence_timeout"])
async def test_a_cancellation_that_is_rejected_does_not_give_a_run_more_time(
    clock: HandClock, option: str
) -> None:
    held, asked = Held(), Gate()

    async def cancel(_: Run) -> AsyncIterator[Event]:
        await asked.wait()
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield

    options = {option: RUN}
    talk = Talk(agent_of(held.execute, cancel), clock=clock, **options)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await held.gate.reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await asked.reached()
    clock.strike()
    asked.open()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await cancelling
    await talk.rest()
    assert (await talk.get(task.id)).status.state == FAILED
