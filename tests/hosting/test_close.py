"""Closing the engine: no new work; runs may finish within the grace, callers of the others are answered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Event, Run
from tests.agents import EchoAgent, ScriptedAgent, SlowAgent
from tests.calls_per_call import EVENTS, rows
from tests.hosting.scene import (
    AUTH,
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


class Held:
    """Works until its gate opens."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await self.gate.wait()
        yield run.status("completed")


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_closed_engine_takes_no_work_and_still_answers_questions(agent: type[EchoAgent]) -> None:
    talk = Talk(agent())
    task_id = ""
    if agent is ScriptedAgent:
        task_id = (await talk.send("task")).id
        waiting = await talk.send("input")
    await talk.close()
    for call in (talk.send("x"), talk.stream("x")):
        with rejected(Reason.UNAVAILABLE):
            await call
    assert (await talk.list()).total_size == (2 if task_id else 0)
    if task_id:
        assert (await talk.get(task_id)).id == task_id
        with rejected(Reason.UNAVAILABLE):
            await talk.send("x", task_id=waiting.id)
        with rejected(Reason.UNAVAILABLE):
            await anext(talk.subscribe(waiting.id))


async def test_runs_may_finish_within_the_grace() -> None:
    held = Held()
    talk = Talk(agent_of(held.execute))
    sending = asyncio.create_task(talk.send("x"))
    await held.gate.reached()
    closing = asyncio.create_task(talk.close(PATIENCE))
    await asyncio.sleep(0)
    held.gate.open()
    await closing
    assert (await sending).status.state == COMPLETED
    await talk.rest()


async def test_a_run_that_may_finish_can_be_canceled() -> None:
    held = Held()
    talk = Talk(agent_of(held.execute))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await held.gate.reached()
    closing = asyncio.create_task(talk.close(PATIENCE))
    await asyncio.sleep(0)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    await closing  # it need not wait for the run any more
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    await talk.rest()


async def test_unfinished_runs_fail_and_their_callers_get_it() -> None:
    held = Held()
    talk = Talk(agent_of(held.execute))
    events = talk.events("x")
    task = await anext(events)
    await held.gate.reached()
    blocked = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    await talk.close()
    assert [shape(one) async for one in events] == [WORKING, FAILED]
    assert (await talk.get(task.id)).status.message.parts[0].text
    with rejected(Reason.UNAVAILABLE):
        await blocked
    await talk.rest()


async def test_a_direct_answer_of_a_run_is_given_up() -> None:
    slow = SlowAgent()
    agent = agent_of(slow.executor.execute)
    talk = Talk(agent)
    sending = asyncio.create_task(talk.send("x"))
    await slow.wait_running(1)
    await talk.close()
    with rejected(Reason.UNAVAILABLE):
        await sending
    assert slow.cancelled == 1


@pytest.mark.parametrize(("text", "state"), [("input", INPUT), ("auth", AUTH)])
async def test_waiting_tasks_are_unchanged_and_their_readers_get_an_error(text: str, state: int) -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send(text)
    events = talk.subscribe(task.id)
    await anext(events)
    reading = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    await talk.close()
    with rejected(Reason.UNAVAILABLE):
        await reading
    assert (await talk.get(task.id)).status.state == state


async def test_a_message_that_nothing_has_come_of_yet_is_given_up() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.task is not None:
            await gate.wait()
        yield run.status("input-required")

    talk = Talk(agent_of(execute))
    task = await talk.send("x")
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await gate.reached()
    await talk.close()
    with rejected(Reason.UNAVAILABLE):
        await sending
    assert (await talk.get(task.id)).status.state == INPUT
    await talk.rest()


async def test_a_cancellation_under_way_is_waited_for() -> None:
    gate, held = Gate(), Held()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await gate.wait()
        yield run.status("canceled", "cleaned up")

    talk = Talk(agent_of(held.execute, cancel))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await held.gate.reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await gate.reached()
    closing = asyncio.create_task(talk.close())
    await asyncio.sleep(0)
    gate.open()
    await closing
    assert (await cancelling).status.message.parts[0].text == "cleaned up"
    assert (await talk.get(task.id)).status.state == CANCELED


async def test_closing_twice_is_closing_once() -> None:
    talk = Talk(ScriptedAgent())
    await talk.close()
    await talk.close()


@pytest.mark.parametrize("follows", [True, False])
async def test_a_message_that_is_being_looked_at_while_the_engine_closes_begins_nothing(
    follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    await talk.rest()
    gate = Gate()
    get = talk.store.get

    async def slowly(*arguments: Any) -> Any:
        await gate.wait()
        return await get(*arguments)

    async def check(_: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(talk.store, "get", slowly)
    monkeypatch.setattr(talk.engine._sending, "check", check)
    members = {"task_id": task.id} if follows else {"configuration": IMMEDIATELY}
    sending = asyncio.create_task(talk.send("task x", message_id="m-2", **members))
    await gate.reached()
    await talk.close()
    gate.open()
    with rejected(Reason.UNAVAILABLE):
        await sending
    assert talk.engine.live == 0
    assert (await talk.list()).total_size == 1


# What one call costs a server in frames of our own functions. The limits are a little above the numbers of


@pytest.mark.parametrize(
    ("row", "frames", "tasks"),
    [
        ("message", 80, 1),
        ("message, 0.3, blocking", 86, 1),
        ("task", 175, 2),
        ("GetTask", 78, 1),
        ("gateway to gRPC", 105, 2),
        (f"SSE, {EVENTS} events", 23 * EVENTS, 2),
    ],
)
async def test_the_frames_of_a_call(row: str, frames: int, tasks: int) -> None:
    async with asyncio.timeout(PATIENCE):
        count = await rows()[row]()
    # Below these the counter itself would be broken.
    assert 40 < count.ours <= frames
    assert count.tasks <= tasks
