"""Tasks whose process has died: taken over, resumed or failed, and none of them twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Event, Run, replicas
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.agents import ScriptedAgent
from tests.hosting.late import LateStore, out_of_order
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
    Plays,
    Talk,
    agent_of,
    shape,
    shapes,
)
from tests.rejections import rejected

LEFT_BEHIND = "the agent's process ended before it finished the task"


class Lasting:
    """Works until its gate opens; it can resume."""

    def __init__(self, first: Any = "working", *, follow: bool = False) -> None:
        self.gate = Gate()
        self.first = first
        self.resumed: list[Run] = []
        self.executed: list[str] = []
        self._follow = follow

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.executed.append(run.text)
        if self._follow and run.task is not None:
            await self.gate.wait()
        yield run.artifact("half", artifact_id="a", last=False)
        yield run.status(self.first)
        if not self._follow:
            await self.gate.wait()
            yield run.status("completed")

    async def resume(self, run: Run) -> AsyncIterator[Event]:
        self.resumed.append(run)
        yield run.artifact("whole", artifact_id="a", append=True)
        yield run.status("completed")


def agent_with(executor: Any) -> Agent:
    return Agent(executor, name="test", push_notifications=True)


class OnlyExecutes:
    """An executor without `resume`."""

    def __init__(self, lasting: Lasting) -> None:
        self.execute = lasting.execute


class Unstoppable(Lasting):
    """It rejects to be canceled."""

    async def cancel(self, _: Run) -> AsyncIterator[Event]:
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield


async def killed(lasting: Lasting, store: LateStore, *, resumes: bool, **members: Any) -> hub.Task:
    """A task that was working when its process died."""
    store.open_door = True
    talk = Talk(agent_with(lasting if resumes else OnlyExecutes(lasting)), store=store)
    task: hub.Task = await talk.send("x", configuration=IMMEDIATELY, **members)
    await lasting.gate.reached()
    store.die()
    return task


@pytest.fixture
def store() -> LateStore:
    return LateStore()


@pytest.fixture
def lasting() -> Lasting:
    return Lasting()


async def test_a_task_that_was_left_at_work_fails(store: LateStore, lasting: Lasting) -> None:
    task = await killed(lasting, store, resumes=False)
    talk = Talk(ScriptedAgent(), store=store)
    assert (await talk.get(task.id)).status.state == WORKING
    await talk.engine.start()
    await talk.engine.wait_recovered()
    failed = await talk.get(task.id)
    assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, LEFT_BEHIND)
    assert failed.artifacts[0].parts[0].text == "half"
    await talk.rest()
    await talk.close()
    lasting.gate.open()


async def test_an_executor_with_resume_continues(store: LateStore, lasting: Lasting) -> None:
    ann = CallContext(tenant="acme", principal=Principal("ann"))
    task = await killed(lasting, store, resumes=True, context=ann)
    later = Lasting()
    talk = Talk(agent_with(later), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    done = await talk.get(task.id, context=ann)
    assert done.status.state == COMPLETED
    assert [part.text for part in done.artifacts[0].parts] == ["half", "whole"]
    (run,) = later.resumed
    assert run.task is not None
    assert (run.task.status.state, run.task_id, run.context_id) == (WORKING, task.id, task.context_id)
    assert (run.text, run.context.tenant, run.context.principal and run.context.principal.name) == (
        "x",
        "acme",
        "ann",
    )
    assert later.executed == []
    await talk.close()
    lasting.gate.open()


async def test_events_continue_after_the_last_number(store: LateStore, lasting: Lasting) -> None:
    task = await killed(lasting, store, resumes=True)
    reader = store.subscribe(task.id, 0)
    talk = Talk(agent_with(Lasting()), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    seen = []
    async with asyncio.timeout(PATIENCE):
        while events := await reader.take():
            seen += [shape(getattr(one, one.WhichOneof("payload"))) for one in events]
    assert seen == [("task", hub.TASK_STATE_SUBMITTED), "half", WORKING, "whole", COMPLETED]
    await talk.close()
    lasting.gate.open()


async def test_a_task_that_waits_for_its_user_keeps_waiting(store: LateStore) -> None:
    lasting = Lasting("input-required")
    task = await killed(lasting, store, resumes=False)
    talk = Talk(ScriptedAgent(), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    assert (await talk.get(task.id)).status.state == INPUT
    assert await store.orphans(9) == []
    assert (await talk.send("go on", task_id=task.id, message_id="m-2")).status.state == COMPLETED
    await talk.close()
    lasting.gate.open()


async def test_a_sign_in_that_is_awaited_is_awaited_again(store: LateStore) -> None:
    lasting = Lasting("auth-required")
    task = await killed(lasting, store, resumes=True)
    assert (await Talk(ScriptedAgent(), store=store).get(task.id)).status.state == AUTH
    talk = Talk(agent_with(Lasting()), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    assert (await talk.get(task.id)).status.state == COMPLETED
    await talk.close()
    lasting.gate.open()


async def test_a_message_that_was_accepted_and_not_read_is_not_lost(store: LateStore) -> None:
    store.open_door = True
    lasting = Lasting("input-required", follow=True)
    talk = Talk(agent_with(lasting), store=store)
    task = await talk.send("one")
    await talk.rest()
    await talk.send("two", task_id=task.id, message_id="m-2", configuration=IMMEDIATELY)
    await lasting.gate.reached()
    store.die()
    later = Lasting()
    talk = Talk(agent_with(later), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    assert [run.text for run in later.resumed] == ["two"]
    assert (await talk.get(task.id)).status.state == COMPLETED
    await talk.close()
    lasting.gate.open()


async def test_tasks_that_die_later_are_taken_over_on_notification(
    store: LateStore, lasting: Lasting
) -> None:
    talk = Talk(agent_with(Lasting()), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    task = await killed(lasting, store, resumes=True)
    async with asyncio.timeout(PATIENCE):
        while (await talk.get(task.id)).status.state != COMPLETED:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    await talk.close()
    lasting.gate.open()


@pytest.mark.parametrize("resumes", [True, False])
async def test_a_message_to_a_task_that_was_left_takes_it_up_first(
    store: LateStore, resumes: bool, lasting: Lasting
) -> None:
    task = await killed(lasting, store, resumes=resumes)
    later = Lasting()
    talk = Talk(agent_with(later if resumes else OnlyExecutes(later)), store=store)
    with rejected(Reason.UNSUPPORTED_OPERATION):  # because it has ended before its turn
        await talk.send("more", task_id=task.id, message_id="m-2")
    assert (await talk.get(task.id)).status.state == (COMPLETED if resumes else FAILED)
    assert (len(later.resumed), later.executed) == (int(resumes), [])
    await talk.close()
    lasting.gate.open()


async def test_a_task_that_was_left_can_be_canceled(store: LateStore, lasting: Lasting) -> None:
    task = await killed(lasting, store, resumes=True)
    later = Lasting()
    talk = Talk(agent_with(later), store=store)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert later.resumed == []
    await talk.close()
    lasting.gate.open()


@pytest.mark.parametrize("resumes", [True, False])
async def test_an_orphaned_task_is_taken_over_by_the_next_call(store: LateStore, resumes: bool) -> None:
    """It is not an orphan any more once it was held, so its release must not leave it as it is."""
    lasting, later = Lasting(), Unstoppable()
    for attempt in ("message", "cancel", "departure"):
        task = await killed(lasting, store, resumes=resumes)
        talk = Talk(agent_with(later if resumes else Plays(later.execute, later.cancel)), store=store)
        match attempt:
            case "message":
                with rejected(Reason.INVALID_PARAMS, "message.contextId"):
                    await talk.send("more", task_id=task.id, message_id="m-2", context_id="another")
            case "cancel":
                with rejected(Reason.TASK_NOT_CANCELABLE):
                    await talk.cancel(task.id)
            case _:
                sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
                async with asyncio.timeout(PATIENCE):
                    while not talk.engine.live:  # noqa: ASYNC110  there is no notification
                        await asyncio.sleep(0)
                sending.cancel()
        await talk.rest()
        assert (await talk.get(task.id)).status.state == (COMPLETED if resumes else FAILED), attempt
        await talk.close()
    lasting.gate.open()


@pytest.mark.parametrize("resumes", [True, False])
async def test_a_message_waits_until_it_is_known_whether_a_task_that_was_left_is_canceled(
    store: LateStore, resumes: bool
) -> None:
    asked = Gate()

    async def cancel(_: Run) -> AsyncIterator[Event]:
        await asked.wait()
        raise A2AError(Reason.TASK_NOT_CANCELABLE)
        yield

    lasting, later = Lasting(), Lasting()
    task = await killed(lasting, store, resumes=resumes)
    later.cancel = cancel
    talk = Talk(agent_with(later if resumes else Plays(later.execute, cancel)), store=store)
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await asked.reached()
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    for _ in range(30):
        await asyncio.sleep(0)
    assert [one.message_id for one in (await talk.get(task.id)).history] == ["m-1"]
    asked.open()
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await cancelling
    with rejected(Reason.UNSUPPORTED_OPERATION):  # it has ended before its turn
        await sending
    assert (await talk.get(task.id)).status.state == (COMPLETED if resumes else FAILED)
    await talk.close()
    lasting.gate.open()


async def test_a_task_acquired_while_the_engine_closes_stays_an_orphan(
    store: LateStore, lasting: Lasting
) -> None:
    task = await killed(lasting, store, resumes=False)
    talk = Talk(ScriptedAgent(), store=store)
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    async with asyncio.timeout(PATIENCE):
        while not talk.engine.live:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    await talk.close()
    with rejected(Reason.UNAVAILABLE):
        await sending
    store.die()
    talk = Talk(ScriptedAgent(), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert (await talk.get(task.id)).status.state == FAILED
    await talk.close()
    lasting.gate.open()


async def test_a_graceful_stop_hands_over(store: LateStore) -> None:
    store.open_door = True
    lasting = Lasting()
    talk = Talk(agent_with(lasting), store=store)
    events = talk.events("x")
    task = await anext(events)
    await lasting.gate.reached()
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    for _ in range(20):
        await asyncio.sleep(0)
    await talk.close()
    assert shapes([await anext(events), await anext(events)]) == ["half", WORKING]
    with rejected(Reason.UNAVAILABLE):
        await anext(events)
    with rejected(Reason.UNAVAILABLE):
        await sending
    assert (await talk.get(task.id)).status.state == WORKING
    store.die()
    later = Lasting()
    talk = Talk(agent_with(later), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    await talk.rest()
    assert [run.text for run in later.resumed] == ["more"]  # the newest event of the task
    assert (await talk.get(task.id)).status.state == COMPLETED
    await talk.close()


async def test_events_of_an_uncancellable_executor_are_dropped_after_the_hand_over(store: LateStore) -> None:
    store.open_door = True
    stop, gate = asyncio.Event(), Gate()

    class Deaf(Lasting):
        async def execute(self, run: Run) -> AsyncIterator[Event]:
            yield run.status("working")
            while not stop.is_set():
                try:
                    await gate.wait()
                    await stop.wait()
                except asyncio.CancelledError:
                    gate.open()
            yield run.status("completed", "not heard")

    talk = Talk(agent_with(Deaf()), store=store, patience=0.01)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    await talk.close()
    stop.set()
    await talk.rest()
    assert (await talk.get(task.id)).status.state == WORKING


async def test_a_store_that_keeps_nothing_hands_nothing_over(lasting: Lasting) -> None:
    talk = Talk(agent_with(lasting))
    await talk.engine.start()
    await talk.engine.wait_recovered()
    task = await talk.send("x", configuration=IMMEDIATELY)
    await lasting.gate.reached()
    await talk.close()
    assert (await talk.get(task.id)).status.state == FAILED


async def test_many_are_taken_over_at_once(store: LateStore) -> None:
    store.open_door = True
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    first = Talk(agent_of(execute), store=store)
    for number in range(200):
        await first.send("x", message_id=f"m{number}", configuration=IMMEDIATELY)
    await gate.reached()
    store.die()
    talk = Talk(ScriptedAgent(), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert (await talk.list(status=FAILED)).total_size == 200
    await talk.close()
    gate.open()
    await first.rest()


async def _many_killed(store: LateStore, count: int) -> list[str]:
    """Tasks of a dead process, the newest first."""
    store.open_door = True
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    talk = Talk(agent_of(execute), store=store)
    for number in range(count):
        await talk.send("x", message_id=f"m{number}", configuration=IMMEDIATELY)
    await gate.reached()
    store.die()
    gate.open()
    await talk.rest()
    return [task_id for _, task_id in await store.orphans(count)]


async def test_tasks_that_fail_are_read_and_written_together(
    store: LateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = await _many_killed(store, 40)
    calls: list[Any] = []
    get_many, open_ = store.get_many, store.open

    async def counted(tasks: Any, /) -> Any:
        calls.append([task_id for _, task_id in tasks])
        return await get_many(tasks)

    async def opened(scope: Any, stored: Any, *arguments: Any, **named: Any) -> Any:
        assert named["wait"] is False
        return await open_(scope, stored, *arguments, **named)

    talk = Talk(ScriptedAgent(), store=store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "get_many", counted)
        patch.setattr(store, "open", opened)
        await talk.engine.start()
        await talk.engine.wait_recovered()
    assert ([task_id for batch in calls for task_id in batch], len(calls)) == (newest, 1)
    assert (await talk.list(status=FAILED)).total_size == 40
    await talk.close()


@pytest.mark.parametrize("trouble", ["damaged", "defect"])
async def test_tasks_that_cannot_be_taken_over_hold_up_no_others(
    store: LateStore, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Also if they are more than one query of orphans gives."""
    monkeypatch.setattr(replicas, "_PORTION", 5)
    monkeypatch.setattr(replicas, "_READ", 3)
    monkeypatch.setattr(replicas, "_WRITTEN", 2)
    newest = await _many_killed(store, 20)
    bad = set(newest[:12])
    get_many, open_ = store.get_many, store.open

    async def damaged(tasks: Any, /) -> Any:
        return [None if one and one.task.id in bad else one for one in await get_many(tasks)]

    async def broken(scope: Any, stored: Any, *arguments: Any, **named: Any) -> Any:
        if stored.task.id in bad:
            raise ZeroDivisionError
        return await open_(scope, stored, *arguments, **named)

    if trouble == "damaged":
        monkeypatch.setattr(store, "get_many", damaged)
    else:
        monkeypatch.setattr(store, "open", broken)
    talk = Talk(ScriptedAgent(), store=store)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert {task_id for _, task_id in await store.orphans(100)} == bad
    assert (await talk.list(status=FAILED)).total_size == 8
    await talk.close()


async def test_calls_do_not_wait_for_pending_takeovers(
    store: LateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest tasks come first; a stop in the middle leaves the rest."""
    monkeypatch.setattr(replicas, "_WRITTEN", 8)
    store.open_door = True
    gate, slow = Gate(), asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    first = Talk(agent_of(execute), store=store)
    for number in range(100):
        await first.send("x", message_id=f"m{number}", configuration=IMMEDIATELY)
    await gate.reached()
    store.die()
    newest = [task_id for _, task_id in await store.orphans(100)]
    talk = Talk(ScriptedAgent(), store=store)
    opened: list[str] = []
    open_ = store.open

    async def late(scope: Any, stored: Any, *arguments: Any, **named: Any) -> Any:
        opened.append(stored.task.id)
        if stored.task.id in newest[:40]:
            await slow.wait()
        return await open_(scope, stored, *arguments, **named)

    monkeypatch.setattr(store, "open", late)
    await talk.engine.start()
    async with asyncio.timeout(PATIENCE):
        while len(opened) < 8:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert opened == newest[:8]
    assert talk.engine.left == 100
    # Of the waiting ones, one is read, one is canceled, and one gets a message.
    waiting = newest[50:53]
    assert (await talk.get(waiting[0])).status.state == WORKING
    assert (await talk.cancel(waiting[1])).status.state == CANCELED
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.send("more", task_id=waiting[2], message_id="m-2")
    assert (await talk.get(waiting[2])).status.state == FAILED
    assert (await talk.send("task new")).status.state == COMPLETED
    slow.set()
    await talk.close()
    assert talk.engine.left == 0
    # Tasks whose takeover has not begun are still orphans, for the next process.
    left = {task_id for _, task_id in await store.orphans(100)}
    assert left >= set(newest[53:])
    monkeypatch.undo()
    last = Talk(ScriptedAgent(), store=store)
    await last.engine.start()
    await last.engine.wait_recovered()
    assert (await last.list(status=FAILED)).total_size == 99
    await last.close()
    gate.open()
    await first.rest()


async def test_a_store_that_breaks_is_tried_again(store: LateStore, lasting: Lasting) -> None:
    task = await killed(lasting, store, resumes=False)
    talk = Talk(ScriptedAgent(), store=store)
    store.fail()
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert (await talk.get(task.id)).status.state == WORKING
    store.error = None
    assert await talk.engine._recovery._round()
    assert (await talk.get(task.id)).status.state == FAILED
    await talk.close()
    lasting.gate.open()


async def test_a_take_over_that_took_too_long_is_tried_again(
    store: LateStore, monkeypatch: pytest.MonkeyPatch, lasting: Lasting
) -> None:
    task = await killed(lasting, store, resumes=False)
    talk = Talk(ScriptedAgent(), store=store)
    with monkeypatch.context() as patch:

        async def late(*_: Any, **__: Any) -> Any:
            raise out_of_order()

        async def broken(_: Any, /) -> Any:
            raise ZeroDivisionError

        patch.setattr(store, "open", late)  # and yet it does not reject
        assert not await talk.engine._recovery._round()
        patch.setattr(store, "get_many", broken)
        assert not await talk.engine._recovery._round()
    assert await talk.engine._recovery._round()
    assert (await talk.get(task.id)).status.state == FAILED
    await talk.close()
    lasting.gate.open()
