"""Executors that break the rules: their own task fails with a clear text, and other tasks are not affected."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.memory import MemoryWriter
from a2a_bridge.stores.memory_tasks import Entry
from a2a_bridge.stores.ports import Scope, Stored
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    Talk,
    agent_of,
    gated,
    shape,
    shapes,
)
from tests.rejections import rejected

Make = Callable[[Run], Any]


def yielding(*events: Make) -> Any:
    async def execute(run: Run) -> AsyncIterator[Event]:
        for make in events:
            yield make(run)

    return agent_of(execute)


def working(run: Run) -> Event:
    return run.status("working")


def completed(run: Run) -> Event:
    return run.status("completed")


def said(run: Run) -> Event:
    return run.reply("hello")


def stranger(run: Run) -> Event:
    return hub.TaskStatusUpdateEvent(task_id="other", status=hub.TaskStatus(state=WORKING))


def elsewhere(run: Run) -> Event:
    event = run.artifact("x")
    event.context_id = "other"
    return event


def nothing(run: Run) -> Any:
    return {"not": "an event"}


def stateless(run: Run) -> Event:
    return run.status(hub.TASK_STATE_UNSPECIFIED)


def restarted(run: Run) -> Event:
    return run.status("submitted")


def nameless_piece(run: Run) -> Event:
    event = run.artifact("x", artifact_id="1", append=True)
    event.artifact.artifact_id = ""
    return event


def nested(event: Any, holder: Any = None) -> Event:
    """The event with free JSON in the metadata of a part of it that has more levels than JSON decoders accept."""
    fields = (event if holder is None else holder).metadata.fields
    for _ in range(40):
        fields = fields["a"].struct_value.fields
    fields["a"].number_value = 1
    return event


def nested_status(run: Run) -> Event:
    event = run.status("working", "x")
    return nested(event, event.status.message.parts[0])


def nested_artifact(run: Run) -> Event:
    event = run.artifact("x")
    return nested(event, event.artifact.parts[0])


def nested_task(run: Run) -> Event:
    return nested(hub.Task(id=run.task_id, status=hub.TaskStatus(state=WORKING)))


def nested_answer(run: Run) -> Event:
    return nested(run.reply("x"))


@pytest.mark.parametrize(
    "wrong",
    [
        said,
        stranger,
        elsewhere,
        nothing,
        stateless,
        restarted,
        nameless_piece,
        nested_status,
        nested_artifact,
        nested_task,
    ],
)
async def test_an_invalid_event_fails_the_task(wrong: Make, caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(yielding(working, wrong, completed))
    events = await talk.stream("x")
    assert shapes(events) == [("task", SUBMITTED), WORKING, FAILED]
    text = events[-1].status.message.parts[0].text
    assert text.startswith("the agent broke the protocol: ")
    assert (await talk.get(events[0].id)).status.state == FAILED
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    await talk.rest()


def foreign_task(run: Run) -> Event:
    return hub.Task(id="other", status=hub.TaskStatus(state=WORKING))


def task_of_another_context(run: Run) -> Event:
    return hub.Task(id=run.task_id, context_id="other")


def answer_to_a_task(run: Run) -> Event:
    message = run.reply("x")
    message.task_id = "other"
    return message


def answer_elsewhere(run: Run) -> Event:
    message = run.reply("x")
    message.context_id = "other"
    return message


def empty_answer(run: Run) -> Event:
    return run.reply()


@each(
    "wrong",
    [
        (foreign_task,),
        (task_of_another_context,),
        (answer_to_a_task,),
        (answer_elsewhere,),
        (empty_answer,),
        (nested_answer,),
        (nested_task,),
        (nothing,),
        (said, said),
        (said, working),
        (said, lambda run: run.start()),
        (),
    ],
)
@each("streaming", [True, False])
async def test_an_invalid_event_before_the_task_is_an_error_for_the_caller(
    wrong: tuple[Make, ...], streaming: bool
) -> None:
    talk = Talk(yielding(*wrong))
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        await (talk.stream("x") if streaming else talk.send("x"))
    assert (await talk.list()).total_size == 0
    await talk.rest()


@pytest.mark.parametrize("wrong", [answer_to_a_task, answer_elsewhere, empty_answer, nested_answer])
async def test_a_direct_executor_has_the_same_rules(wrong: Make) -> None:
    class Direct:
        async def reply(self, run: Run) -> Event:
            return wrong(run)

    agent = EchoAgent()
    agent.executor = Direct()
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        await Talk(agent).send("x")


async def test_a_direct_answer_that_names_its_run_is_no_answer_about_a_task() -> None:
    def answer(run: Run) -> Event:
        message = hub.Message(task_id=run.task_id, parts=[hub.Part(text="x")])
        message.metadata.update({"n": 7})
        return message

    message = await Talk(yielding(answer)).send("x", context_id="c")
    assert (message.task_id, message.context_id, message.role) == ("", "c", hub.ROLE_AGENT)
    assert message.message_id
    assert message.metadata["n"] == 7


async def test_events_after_the_end_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    went_on = False

    async def execute(run: Run) -> AsyncIterator[Event]:
        nonlocal went_on
        yield run.status("completed")
        went_on = True
        yield run.status("working")

    talk = Talk(agent_of(execute))
    task = await talk.send("x")
    assert task.status.state == COMPLETED
    await talk.close(grace=PATIENCE)
    assert went_on
    assert (await talk.get(task.id)).status.state == COMPLETED
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_code_after_the_last_event_still_runs() -> None:
    cleaned = asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("completed")
        cleaned.set()

    await Talk(agent_of(execute)).send("x")
    async with asyncio.timeout(PATIENCE):
        await cleaned.wait()


@pytest.mark.parametrize("state", ["submitted", "working"])
async def test_a_task_is_not_left_working(state: str) -> None:
    talk = Talk(yielding(lambda run: run.status(state)))
    task = await talk.send("x")
    assert task.status.state == FAILED
    assert task.status.message.parts[0].text == "the agent ended without finishing the task"


async def test_a_run_that_cancels_itself_fails_the_task() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        raise asyncio.CancelledError

    assert (await Talk(agent_of(execute)).send("x")).status.state == FAILED


async def test_a_run_may_have_timeouts_around_its_events() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        try:
            async with asyncio.timeout(0.001):
                yield run.status("working")
                await asyncio.Event().wait()
        except TimeoutError:
            yield run.status("completed", "out of time")

    task = await Talk(agent_of(execute)).send("x")
    assert (task.status.state, task.status.message.parts[0].text) == (COMPLETED, "out of time")


async def test_an_executor_without_yield_gets_a_clear_error(caplog: pytest.LogCaptureFixture) -> None:
    async def execute(run: Run) -> None:
        return None

    with rejected(Reason.INVALID_AGENT_RESPONSE):
        await Talk(agent_of(execute)).send("x")
    assert "async generator" in caplog.text


async def test_changing_an_event_after_it_was_yielded_changes_nothing() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        task = run.start()
        yield task
        task.metadata.update({"smuggled": True})
        update = run.status("working", "one")
        yield update
        update.status.message.parts[0].text = "two"
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    task, first, _ = await talk.stream("x")
    assert not task.HasField("metadata")
    assert first.status.message.parts[0].text == "one"
    assert (await talk.get(task.id)).history[-1].parts[0].text == "one"


async def test_a_snapshot_in_the_middle_is_merged() -> None:
    def snapshot(run: Run) -> Event:
        task = hub.Task(id=run.task_id, status=hub.TaskStatus(state=WORKING))
        task.artifacts.add(artifact_id="b").parts.add(text="new")
        task.metadata.update({"n": 1})
        return task

    talk = Talk(yielding(working, lambda run: run.artifact("old", artifact_id="a"), snapshot, completed))
    events = await talk.stream("x")
    assert shapes(events) == [("task", SUBMITTED), WORKING, "old", ("task", WORKING), COMPLETED]
    assert [one.artifact_id for one in events[3].artifacts] == ["a", "b"]
    assert [one.message_id for one in events[3].history] == ["m-1"]


@pytest.mark.parametrize("state", [COMPLETED, FAILED, CANCELED, INPUT])
async def test_the_first_task_may_be_at_rest_already(state: int) -> None:
    talk = Talk(yielding(lambda run: hub.Task(id=run.task_id, status=hub.TaskStatus(state=state))))
    assert (await talk.send("x")).status.state == state
    assert shapes(await talk.stream("x")) == [("task", state)]


async def test_a_failure_of_one_task_is_no_others() -> None:
    talk = Talk(ScriptedAgent())
    tasks = await asyncio.gather(
        *(talk.send("illegal" if number % 2 else "task", message_id=f"m{number}") for number in range(20))
    )
    assert [task.status.state for task in tasks] == [COMPLETED, FAILED] * 10


class Fickle(MemoryStore):
    """A store in which another process takes tasks over."""

    def __init__(self) -> None:
        super().__init__()
        self._writers: dict[str, MemoryWriter] = {}

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> MemoryWriter:
        self._writers[task_id] = super().create(scope, task_id, on_lost, push=push)
        return self._writers[task_id]

    async def meddle(self, task_id: str, state: hub.TaskState) -> None:
        lost = self._writers[task_id]
        lost.release()
        lost.lose()
        stored = await self.get(Scope(), task_id)
        assert isinstance(stored, Stored)
        writer = await self.open(Scope(), stored, lambda: None)
        event = hub.StreamResponse(status_update={"task_id": task_id, "status": {"state": state}})
        event.status_update.status.timestamp.CopyFrom(stored.task.status.timestamp)
        advance(stored.task, event.status_update)
        writer.append(event, stored.task)


async def test_a_task_changed_by_another_process_is_left_to_it() -> None:
    gate, store = Gate(), Fickle()

    talk = Talk(gated(gate), store=store)
    events = talk.events("x")
    task = await anext(events)
    await anext(events)
    await gate.reached()
    await store.meddle(task.id, CANCELED)
    gate.open()
    assert [shape(one) async for one in events] == [CANCELED]
    assert (await talk.get(task.id)).status.state == CANCELED
    await talk.rest()


async def test_the_stream_of_a_queued_message_ends_with_the_question_of_the_new_owner() -> None:
    gate, store = Gate(), Fickle()

    talk = Talk(gated(gate), store=store)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    events = talk.events("more", task_id=task.id, message_id="m-2")
    assert shape(await anext(events)) == ("task", WORKING)
    await store.meddle(task.id, INPUT)
    assert [shape(one) async for one in events] == [INPUT]
    gate.open()
    await talk.rest()


@pytest.mark.parametrize("state", [COMPLETED, CANCELED])
async def test_cancelling_a_task_that_ended_in_another_process(state: hub.TaskState) -> None:
    gate, store = Gate(), Fickle()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    talk = Talk(agent_of(execute), store=store)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    await store.meddle(task.id, state)
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    await talk.rest()


@pytest.mark.parametrize(("state", "reason"), [(COMPLETED, Reason.TASK_NOT_CANCELABLE), (CANCELED, None)])
async def test_a_task_that_ends_elsewhere_while_it_is_cancelled(
    state: hub.TaskState, reason: Reason | None
) -> None:
    gates = [Gate(), Gate()]
    store = Fickle()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gates[0].wait()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await gates[1].wait()
        yield run.status("canceled", "too late")

    talk = Talk(agent_of(execute, cancel), store=store)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gates[0].reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await gates[1].reached()
    await store.meddle(task.id, state)
    gates[1].open()
    if reason is None:
        assert not (await cancelling).status.HasField("message")
    else:
        with rejected(reason):
            await cancelling
    await talk.rest()


async def test_a_follow_up_to_a_task_that_ended_in_another_process() -> None:
    gate, store = Gate(), Fickle()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    talk = Talk(agent_of(execute), store=store)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    waiting = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    await store.meddle(task.id, COMPLETED)
    assert (await waiting).status.state == COMPLETED
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.send("more", task_id=task.id, message_id="m-3")
    await talk.rest()  # the run here has ended, although its gate was never opened
    assert [one.message_id for one in (await talk.get(task.id)).history] == ["m-1", "m-2"]


async def test_a_full_store_rejects_new_tasks_and_forgets_ended_ones() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(most=2))
    ended = [(await talk.send("task")).id for _ in range(3)]
    with rejected(Reason.TASK_NOT_FOUND):
        await talk.get(ended[0])
    assert (await talk.list()).total_size == 2
    for _ in range(2):
        await talk.send("input")
    for call in (talk.send("task"), talk.stream("task")):
        with rejected(Reason.RESOURCE_EXHAUSTED):
            await call
    assert (await talk.send("message x")).parts[0].text == "x"


async def test_an_id_that_is_taken_makes_no_task() -> None:
    class Taken(MemoryStore):
        def add(self, entry: Entry, task: hub.Task) -> None:
            """Adds nothing."""

    with rejected(Reason.UNAVAILABLE):  # with another id it may work
        await Talk(ScriptedAgent(), store=Taken()).send("task")
