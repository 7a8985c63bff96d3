"""Further messages to a task: which tasks accept them, the order of the work, and the history."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Event, Run
from a2a_bridge.hosting.limits import Turns
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.late import LateStore
from tests.hosting.scene import (
    AUTH,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    WORKING,
    Gate,
    Talk,
    agent_of,
    gated,
    shape,
    shapes,
)
from tests.rejections import rejected


@pytest.fixture
def talk() -> Talk:
    return Talk(ScriptedAgent())


@pytest.mark.parametrize(("text", "state"), [("input", INPUT), ("auth", AUTH)])
@pytest.mark.parametrize("named", [True, False])
async def test_a_waiting_task_continues(talk: Talk, text: str, state: int, named: bool) -> None:
    task = await talk.send(text)
    assert task.status.state == state
    context = task.context_id if named else ""
    done = await talk.send("blue", task_id=task.id, context_id=context, message_id="m-2")
    assert (done.id, done.context_id, done.status.state) == (task.id, task.context_id, COMPLETED)
    assert done.artifacts[0].parts[0].text == "blue"


async def test_the_history_holds_both_sides_in_order(talk: Talk) -> None:
    task = await talk.send("input which?")
    done = await talk.send("blue", task_id=task.id, message_id="m-2")
    assert [(one.message_id, one.role) for one in done.history] == [
        ("m-1", hub.ROLE_USER),
        ("re-m-1", hub.ROLE_AGENT),
        ("m-2", hub.ROLE_USER),
    ]
    assert {(one.task_id, one.context_id) for one in done.history} == {(task.id, task.context_id)}


async def test_several_in_a_row() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.text == "stop":
            yield run.status("completed")
        else:
            yield run.status("input-required", f"{len(run.history)} so far")

    talk = Talk(agent_of(execute))
    task = await talk.send("0")
    for number in range(1, 6):
        task = await talk.send(str(number), task_id=task.id, message_id=f"m{number}")
        assert task.status.state == INPUT
    assert task.status.message.parts[0].text == "11 so far"
    assert (await talk.send("stop", task_id=task.id, message_id="end")).status.state == COMPLETED


async def test_a_run_sees_the_task_as_it_is() -> None:
    seen: list[hub.Task | None] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        seen.append(run.task)
        yield run.artifact("x", artifact_id="a") if run.task is None else run.status("completed")
        yield run.status("input-required" if run.task is None else "completed")

    talk = Talk(agent_of(execute))
    task = await talk.send("one")
    await talk.send("two", task_id=task.id, message_id="m-2")
    first, second = seen
    assert first is None
    assert second is not None
    assert (second.id, second.status.state, second.artifacts[0].artifact_id) == (task.id, INPUT, "a")
    assert [one.parts[0].text for one in second.history] == ["one", "two"]


async def test_a_follow_up_streams_from_a_snapshot(talk: Talk) -> None:
    task = await talk.send("input")
    events = await talk.stream("blue", task_id=task.id, message_id="m-2")
    assert shapes(events) == [("task", INPUT), WORKING, "blue", COMPLETED]
    assert [one.message_id for one in events[0].history] == ["m-1", "re-m-1", "m-2"]


async def test_a_follow_up_may_return_immediately(talk: Talk) -> None:
    task = await talk.send("input")
    events = talk.subscribe(task.id)
    await anext(events)
    begun = await talk.send("blue", task_id=task.id, configuration=IMMEDIATELY)
    assert begun.status.state == INPUT
    assert [shape(one) async for one in events] == [WORKING, "blue", COMPLETED]


@pytest.mark.parametrize("text", ["task", "fail", "reject"])
async def test_a_task_that_has_ended_takes_no_message(talk: Talk, text: str) -> None:
    task = await talk.send(text)
    for call in (talk.send("more", task_id=task.id), talk.stream("more", task_id=task.id)):
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await call
    assert await talk.get(task.id) == task


@pytest.mark.parametrize("agent", [ScriptedAgent, EchoAgent])
async def test_an_unknown_task_takes_no_message(agent: type[EchoAgent]) -> None:
    talk = Talk(agent())
    for call in (talk.send("x", task_id="none"), talk.stream("x", task_id="none")):
        with rejected(Reason.TASK_NOT_FOUND):
            await call


async def test_another_context_than_the_tasks_is_rejected(talk: Talk) -> None:
    for text in ("input", "task"):
        task = await talk.send(text)
        with rejected(Reason.INVALID_PARAMS, "message.contextId"):
            await talk.send("x", task_id=task.id, context_id="other")
        assert (await talk.get(task.id)) == task


async def test_a_message_to_a_task_at_work_waits_its_turn() -> None:
    gate = Gate()
    order: list[str] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        order.append(f"{run.text} begins")
        yield run.status("working")
        if run.task is None:
            await gate.wait()
        order.append(f"{run.text} ends")
        yield run.status("input-required" if run.task is None else "completed", run.text)

    talk = Talk(agent_of(execute))
    first = talk.events("one")
    task = await anext(first)
    await gate.reached()
    second = asyncio.create_task(talk.send("two", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    stream = talk.events("three", task_id=task.id, message_id="m-3")
    assert shape(await anext(stream)) == ("task", WORKING)
    assert order == ["one begins"]
    gate.open()
    assert [shape(one) async for one in first] == [WORKING, INPUT]
    assert (await second).status.state == COMPLETED
    assert order == ["one begins", "one ends", "two begins", "two ends"]
    # The third was never worked on; its stream shows how the task ended, past the question to the first.
    assert [shape(one) async for one in stream] == [INPUT, WORKING, COMPLETED]


async def test_a_message_whose_turn_comes_after_the_end_is_rejected() -> None:
    gate = Gate()

    talk = Talk(gated(gate))
    task = await talk.send("one", configuration=IMMEDIATELY)
    await gate.reached()
    second = asyncio.create_task(talk.send("two", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    gate.open()
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await second


async def test_a_task_keeps_only_so_many_messages_waiting() -> None:
    gate = Gate()

    talk = Talk(gated(gate), queue=2)
    task = await talk.send("one", configuration=IMMEDIATELY)
    await gate.reached()
    for number in range(2):
        await talk.send("more", task_id=task.id, message_id=f"m{number}", configuration=IMMEDIATELY)
    with rejected(Reason.RESOURCE_EXHAUSTED):
        await talk.send("too much", task_id=task.id, message_id="m9")
    gate.open()
    await talk.close(PATIENCE)
    assert "m9" not in [one.message_id for one in (await talk.get(task.id)).history]


@pytest.mark.parametrize("text", ["work", "ask"])
async def test_messages_that_come_at_once_find_no_more_room_than_others(text: str) -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.text == "ask":
            yield run.status("input-required")
        else:
            yield run.status("working")
            await gate.wait()
            yield run.status("input-required")

    store = LateStore()
    store.open_door = True
    talk = Talk(agent_of(execute), store=store, queue=2)
    task = await talk.send(text, configuration=IMMEDIATELY)
    if text == "work":
        await gate.reached()
    else:
        await talk.rest()
    store.open_door = False
    members = {"task_id": task.id, "configuration": IMMEDIATELY}
    sending = [asyncio.create_task(talk.send("more", message_id=f"m{n}", **members)) for n in range(9)]
    await store.given()
    await a_while()
    # None is queued yet: the store has none of them. A task without a run begins with the first at once.
    taken = [one for one in sending if not one.done()]
    store.open_door = True
    store.commit()
    for one in sending:
        if one in taken:
            assert (await one).id == task.id
        else:
            with rejected(Reason.RESOURCE_EXHAUSTED):
                await one
    gate.open()
    await talk.close(PATIENCE)
    assert len(taken) == (2 if text == "work" else 3)
    assert len((await talk.get(task.id)).history) == 1 + len(taken)


@pytest.mark.parametrize(("limit", "retry_after"), [({"history": 3}, None), ({"queue": 1}, 1.0)])
async def test_messages_that_come_at_once_do_not_overfill_a_history_or_a_queue(
    limit: dict[str, int], retry_after: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("input-required")

    talk = Talk(agent_of(execute, push_notifications=True), **limit)
    task = await talk.send("x")
    gate = Gate()
    put = talk.store.push_configs.put

    async def slowly(*arguments: Any) -> None:
        await gate.wait()
        await put(*arguments)

    monkeypatch.setattr(talk.store.push_configs, "put", slowly)
    config = hub.TaskPushNotificationConfig(url="https://hook.example/")
    hooked = hub.SendMessageConfiguration(task_push_notification_config=config)
    members = {"task_id": task.id, "configuration": hooked}
    sending = [asyncio.create_task(talk.send("more", message_id=f"m{n}", **members)) for n in range(5)]
    await gate.reached()
    await a_while()
    gate.open()
    results = await asyncio.gather(*sending, return_exceptions=True)
    assert len([one for one in results if isinstance(one, hub.Task)]) == 2
    rejections = [one for one in results if isinstance(one, A2AError)]
    assert [(one.reason, one.retry_after) for one in rejections] == [
        (Reason.RESOURCE_EXHAUSTED, retry_after)
    ] * 3
    assert len((await talk.get(task.id)).history) == 3
    if "history" in limit:
        with rejected(Reason.RESOURCE_EXHAUSTED):
            await talk.send("more", task_id=task.id, message_id="m9")


async def test_a_message_that_came_to_nothing_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(ScriptedAgent(), queue=1, history=4)
    task = await talk.send("input")

    async def fail(*_: Any) -> None:
        raise A2AError(Reason.UNAVAILABLE)

    with monkeypatch.context() as patch:
        patch.setattr(talk.store.push_configs, "put", fail)
        config = hub.TaskPushNotificationConfig(url="https://hook.example/")
        hooked = hub.SendMessageConfiguration(task_push_notification_config=config)
        for number in range(3):
            with rejected(Reason.UNAVAILABLE):
                await talk.send("x", task_id=task.id, message_id=f"m{number}", configuration=hooked)
    assert (await talk.send("x", task_id=task.id, message_id="m-2")).status.state == COMPLETED


async def a_while() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def test_two_messages_at_once_to_a_task_that_waits_make_two_runs_in_turn() -> None:
    runs: list[str] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        runs.append(run.text)
        yield run.status("working")
        await asyncio.sleep(0)
        yield run.status("input-required")

    talk = Talk(agent_of(execute))
    task = await talk.send("0")
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(talk.send(str(n), task_id=task.id, message_id=f"m{n}") for n in range(1, 5)))
    assert sorted(runs) == ["0", "1", "2", "3", "4"]
    assert len((await talk.get(task.id)).history) == 5


async def test_an_error_of_a_later_run_fails_the_task() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.task is not None:
            raise RuntimeError("a secret of the agent")
        yield run.status("input-required")

    talk = Talk(agent_of(execute))
    task = await talk.send("one")
    assert (await talk.send("two", task_id=task.id)).status.state == FAILED


@pytest.mark.parametrize("says", [[], ["x"]])
async def test_a_stream_ends_with_its_run_though_that_asks_nothing_new(says: list[str]) -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.task is None:
            yield run.status("input-required", "which?")
            return
        for one in says:
            yield run.artifact(one)

    talk = Talk(agent_of(execute))
    task = await talk.send("one")
    seen = await talk.stream("two", task_id=task.id, message_id="m-2")
    assert shapes(seen) == [("task", INPUT), *says, INPUT]
    ended = await talk.get(task.id)
    assert ended.status.state == INPUT
    assert [one.parts[0].text for one in ended.history] == ["one", "which?", "two"]


async def test_a_run_that_has_nothing_to_say_leaves_a_waiting_task_waiting() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.task is None:
            yield run.status("input-required")

    talk = Talk(agent_of(execute))
    task = await talk.send("one")
    assert (await talk.send("two", task_id=task.id, message_id="m-2")).status.state == INPUT


# Runs that begin together: each turn of the event loop has a bounded share of them.


RUNS = 20
LARGE = 1_000_000


class Busy:
    """Its runs work for some time before they wait. turns: in which turn of the loop each of them began."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.turn = 0
        self.turns: list[int] = []

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.turns.append(self.turn)
        end = monotonic() + self.seconds
        while monotonic() < end:
            pass
        yield run.start()
        yield run.artifact("x" * LARGE)
        yield run.status("input-required")


async def _begin(agent: Busy, max_memory: int = 0) -> list[object]:
    talk = Talk(Agent(agent, name="busy", description=""), store=MemoryStore(max_memory=max_memory))
    counting = asyncio.create_task(agent.count())
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(talk.send("x") for _ in range(RUNS)), return_exceptions=True)
    counting.cancel()
    return list(answers)


async def test_long_runs_that_begin_together_begin_in_turns_of_their_own() -> None:
    agent = Busy(0.006)
    answers = await _begin(agent)
    assert not [one for one in answers if isinstance(one, BaseException)]
    assert len(set(agent.turns)) == RUNS


async def test_a_run_that_finds_the_memory_full_when_it_begins_is_rejected() -> None:
    """All are admitted before the first of them holds anything."""
    agent = Busy(0.006)
    answers = await _begin(agent, 10 * LARGE)
    rejected = [one for one in answers if isinstance(one, A2AError)]
    assert 0 < len(rejected) == RUNS - len(agent.turns)
    assert all(one.reason is Reason.RESOURCE_EXHAUSTED and one.retry_after for one in rejected)


async def test_one_that_leaves_the_queue_holds_up_nobody() -> None:
    turns = Turns()
    assert not turns.spent
    left, right = asyncio.create_task(turns.next()), asyncio.create_task(turns.next())
    left.cancel()
    async with asyncio.timeout(PATIENCE):
        await right
    assert left.cancelled()
    assert not turns.spent
