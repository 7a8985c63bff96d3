"""SendStreamingMessage and SubscribeToTask: the first event, the order, the readers, and the end of a stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Engine, Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.hand_clock import HandClock
from tests.hosting.scene import (
    ALICE,
    AUTH,
    BOB,
    COMPLETED,
    FAILED,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    Talk,
    agent_of,
    gated,
    request,
    shape,
    shapes,
)
from tests.rejections import rejected


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in events]


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_direct_answer_is_the_only_event(agent: type[EchoAgent]) -> None:
    assert shapes(await Talk(agent()).stream("hello")) == [("message", "hello")]


async def test_a_task_and_then_its_events() -> None:
    events = await Talk(ScriptedAgent()).stream("chunks 3")
    assert shapes(events) == [("task", SUBMITTED), WORKING, "chunk 0 ", "chunk 1 ", "chunk 2 ", COMPLETED]
    pieces = [one for one in events if isinstance(one, hub.TaskArtifactUpdateEvent)]
    assert [(one.append, one.last_chunk) for one in pieces] == [(False, False), (True, False), (True, True)]
    assert {(one.task_id, one.context_id) for one in events[1:]} == {(events[0].id, events[0].context_id)}


@pytest.mark.parametrize("event", ["status", "artifact"])
async def test_an_executor_that_begins_with_an_update_gets_its_task_first(event: str) -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working") if event == "status" else run.artifact("a")
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    events = await talk.stream("x")
    assert shapes(events) == [("task", SUBMITTED), WORKING if event == "status" else "a", COMPLETED]
    assert [one.message_id for one in events[0].history] == ["m-1"]


async def test_events_come_as_they_are_made() -> None:
    gate = Gate()

    events = Talk(gated(gate)).events("x")
    assert shapes([await anext(events), await anext(events)]) == [("task", SUBMITTED), WORKING]
    await gate.reached()
    gate.open()
    assert shapes(await collect(events)) == [COMPLETED]


@pytest.mark.parametrize("text", ["error INVALID_PARAMS", "crash", "silent"])
async def test_an_error_before_the_first_event_is_the_streams_error(text: str) -> None:
    reasons = {"crash": Reason.INTERNAL_ERROR, "silent": Reason.INVALID_AGENT_RESPONSE}
    with rejected(reasons.get(text, Reason.INVALID_PARAMS)):
        await Talk(ScriptedAgent()).stream(text)


async def test_a_failure_later_is_an_event() -> None:
    assert shapes(await Talk(ScriptedAgent()).stream("late UNAVAILABLE"))[-2:] == [WORKING, FAILED]


async def test_a_stream_ends_when_input_is_asked_for() -> None:
    talk = Talk(ScriptedAgent())
    events = await talk.stream("input which?")
    assert shapes(events) == [("task", SUBMITTED), WORKING, INPUT]
    assert events[-1].status.message.parts[0].text == "which?"


async def test_a_stream_continues_while_authentication_is_required() -> None:
    talk = Talk(ScriptedAgent())
    events = talk.events("auth")
    first = await anext(events)
    assert shape(await anext(events)) == AUTH
    await talk.send("it is me", task_id=first.id, message_id="m-2")
    assert shapes(await collect(events)) == [WORKING, "it is me", COMPLETED]


async def test_leaving_a_stream_leaves_the_task_alone() -> None:
    gate = Gate()

    talk = Talk(gated(gate))
    events = talk.events("x")
    task = await anext(events)
    await events.aclose()
    gate.open()
    assert shapes(await collect(talk.subscribe(task.id)))[-1] == COMPLETED


async def test_history_length_holds_for_the_task_in_a_stream() -> None:
    none = hub.SendMessageConfiguration(history_length=0)
    talk = Talk(ScriptedAgent())
    cut = await talk.stream("task", configuration=none)
    assert (shape(cut[0]), len(cut[0].history)) == (("task", SUBMITTED), 0)
    assert len((await talk.get(cut[0].id)).history) == 1


async def test_many_subscribers_see_the_same_in_the_same_order() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()
        for number in range(1000):
            yield run.artifact(str(number), artifact_id="a", append=number > 0, last=number == 999)
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    first = talk.events("x")
    task = await anext(first)
    others = [talk.subscribe(task.id) for _ in range(40)]
    heads = await asyncio.gather(*(anext(one) for one in others))
    assert {shape(head) for head in heads} == {("task", WORKING)}
    gate.open()
    seen = await asyncio.gather(*(collect(one) for one in (first, *others)))
    whole = [WORKING, *(str(number) for number in range(1000)), COMPLETED]
    assert shapes(seen[0]) == whole
    assert all(shapes(one) == whole[1:] for one in seen[1:])
    # One copy is enough: the events are the same objects.
    assert len({id(one[500]) for one in seen[1:]}) == 1


async def test_a_subscriber_gets_a_snapshot_and_the_further_events_without_gap() -> None:
    gates = [Gate(), Gate()]

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working", "first")
        yield run.artifact("a", artifact_id="a", last=False)
        await gates[0].wait()
        yield run.artifact("b", artifact_id="a", append=True)
        await gates[1].wait()
        yield run.status("completed", "last")

    talk = Talk(agent_of(execute))
    events = talk.events("x")
    task = await anext(events)
    await gates[0].reached()
    early = talk.subscribe(task.id)
    assert [part.text for part in (await anext(early)).artifacts[0].parts] == ["a"]
    gates[0].open()
    await gates[1].reached()
    late = talk.subscribe(task.id)
    snapshot = await anext(late)
    assert [part.text for part in snapshot.artifacts[0].parts] == ["a", "b"]
    assert snapshot.status.message.parts[0].text == "first"
    gates[1].open()
    assert shapes(await collect(early)) == ["b", COMPLETED]
    assert shapes(await collect(late)) == [COMPLETED]


async def test_one_subscribers_end_is_no_others() -> None:
    gate = Gate()

    talk = Talk(gated(gate))
    events = talk.events("x")
    task = await anext(events)
    leaving, staying = talk.subscribe(task.id), talk.subscribe(task.id)
    await anext(leaving)
    await anext(staying)
    await leaving.aclose()
    gate.open()
    assert shapes(await collect(staying))[-1] == COMPLETED
    assert shapes(await collect(events))[-1] == COMPLETED


@pytest.mark.parametrize("text", ["task", "fail"])
async def test_there_is_nothing_to_subscribe_to_after_the_end(text: str) -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send(text)
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await collect(talk.subscribe(task.id))


async def test_subscribing_to_an_unknown_or_foreign_task() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input", context=ALICE)
    for task_id, context in (("none", None), (task.id, BOB), (task.id, None)):
        with rejected(Reason.TASK_NOT_FOUND):
            await collect(talk.subscribe(task_id, context))
    assert not len(talk.engine._readers)


async def test_a_subscriber_to_a_waiting_task_gets_its_further_events() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    events = talk.subscribe(task.id)
    assert shape(await anext(events)) == ("task", INPUT)
    await talk.send("yes", task_id=task.id)
    assert shapes(await collect(events)) == [WORKING, "yes", COMPLETED]


async def test_a_slow_reader_holds_the_producer_and_is_dropped_in_the_end() -> None:
    clock = HandClock()
    made = 0

    async def execute(run: Run) -> AsyncIterator[Event]:
        nonlocal made
        yield run.status("working")
        for number in range(2000):
            made = number
            yield run.artifact(str(number), artifact_id="a", append=number > 0, last=number == 1999)
        yield run.status("completed")

    talk = Talk(agent_of(execute), store=MemoryStore(window=100, stall=30, clock=clock))
    slow = talk.events("x")
    task = await anext(slow)
    quick = asyncio.create_task(collect(talk.subscribe(task.id)))
    async with asyncio.timeout(PATIENCE):
        await clock.asked.wait()
    assert made < 200
    assert [seconds for seconds, _ in clock.timers] == [30]
    clock.strike()
    async with asyncio.timeout(PATIENCE):
        seen = await quick
    assert made == 1999
    assert shape(seen[-1]) == COMPLETED
    with rejected(Reason.UNAVAILABLE):
        await collect(slow)
    assert clock.timers == []


async def test_a_reader_that_is_slow_but_reads_loses_nothing() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(window=16))
    seen = []
    async for event in talk.events("chunks 500"):
        await asyncio.sleep(0)
        seen.append(event)
    assert len(seen) == 503


async def test_large_events_count_by_their_size() -> None:
    clock = HandClock()
    made = 0

    async def execute(run: Run) -> AsyncIterator[Event]:
        nonlocal made
        for number in range(100):
            made = number
            yield run.artifact(b"x" * 100_000, artifact_id=str(number))
        yield run.status("completed")

    talk = Talk(agent_of(execute), store=MemoryStore(window_bytes=1_000_000, clock=clock))
    events = talk.events("x")
    await anext(events)
    async with asyncio.timeout(PATIENCE):
        await clock.asked.wait()
    assert made < 15
    assert len(await collect(events)) == 101


async def test_a_producer_that_never_waits_lets_others_run() -> None:
    turns = 0
    done = asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        for number in range(3200):
            yield run.artifact("x", artifact_id="a", append=number > 0, last=False)
        yield run.status("completed")

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    await Talk(agent_of(execute)).send("x")
    done.set()
    await running
    assert turns >= 100


async def test_a_caller_that_leaves_after_the_first_event_stops_reading() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.start()
        await gate.wait()
        yield run.status("completed")

    store = MemoryStore()
    engine = Engine(agent_of(execute), store=store)
    async with asyncio.timeout(PATIENCE):
        events = engine.send_streaming_message(request("x"), CallContext())
        task = (await anext(events)).message.task
        assert store.log(task.id).readers
        await events.aclose()
        assert not store.log(task.id).readers
        gate.open()
        await engine.close(PATIENCE)
