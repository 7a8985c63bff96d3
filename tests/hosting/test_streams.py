"""SendStreamingMessage and SubscribeToTask: the first event, the order, the readers, and the end of a stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason, closing_error
from a2a_bridge.core.messages import timestamp
from a2a_bridge.hosting import Engine, Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import (
    ALICE,
    AUTH,
    BOB,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    HandClock,
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


# --- GetTask and ListTasks: content, visibility, order and pages ---

NOON = 1_700_000_000_000_000_000


@pytest.fixture
def talk() -> Talk:
    return Talk(ScriptedAgent())


def dated() -> Any:
    """An agent whose tasks complete at the second in the message."""

    async def execute(run: Run) -> AsyncIterator[Event]:
        update = run.status("completed")
        update.status.timestamp.CopyFrom(timestamp(NOON + int(run.text) * 10**9))
        yield update

    return agent_of(execute)


def ids(page: hub.ListTasksResponse) -> list[str]:
    return [task.id for task in page.tasks]


@pytest.mark.parametrize(("length", "shown"), [(None, 5), (0, 0), (1, 1), (4, 4), (5, 5), (99, 5)])
async def test_the_newest_of_the_history_is_shown(length: int | None, shown: int) -> None:
    asked = {} if length is None else {"history_length": length}

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("input-required", f"about {run.text}")

    talk = Talk(agent_of(execute))
    task = await talk.send("0")
    for number in (1, 2):
        task = await talk.send(
            str(number),
            task_id=task.id,
            message_id=f"m{number}",
            configuration=hub.SendMessageConfiguration(**asked),
        )
    whole = ["m-1", None, "m1", None, "m2"]
    for found in (task, await talk.get(task.id, **asked), (await talk.list(**asked)).tasks[0]):
        assert len(found.history) == shown
        for one, expected in zip(found.history, whole[5 - shown :], strict=True):
            assert expected in (None, one.message_id)


@pytest.mark.parametrize("length", [-1, -5])
async def test_a_negative_history_length_is_rejected(talk: Talk, length: int) -> None:
    task = await talk.send("task")
    with rejected(Reason.INVALID_PARAMS, "historyLength"):
        await talk.get(task.id, history_length=length)
    with rejected(Reason.INVALID_PARAMS, "historyLength"):
        await talk.list(history_length=length)


async def test_returned_messages_can_be_changed_without_effect(talk: Talk) -> None:
    task = await talk.send("input")
    kept = await talk.get(task.id)
    for found in (task, await talk.get(task.id), (await talk.list()).tasks[0]):
        found.status.state = FAILED
        found.history.add(message_id="smuggled")
    assert await talk.get(task.id) == kept


async def test_a_live_task_is_shown_as_it_is_now() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        yield run.artifact("half", artifact_id="a", last=False)
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    for found in (await talk.get(task.id), (await talk.list(include_artifacts=True)).tasks[0]):
        assert (found.status.state, found.artifacts[0].parts[0].text) == (WORKING, "half")
    assert len((await talk.list()).tasks[0].artifacts) == 0
    found.artifacts[0].parts[0].text = "changed"
    assert (await talk.get(task.id)).artifacts[0].parts[0].text == "half"
    gate.open()
    await talk.close(grace=10)


@pytest.mark.parametrize(
    "context", [None, BOB, CallContext(tenant="t"), CallContext(tenant="t", principal=ALICE.principal)]
)
async def test_a_foreign_task_is_like_no_task(talk: Talk, context: CallContext | None) -> None:
    task = await talk.send("task", context=ALICE)
    errors = []
    for task_id in (task.id, "none"):
        with rejected(Reason.TASK_NOT_FOUND) as caught:
            await talk.get(task_id, context=context)
        errors.append(
            (caught.value.message, caught.value.metadata == {"taskId": task_id}, caught.value.violations)
        )
    assert errors[0] == errors[1]
    assert (await talk.list(context=context)).total_size == 0
    with rejected(Reason.TASK_NOT_FOUND):
        await talk.send("x", task_id=task.id, context=context)
    assert (await talk.get(task.id, context=ALICE)).id == task.id


async def test_the_tenant_of_the_request_counts_when_the_context_has_none(talk: Talk) -> None:
    task = await talk.send("task", tenant="t")
    assert (await talk.get(task.id, tenant="t")).id == task.id
    assert (await talk.get(task.id, context=CallContext(tenant="t"))).id == task.id
    with rejected(Reason.TASK_NOT_FOUND):
        await talk.get(task.id)


async def test_lists_are_empty_at_first(talk: Talk) -> None:
    assert await talk.list() == hub.ListTasksResponse()


async def test_lists_go_from_the_newest_status_to_the_oldest() -> None:
    talk = Talk(dated())
    made = {second: (await talk.send(str(second))).id for second in (3, 1, 2, 5, 4)}
    page = await talk.list()
    assert ids(page) == [made[second] for second in (5, 4, 3, 2, 1)]
    assert (page.total_size, page.next_page_token, page.page_size) == (5, "", 5)


async def test_equal_times_have_a_fixed_order() -> None:
    talk = Talk(dated())
    for _ in range(9):
        await talk.send("1")
    whole = ids(await talk.list())
    assert len(set(whole)) == 9
    found: list[str] = []
    token = ""
    while True:
        page = await talk.list(page_size=2, page_token=token)
        found += ids(page)
        token = page.next_page_token
        if not token:
            break
    assert found == whole


async def test_filters() -> None:
    talk = Talk(ScriptedAgent())
    done = [await talk.send("task", context_id=context) for context in ("a", "b", "a")]
    waiting = await talk.send("input", context_id="a")
    assert set(ids(await talk.list(context_id="a"))) == {done[0].id, done[2].id, waiting.id}
    assert ids(await talk.list(status=INPUT)) == [waiting.id]
    assert set(ids(await talk.list(status=COMPLETED, context_id="a"))) == {done[0].id, done[2].id}
    assert (await talk.list(context_id="c")).total_size == 0
    page = await talk.list(context_id="a", page_size=1)
    assert (page.total_size, len(page.tasks), page.page_size) == (3, 1, 1)


@pytest.mark.parametrize(("after", "expected"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0)])
async def test_the_time_filter_includes_its_time(after: int, expected: int) -> None:
    talk = Talk(dated())
    for second in (1, 2, 3):
        await talk.send(str(second))
    since = timestamp(NOON + after * 10**9)
    assert (await talk.list(status_timestamp_after=since)).total_size == expected


async def test_artifacts_are_listed_when_asked_for(talk: Talk) -> None:
    await talk.send("task x")
    for asked, count in (({}, 0), ({"include_artifacts": False}, 0), ({"include_artifacts": True}, 1)):
        (task,) = (await talk.list(**asked)).tasks
        assert len(task.artifacts) == count


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
async def test_page_sizes_are_bounded(talk: Talk, size: int) -> None:
    with rejected(Reason.INVALID_PARAMS, "pageSize"):
        await talk.list(page_size=size)


async def test_a_page_may_have_a_hundred(talk: Talk) -> None:
    for _ in range(101):
        await talk.send("fail")
    page = await talk.list(page_size=100)
    assert (len(page.tasks), page.total_size) == (100, 101)
    assert len((await talk.list()).tasks) == 50
    assert len((await talk.list(page_size=100, page_token=page.next_page_token)).tasks) == 1


@pytest.mark.parametrize("change", ["", "x", "first", "last", "cut"])
async def test_a_token_that_was_not_given_is_rejected(talk: Talk, change: str) -> None:
    for _ in range(3):
        await talk.send("fail")
    token = (await talk.list(page_size=1)).next_page_token
    other = "B" if token[0] == "A" else "A"
    bad = {
        "": "no token",
        "x": token + "x",
        "first": other + token[1:],
        "last": token[:-4] + other * 4,
        "cut": token[:-1],
    }[change]
    with rejected(Reason.INVALID_PARAMS, "pageToken"):
        await talk.list(page_size=1, page_token=bad)


async def test_a_token_is_good_for_its_own_query_and_caller_only(talk: Talk) -> None:
    for context in (ALICE, BOB):
        for _ in range(3):
            await talk.send("fail", context=context)
    token = (await talk.list(page_size=1, context=ALICE)).next_page_token
    for wrong in (
        {"context": BOB},
        {"context": ALICE, "status": FAILED},
        {"context": ALICE, "context_id": "c"},
    ):
        with rejected(Reason.INVALID_PARAMS, "pageToken"):
            await talk.list(page_size=1, page_token=token, **wrong)
    # The size of the page may change from one page to the next.
    assert len((await talk.list(page_size=2, page_token=token, context=ALICE)).tasks) == 2


async def test_an_unknown_state_is_rejected(talk: Talk) -> None:
    with rejected(Reason.INVALID_PARAMS, "status"):
        await talk.list(status=99)


async def test_a_reader_that_begins_after_the_end_of_the_engine_gets_its_error() -> None:
    gate = Gate()
    talk = Talk(gated(gate))
    task = await talk.send(configuration=IMMEDIATELY)
    await gate.reached()
    readers = talk.engine._readers
    readers.end(closing_error())
    for after, events in ((0, 2), (2, 0)):
        reading = readers.begin(Scope("", ""), task.id, after).events(None)
        with rejected(Reason.UNAVAILABLE):
            async with asyncio.timeout(PATIENCE):
                for _ in range(events):
                    await anext(reading)
                await anext(reading)
    assert len(readers) == 0
    await talk.close()
