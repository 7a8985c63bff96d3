"""Resuming a broken stream: the ids of events, the valid positions of a subscription, and gaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core.call import (
    LAST_EVENT_PARAMETER,
    CallContext,
    ResponseParameters,
)
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.resume import gap_of
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import (
    ALICE,
    BOB,
    COMPLETED,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    Talk,
    agent_of,
    rejected,
    request,
    shape,
)

WHOLE = [("task", SUBMITTED), WORKING, "chunk 0 ", "chunk 1 ", "chunk 2 ", COMPLETED]


def after(event_id: str, context: CallContext | None = None) -> CallContext:
    """A context that asks to resume after an event."""
    context = context or CallContext()
    return context.replace(parameters={LAST_EVENT_PARAMETER: event_id}, reply=ResponseParameters())


async def told(events: Any) -> list[tuple[str, Any]]:
    """All events in short, each with its id."""
    async with aclosing(events), asyncio.timeout(PATIENCE):
        return [
            (event.id, shape(getattr(event.message, event.message.WhichOneof("payload"))))
            async for event in events
        ]


def subscription(talk: Talk, task_id: str, context: CallContext) -> Any:
    """The events of a subscription."""
    return talk.engine.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id), context)


async def streamed(talk: Talk, text: str, **members: Any) -> list[tuple[str, Any]]:
    return await told(talk.engine.send_streaming_message(request(text, **members), CallContext()))


async def resumed(talk: Talk, task_id: str, event_id: str) -> list[tuple[str, Any]]:
    return await told(subscription(talk, task_id, after(event_id)))


async def test_events_have_numbers() -> None:
    talk = Talk(ScriptedAgent())
    assert await streamed(talk, "chunks 3") == list(zip("123456", WHOLE, strict=True))


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_direct_answer_has_none(agent: type[EchoAgent]) -> None:
    ((event_id, event),) = await streamed(Talk(agent()), "hello")
    assert (event_id, event) == ("", ("message", "hello"))


@pytest.mark.parametrize("cut", range(7))
async def test_a_task_that_has_ended_gives_the_rest(cut: int) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    assert await resumed(talk, task.id, str(cut)) == list(zip("123456", WHOLE, strict=True))[cut:]
    async with aclosing(subscription(talk, task.id, after(str(cut)))) as events:
        assert not any([event.gap async for event in events])


async def test_a_live_task_is_gone_on_with() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        yield run.artifact("a", artifact_id="a")
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    events = talk.events("x")
    task = await anext(events)
    await gate.reached()
    await events.aclose()
    waiting = [asyncio.create_task(resumed(talk, task.id, number)) for number in "123"]
    await asyncio.sleep(0)
    gate.open()
    whole = [("2", WORKING), ("3", "a"), ("4", COMPLETED)]
    assert await asyncio.gather(*waiting) == [whole, whole[1:], whole[2:]]


async def test_a_snapshot_has_the_number_of_its_last_event() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    events = subscription(talk, task.id, CallContext())
    async with aclosing(events):
        assert (await anext(events)).id == "3"
        followed = asyncio.create_task(streamed(talk, "x", task_id=task.id, message_id="m-2"))
        event = await anext(events)
        assert (event.id, event.message.status_update.status.state) == ("4", WORKING)
    assert await followed == [("3", ("task", INPUT)), ("4", WORKING), ("5", "x"), ("6", COMPLETED)]
    assert await resumed(talk, task.id, "3") == (await followed)[1:]
    # A question that has been answered since ends no stream.
    assert await resumed(talk, task.id, "1") == [("2", WORKING), ("3", INPUT), *(await followed)[1:]]


@each("asked", ["7", "999999999999999999", "abc", "abc-3", "03", "0-0"])
@each("text", ["chunks 3", "input"])
async def test_unknown_positions_are_a_gap(asked: str, text: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, text)
    (task,) = (await talk.list()).tasks
    events = subscription(talk, task.id, after(asked))
    async with aclosing(events), asyncio.timeout(PATIENCE):
        first = await anext(events)
        last = "6" if text == "chunks 3" else "3"
        assert (first.id, first.gap) == (last, True)
        mark = gap_of(first.message)
        assert mark is not None
        assert (mark.after, mark.id, first.message.task.status.state) == (asked, last, task.status.state)
        if text == "chunks 3":
            assert [one async for one in events] == []
            return
        following = asyncio.ensure_future(anext(events))
        await talk.send("x", task_id=task.id, message_id="m-2")
        event = await following
        assert (event.id, event.message.status_update.status.state) == ("4", WORKING)


async def test_dropped_events_are_a_gap() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(window=8))
    events = await streamed(talk, "chunks 100")
    assert len(events) == 103
    (task,) = (await talk.list()).tasks
    async with aclosing(subscription(talk, task.id, after("5"))) as subscribed:
        (snapshot,) = [event async for event in subscribed]
    assert (snapshot.id, snapshot.gap, snapshot.message.task.status.state) == ("103", True, COMPLETED)
    assert await resumed(talk, task.id, "98") == events[98:]


@pytest.mark.parametrize("asked", ["-", "é", "a b", "1" * 65, "1,2"])
async def test_invalid_ids_are_rejected(asked: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    if asked == "-":  # it could be one, of another agent
        assert (await resumed(talk, task.id, asked))[0][1] == ("task", COMPLETED)
        return
    with rejected(Reason.INVALID_PARAMS, "Last-Event-ID"):
        await resumed(talk, task.id, asked)


async def test_a_foreign_task_cannot_be_gone_on_with() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("task", context=ALICE)
    for who, task_id in ((BOB, task.id), (None, task.id), (ALICE, "none")):
        context = after("1", who)
        with rejected(Reason.TASK_NOT_FOUND):
            await told(subscription(talk, task_id, context))
        assert context.reply == {}
