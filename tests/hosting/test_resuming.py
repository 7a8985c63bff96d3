"""Going on with a broken stream: the ids of events, from where a subscription may go on, and what a gap looks like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core.call import (
    EVENT_PARAMETER,
    LAST_EVENT_PARAMETER,
    RESUME_PARAMETER,
    CallContext,
)
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import gap_of
from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.stores import MemoryStore
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.agents import EchoAgent, ScriptedAgent
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
    refused,
    request,
    shape,
)

WHOLE = [("task", SUBMITTED), WORKING, "chunk 0 ", "chunk 1 ", "chunk 2 ", COMPLETED]


def after(event_id: str, context: CallContext | None = None) -> CallContext:
    """A context that asks to go on after an event."""
    context = context or CallContext()
    return context.replace(parameters={LAST_EVENT_PARAMETER: event_id}, reply={})


async def told(events: Any, context: CallContext) -> list[tuple[str | None, Any]]:
    """All events in short, each with its id."""
    async with aclosing(events), asyncio.timeout(PATIENCE):
        return [
            (context.reply.pop(EVENT_PARAMETER, None), shape(getattr(event, event.WhichOneof("payload"))))
            async for event in events
        ]


async def streamed(talk: Talk, text: str, **members: Any) -> list[tuple[str | None, Any]]:
    context = CallContext()
    return await told(talk.client.send_streaming_message(request(text, **members), context), context)


async def resumed(talk: Talk, task_id: str, event_id: str) -> list[tuple[str | None, Any]]:
    context = after(event_id)
    return await told(talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id), context), context)


async def test_events_have_numbers() -> None:
    talk = Talk(ScriptedAgent())
    assert await streamed(talk, "chunks 3") == list(zip("123456", WHOLE, strict=True))


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_direct_answer_has_none(agent: type[EchoAgent]) -> None:
    ((event_id, event),) = await streamed(Talk(agent()), "hello")
    assert (event_id, event) == (None, ("message", "hello"))


@pytest.mark.parametrize("cut", range(7))
async def test_a_task_that_has_ended_gives_the_rest(cut: int) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    context = after(str(cut))
    asked = hub.SubscribeToTaskRequest(id=task.id)
    rest = await told(talk.client.subscribe_to_task(asked, context), context)
    assert rest == list(zip("123456", WHOLE, strict=True))[cut:]
    assert RESUME_PARAMETER not in context.reply


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


async def test_a_snapshot_has_the_number_of_what_it_holds() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    context = CallContext()
    events = talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id), context)
    async with aclosing(events):
        await anext(events)
        assert context.reply.pop(EVENT_PARAMETER) == "3"
        followed = asyncio.create_task(streamed(talk, "x", task_id=task.id, message_id="m-2"))
        assert (await anext(events)).status_update.status.state == WORKING
        assert context.reply.pop(EVENT_PARAMETER) == "4"
    assert await followed == [("3", ("task", INPUT)), ("4", WORKING), ("5", "x"), ("6", COMPLETED)]
    assert await resumed(talk, task.id, "3") == (await followed)[1:]
    # A question that was answered since ends no stream.
    assert await resumed(talk, task.id, "1") == [("2", WORKING), ("3", INPUT), *(await followed)[1:]]


@pytest.mark.parametrize("asked", ["7", "999999999999999999", "abc", "abc-3", "03", "0-0"])
@pytest.mark.parametrize("text", ["chunks 3", "input"])
async def test_what_is_not_known_is_a_gap(asked: str, text: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, text)
    (task,) = (await talk.list()).tasks
    context = after(asked)
    events = talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id), context)
    async with aclosing(events), asyncio.timeout(PATIENCE):
        first = await anext(events)
        last = "6" if text == "chunks 3" else "3"
        assert context.reply == {EVENT_PARAMETER: last, RESUME_PARAMETER: "gap"}
        mark = gap_of(first)
        assert mark is not None
        assert (mark.after, mark.id, first.task.status.state) == (asked, last, task.status.state)
        if text == "chunks 3":
            assert [one async for one in events] == []
            return
        following = asyncio.ensure_future(anext(events))
        await talk.send("x", task_id=task.id, message_id="m-2")
        assert (await following).status_update.status.state == WORKING
        assert context.reply[EVENT_PARAMETER] == "4"


async def test_what_is_kept_no_more_is_a_gap() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(window=8))
    events = await streamed(talk, "chunks 100")
    assert len(events) == 103
    (task,) = (await talk.list()).tasks
    context = after("5")
    asked = hub.SubscribeToTaskRequest(id=task.id)
    assert await told(talk.client.subscribe_to_task(asked, context), context) == [
        ("103", ("task", COMPLETED))
    ]
    assert context.reply[RESUME_PARAMETER] == "gap"
    assert await resumed(talk, task.id, "98") == events[98:]


@pytest.mark.parametrize("asked", ["-", "é", "a b", "1" * 65, "1,2"])
async def test_what_can_be_no_id_is_refused(asked: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    if asked == "-":  # can be one, of somebody else's making
        assert (await resumed(talk, task.id, asked))[0][1] == ("task", COMPLETED)
        return
    with refused(Reason.INVALID_PARAMS, "Last-Event-ID"):
        await resumed(talk, task.id, asked)


async def test_a_foreign_task_cannot_be_gone_on_with() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("task", context=ALICE)
    for who, task_id in ((BOB, task.id), (None, task.id), (ALICE, "none")):
        context = after("1", who)
        with refused(Reason.TASK_NOT_FOUND):
            await told(
                talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id), context), context
            )
        assert context.reply == {}


async def test_an_error_leaves_no_id_behind() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    context = CallContext()
    events = talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id), context)
    await anext(events)
    reading = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await talk.close()
    with pytest.raises(A2AError):
        await reading
    assert EVENT_PARAMETER not in context.reply
