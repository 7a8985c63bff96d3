"""CancelTask: which work is stopped, which callers are answered, and which tasks cannot be canceled."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.task_run import STOPPED_TEXT as STOPPED
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope
from tests.agents import ScriptedAgent
from tests.hosting.scene import (
    ALICE,
    BOB,
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
    shapes,
)
from tests.rejections import rejected


class Stuck:
    """An executor that works until something stops it."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.stopped = False
        self.run: Run | None = None

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.run = run
        yield run.status("working")
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise


async def started(talk: Talk, stuck: Stuck) -> hub.Task:
    task = await talk.send("x", configuration=IMMEDIATELY)
    await stuck.gate.reached()
    return task


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


async def test_a_running_task_is_stopped_and_canceled(stuck: Stuck) -> None:
    talk = Talk(agent_of(stuck.execute))
    events = talk.events("x")
    task = await anext(events)
    await stuck.gate.reached()
    canceled = await talk.cancel(task.id)
    assert (canceled.id, canceled.status.state) == (task.id, CANCELED)
    assert canceled.status.HasField("timestamp")
    assert stuck.stopped
    assert stuck.run is not None
    assert stuck.run.cancelled
    assert [shape(one) async for one in events] == [WORKING, CANCELED]
    assert await talk.get(task.id) == canceled
    await talk.rest()


async def test_a_blocked_sender_gets_the_canceled_task(stuck: Stuck) -> None:
    talk = Talk(agent_of(stuck.execute))
    sending = asyncio.create_task(talk.send("x"))
    await stuck.gate.reached()
    (task,) = (await talk.list()).tasks
    await talk.cancel(task.id)
    assert (await sending).status.state == CANCELED


async def test_a_task_that_waits_is_canceled_without_a_run() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    events = talk.subscribe(task.id)
    assert shape(await anext(events)) == ("task", INPUT)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    assert [shape(one) async for one in events] == [CANCELED]
    await talk.rest()


@pytest.mark.parametrize("text", ["task", "fail", "reject"])
async def test_ended_tasks_cannot_be_canceled(text: str) -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send(text)
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert await talk.get(task.id) == task


async def test_concurrent_cancellations_succeed_and_later_ones_do_not(stuck: Stuck) -> None:
    talk = Talk(agent_of(stuck.execute))
    task = await started(talk, stuck)
    answers = await asyncio.gather(*(talk.cancel(task.id) for _ in range(10)))
    assert {answer.status.state for answer in answers} == {CANCELED}
    assert len({answer.SerializeToString() for answer in answers}) == 1
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)


async def test_unknown_and_foreign_tasks_cannot_be_canceled(stuck: Stuck) -> None:
    talk = Talk(agent_of(stuck.execute))
    task = await talk.send("x", configuration=IMMEDIATELY, context=ALICE)
    for task_id, context in ((task.id, BOB), (task.id, None), ("none", ALICE)):
        with rejected(Reason.TASK_NOT_FOUND):
            await talk.cancel(task_id, context=context)
    assert (await talk.cancel(task.id, context=ALICE)).status.state == CANCELED


async def test_the_executors_cancel_speaks_first(stuck: Stuck) -> None:
    seen: list[Run] = []

    async def cancel(run: Run) -> AsyncIterator[Event]:
        seen.append(run)
        assert not stuck.stopped
        yield run.artifact("what there was", artifact_id="rest")
        yield run.status("canceled", "as you wish")

    talk = Talk(agent_of(stuck.execute, cancel))
    events = talk.events("x")
    task = await anext(events)
    await stuck.gate.reached()
    canceled = await talk.cancel(task.id, metadata={"why": "late"})
    assert canceled.status.message.parts[0].text == "as you wish"
    assert canceled.artifacts[0].artifact_id == "rest"
    assert stuck.stopped
    assert [shape(one) async for one in events] == [WORKING, "what there was", CANCELED]
    (run,) = seen
    assert (run.task_id, run.metadata["why"], run.text) == (task.id, "late", "")
    assert run.task is not None
    assert run.task.status.state == WORKING


async def test_an_executor_may_reject(stuck: Stuck) -> None:
    async def cancel(_: Run) -> AsyncIterator[Event]:
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield

    talk = Talk(agent_of(stuck.execute, cancel))
    task = await started(talk, stuck)
    for _ in range(2):
        with rejected(Reason.TASK_NOT_CANCELABLE):
            await talk.cancel(task.id)
    assert (await talk.get(task.id)).status.state == WORKING
    assert not stuck.stopped
    await talk.close()


async def polite(run: Run) -> AsyncIterator[Event]:
    yield run.status("working")
    await run.wait_cancelled()


async def test_a_run_that_ends_when_it_hears_of_the_cancellation_has_not_failed() -> None:
    async def cancel(run: Run) -> AsyncIterator[Event]:
        for _ in range(10):  # more than the run needs
            await asyncio.sleep(0)
        for event in ():
            yield run.status(event)

    for clean_up in (None, cancel):
        talk = Talk(agent_of(polite, clean_up))
        events = talk.events("x")
        task = await anext(events)
        further = asyncio.create_task(talk.send("more", task_id=task.id))
        assert shape(await anext(events)) == WORKING
        assert (await talk.cancel(task.id)).status.state == CANCELED
        assert [shape(one) async for one in events][-1] == CANCELED
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await further
        await talk.rest()


@pytest.mark.parametrize("how", ["return", "raise"])
async def test_a_run_that_ignores_its_cancellation_does_not_decide_the_outcome(
    how: str, stuck: Stuck
) -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        try:
            await stuck.gate.wait()
        except asyncio.CancelledError:
            if how == "raise":
                raise RuntimeError("aborted") from None

    for end in ("cancel", "close"):
        stuck.gate = Gate()
        talk = Talk(agent_of(execute))
        task = await started(talk, stuck)
        if end == "cancel":
            assert (await talk.cancel(task.id)).status.state == CANCELED
        await talk.close()
        stored = await talk.store.get(Scope(), task.id)
        assert stored is not None
        status = stored.task.status
        if end == "close":
            assert (status.state, status.message.parts[0].text) == (FAILED, STOPPED)
        else:
            assert status.state == CANCELED


async def test_a_cancellation_that_asks_and_then_rejects_answers_waiting_callers() -> None:
    async def cancel(run: Run) -> AsyncIterator[Event]:
        for _ in range(10):  # more than the run needs
            await asyncio.sleep(0)
        yield run.status("input-required", "really?")
        raise A2AError(Reason.TASK_NOT_CANCELABLE)

    talk = Talk(agent_of(polite, cancel))
    events = talk.events("x")
    task = await anext(events)
    assert shape(await anext(events)) == WORKING
    waiting = asyncio.create_task(talk.send("x", message_id="m-2"))
    async with asyncio.timeout(PATIENCE):
        while len((await talk.list(status=WORKING)).tasks) < 2:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    (other,) = [one.id for one in (await talk.list()).tasks if one.id != task.id]
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(other)
    assert (await waiting).status.state == INPUT
    await talk.close()


async def test_a_run_that_ends_for_a_cancellation_that_is_rejected_has_failed() -> None:
    async def cancel(run: Run) -> AsyncIterator[Event]:
        for _ in range(10):  # more than the run needs
            await asyncio.sleep(0)
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield run.status("canceled")

    talk = Talk(agent_of(polite, cancel))
    task = await talk.send("x", configuration=IMMEDIATELY)
    further = asyncio.create_task(talk.send("more", task_id=task.id))
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert (await talk.get(task.id)).status.state == FAILED
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await further
    await talk.rest()


class Rejecting:
    """Asks for input, at once or at a cancellation; rejects the cancellation when its gate opens."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        match run.text:
            case "work":
                yield run.status("working")
                await run.wait_cancelled()
                yield run.status("input-required")
            case "ask":
                yield run.status("input-required")
            case "give up":
                await run.wait_cancelled()
                raise asyncio.CancelledError
            case text:
                yield run.status("completed", text)

    async def cancel(self, _: Run) -> AsyncIterator[Event]:
        await self.gate.wait()
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield


@pytest.mark.parametrize("text", ["work", "ask"])
async def test_who_waits_has_its_turn_when_a_cancellation_is_rejected(text: str) -> None:
    agent = Rejecting()
    talk = Talk(agent_of(agent.execute, agent.cancel))
    task = await talk.send(text, configuration=IMMEDIATELY)
    further = []
    if text == "work":  # it is queued behind a run
        further.append(asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2")))
        await a_while()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await agent.gate.reached()
    further.append(asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-3")))
    await a_while()
    assert not any(one.done() for one in further)
    assert (await talk.get(task.id)).status.state == INPUT
    agent.gate.open()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await cancelling
    assert (await further[0]).status.state == COMPLETED
    for one in further[1:]:
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await one
    await talk.rest()


async def test_an_accepted_cancellation_answers_callers_that_came_meanwhile() -> None:
    gate = Gate()

    async def cancel(_: Run) -> AsyncIterator[Event]:
        await gate.wait()
        for event in ():
            yield event

    talk = Talk(agent_of(Rejecting().execute, cancel), idempotent_sends=True)
    task = await talk.send("ask")
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await gate.reached()
    further = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await a_while()
    gate.open()
    assert (await cancelling).status.state == CANCELED
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await further
    await talk.rest()
    assert talk.engine._idempotency is not None
    await a_while()
    assert talk.engine._idempotency._firsts == {}


async def test_a_run_that_breaks_off_for_a_cancellation_that_is_rejected_is_answered() -> None:
    agent = Rejecting()
    talk = Talk(agent_of(agent.execute, agent.cancel))
    task = await talk.send("ask")
    further = asyncio.create_task(talk.send("give up", task_id=task.id, message_id="m-2"))
    await a_while()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await agent.gate.reached()
    await a_while()
    agent.gate.open()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await cancelling
    async with asyncio.timeout(PATIENCE):
        assert (await further).status.state == INPUT
    await talk.rest()


async def a_while() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Foreign(BaseException):
    """As the exceptions with which other concurrency libraries cancel."""


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, Foreign])
async def test_a_cancel_that_crashes_cancels_all_the_same(
    error: type[BaseException], caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    async def cancel(_: Run) -> AsyncIterator[Event]:
        raise error("a secret of the agent")
        yield

    talk = Talk(agent_of(stuck.execute, cancel))
    task = await started(talk, stuck)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    assert stuck.stopped
    assert "a secret of the agent" in caplog.text


async def test_a_cancel_that_comes_after_the_end_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    canceling, ended = Gate(), Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await canceling.wait()
        yield run.status("completed")
        ended.open()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        canceling.open()
        await ended.wait()
        yield run.status("canceled")

    talk = Talk(agent_of(execute, cancel))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await canceling.reached()
    with caplog.at_level(logging.DEBUG, "a2a_bridge.hosting"), rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert (await talk.get(task.id)).status.state == COMPLETED
    assert [one.levelno for one in caplog.records if task.id in one.getMessage()] == [logging.DEBUG]


@pytest.mark.parametrize("wrong", [lambda _run, _queue: None, lambda _run: None])
async def test_a_cancel_that_is_none_cancels_all_the_same(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One `cancel` that cannot be called in this way, and one that yields nothing."""
    stuck = Stuck()
    agent = agent_of(stuck.execute)
    agent.executor.cancel = wrong  # type: ignore[attr-defined]
    talk = Talk(agent)
    task = await started(talk, stuck)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    assert stuck.stopped
    assert "the executor's cancel failed" in caplog.text


async def test_a_run_that_the_cancellation_breaks_off_is_canceled() -> None:
    gate, connection = Gate(), asyncio.get_running_loop().create_future()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        gate.open()
        await connection

    async def cancel(run: Run) -> AsyncIterator[Event]:
        connection.set_exception(ConnectionError("closed"))
        while talk.engine._runs.get(Scope("", ""), run.task_id).producer is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        yield run.artifact("cleaned up")

    talk = Talk(agent_of(execute, cancel))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.wait()
    async with asyncio.timeout(PATIENCE):
        assert (await talk.cancel(task.id)).status.state == CANCELED


async def test_a_task_that_completes_first_was_not_canceled() -> None:
    gate, completed = Gate(), asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()
        yield run.status("completed")
        completed.set()

    async def cancel(_: Run) -> AsyncIterator[Event]:
        gate.open()
        await completed.wait()
        for event in ():
            yield event

    talk = Talk(agent_of(execute, cancel))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert (await talk.get(task.id)).status.state == COMPLETED


async def test_an_executor_may_end_the_task_itself_when_it_is_cancelled() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await run.wait_cancelled()
        yield run.status("canceled", "I stopped")

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await asyncio.sleep(0)  # `execute` has its turn
        await asyncio.sleep(0)
        for event in ():
            yield event

    talk = Talk(agent_of(execute, cancel))
    events = talk.events("x")
    task = await anext(events)
    assert shape(await anext(events)) == WORKING
    canceled = await talk.cancel(task.id)
    assert canceled.status.message.parts[0].text == "I stopped"
    assert shapes([one async for one in events]) == [CANCELED]


async def test_an_executor_that_does_not_stop_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    stop, deaf = asyncio.Event(), asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                deaf.set()
        yield run.status("completed")

    talk = Talk(agent_of(execute), patience=0.01)
    events = talk.events("x")
    task = await anext(events)
    await anext(events)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    assert deaf.is_set()
    assert [shape(one) async for one in events] == [CANCELED]
    stop.set()
    await talk.close(PATIENCE)
    assert (await talk.get(task.id)).status.state == CANCELED
    assert len(caplog.records) == 2  # that it ignores cancellation, and that its later events are dropped


async def test_messages_that_wait_for_a_canceled_task_are_rejected(stuck: Stuck) -> None:
    talk = Talk(agent_of(stuck.execute))
    task = await started(talk, stuck)
    waiting = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await asyncio.sleep(0)
    await talk.cancel(task.id)
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await waiting


async def test_a_canceller_that_goes_away_has_cancelled() -> None:
    gate, stuck = Gate(), Stuck()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await gate.wait()
        yield run.status("canceled")

    talk = Talk(agent_of(stuck.execute, cancel))
    task = await started(talk, stuck)
    events = talk.subscribe(task.id)
    await anext(events)
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await gate.reached()
    cancelling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelling
    gate.open()
    assert shapes([one async for one in events]) == [CANCELED]


async def test_a_canceled_task_takes_no_more_artifacts() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        try:
            await gate.wait()
        finally:
            # Against the rules, and without effect: the generator is being closed.
            gate.open()

    talk = Talk(agent_of(execute))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    assert len((await talk.cancel(task.id)).artifacts) == 0
