"""Nothing is shown before its commit, and a message that the store cannot take is not accepted."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope
from a2a_bridge.testing.store_scene import Author
from tests.agents import ScriptedAgent
from tests.hosting.late import LateStore
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


@pytest.fixture
def store() -> LateStore:
    return LateStore()


async def held_back(store: LateStore, call: Coroutine[Any, Any, Any]) -> Any:
    """A call that must not be answered before the store commits."""
    calling = asyncio.create_task(call)
    while not calling.done():
        await store.given()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not calling.done()
        store.commit()
        for _ in range(20):
            await asyncio.sleep(0)
    return await calling


async def started(store: LateStore, talk: Talk, text: str) -> hub.Task:
    store.open_door = True
    task: hub.Task = await talk.send(text)
    await talk.rest()
    store.open_door = False
    return task


async def test_an_answer_waits(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    assert (await held_back(store, talk.send("task x"))).status.state == COMPLETED
    assert (await held_back(store, talk.send("input"))).status.state == INPUT
    first = await held_back(store, talk.send("task x", configuration=IMMEDIATELY))
    assert first.status.state == SUBMITTED


async def test_a_run_waits_for_no_write(store: LateStore) -> None:
    ended = asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        for number in range(100):
            yield run.artifact(str(number), artifact_id="a", append=True)
        yield run.status("completed")
        ended.set()

    sending = asyncio.create_task(Talk(agent_of(execute), store=store).send("x"))
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    assert len(store.writers[0].given) == 103
    assert not sending.done()
    store.commit()
    assert len((await sending).artifacts[0].parts) == 100


async def test_a_stream_waits(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    events = talk.events("task x")
    assert shape(await held_back(store, anext(events))) == ("task", SUBMITTED)
    assert shapes([one async for one in events]) == [WORKING, "x", COMPLETED]


async def test_a_reader_of_the_live_task_waits(store: LateStore) -> None:
    gates = [Gate(), Gate()]

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gates[0].wait()
        yield run.artifact("x")
        await gates[1].wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute), store=store)
    task = await held_back(store, talk.send("x", configuration=IMMEDIATELY))
    await gates[0].reached()
    store.commit()
    assert (await talk.get(task.id)).status.state == WORKING
    gates[0].open()
    await gates[1].reached()
    # Lists come from the store, which does not have the artifact yet.
    assert not (await talk.list(include_artifacts=True)).tasks[0].artifacts
    for call in (talk.get(task.id), anext(talk.subscribe(task.id))):
        reading = asyncio.create_task(call)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reading.done()
        store.commit()
        assert len((await reading).artifacts) == 1
        store.writers[0].amend(store.writers[0]._writer._entry.read())  # a new change is pending
    gates[1].open()
    store.open_door = True
    store.commit()
    await talk.rest()


async def test_a_cancellation_waits(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    task = await started(store, talk, "input")
    assert (await held_back(store, talk.cancel(task.id))).status.state == CANCELED


async def test_a_rejection_that_tells_of_an_end_waits(store: LateStore) -> None:
    gate = Gate()

    talk = Talk(gated(gate), store=store)
    store.open_door = True
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    store.open_door = False
    second = asyncio.create_task(talk.send("queued", task_id=task.id, message_id="m-2"))
    await store.given()
    store.commit()
    gate.open()
    await store.given()
    late = (talk.send("late", task_id=task.id, message_id="m-3"), talk.cancel(task.id))
    calls = [second, *(asyncio.create_task(call) for call in late)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not [one for one in calls if one.done()]
    store.commit()
    for call, reason in zip(
        calls, [Reason.UNSUPPORTED_OPERATION] * 2 + [Reason.TASK_NOT_CANCELABLE], strict=True
    ):
        with rejected(reason):
            await call


async def test_a_follow_up_counts_when_it_is_stored(store: LateStore) -> None:
    runs = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        runs.append(run.text)
        yield run.status("input-required", "well?")

    talk = Talk(agent_of(execute), store=store)
    task = await started(store, talk, "one")
    sending = asyncio.create_task(talk.send("two", task_id=task.id, message_id="m-2"))
    await store.given()
    for _ in range(20):
        await asyncio.sleep(0)
    assert runs == ["one"]
    store.open_door = True
    store.commit()
    assert [one.message_id for one in (await sending).history][::2] == ["m-1", "m-2"]
    assert runs == ["one", "two"]


@pytest.mark.parametrize("how", ["fails", "leaves"])
async def test_a_follow_up_that_is_not_stored_was_never_there(store: LateStore, how: str) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    task = await started(store, talk, "input which?")
    sending = asyncio.create_task(talk.send("blue", task_id=task.id, message_id="m-2"))
    await store.given()
    if how == "fails":
        store.fail()
        with rejected(Reason.UNAVAILABLE):
            await sending
        store.error = None
    else:
        sending.cancel()
        await asyncio.wait({sending})
    store.open_door = True
    store.commit()
    await talk.rest()
    assert await talk.get(task.id) == task
    done = await talk.send("green", task_id=task.id, message_id="m-3")
    assert [one.message_id for one in done.history] == ["m-1", "re-m-1", "m-3"]


async def test_a_task_is_live_until_the_store_has_it(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    sending = asyncio.create_task(talk.send("input"))
    await store.given()
    for _ in range(20):
        await asyncio.sleep(0)
    assert talk.engine.live == 1
    store.commit()
    task = await sending
    await talk.rest()
    store.open_door = True
    assert (await talk.send("x", task_id=task.id, message_id="m-2")).status.state == COMPLETED


async def test_a_store_that_does_not_work_takes_no_work_and_is_read(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    waiting = await started(store, talk, "input")
    done = await started(store, talk, "task")
    store.fail()
    for call in (
        talk.send("task"),
        talk.stream("task"),
        talk.send("x", task_id=waiting.id, message_id="m-2"),
        talk.cancel(waiting.id),
    ):
        with rejected(Reason.UNAVAILABLE) as caught:
            await call
        assert caught.value.retry_after == 1.0
    assert await talk.get(done.id) == done
    assert (await talk.list()).total_size == 2
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(done.id)
    store.error = None
    store.open_door = True
    assert (await talk.send("x", task_id=waiting.id, message_id="m-2")).status.state == COMPLETED


async def in_mid_work(store: LateStore) -> tuple[Talk, Gate, asyncio.Task[Any]]:
    """An agent that continues when its gate opens, and a caller that waits for it."""
    gate = Gate()

    talk = Talk(gated(gate), store=store)
    store.open_door = True
    sending = asyncio.create_task(talk.send("x"))
    await gate.reached()
    return talk, gate, sending


async def test_callers_that_wait_for_a_failing_store_get_an_error(store: LateStore) -> None:
    talk, gate, sending = await in_mid_work(store)
    (task,) = (await talk.list()).tasks
    store.open_door = False
    gate.open()
    await store.given()
    for _ in range(20):
        await asyncio.sleep(0)
    store.fail()
    with rejected(Reason.UNAVAILABLE):
        await sending
    # Durable content can be read; other content is not shown.
    assert (await talk.get(task.id)).status.state == WORKING
    assert talk.engine.live == 1
    store.error = None
    store.commit()
    assert (await talk.get(task.id)).status.state == COMPLETED
    await talk.close()


async def ended(run: TaskRun) -> None:
    """Waits until no executor works on the task."""
    async with asyncio.timeout(PATIENCE):
        while run.producer is not None:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)


async def test_a_run_that_waited_for_its_store_and_went_on_waits_again(store: LateStore) -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.text == "more":
            await gate.wait()
        yield run.status("input-required")

    talk = Talk(agent_of(execute), store=store)
    first = asyncio.create_task(talk.send("x"))
    await store.given()
    [run] = talk.engine.runs
    await ended(run)
    second = asyncio.create_task(talk.send("more", task_id=run.task_id))
    async with asyncio.timeout(PATIENCE):
        while len(run.live.task.history) < 2:  # type: ignore[union-attr]  # noqa: ASYNC110
            await asyncio.sleep(0)
    store.commit()
    await first
    await gate.reached()
    gate.open()
    await ended(run)
    assert (run.lease.pending, talk.engine.live) == (True, 1)
    store.commit()
    assert (await second).status.state == INPUT
    await talk.rest()
    await talk.close()


async def test_closing_waits_for_the_store(store: LateStore) -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()

    talk = Talk(agent_of(execute), store=store)
    store.open_door = True
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    store.open_door = False
    await held_back(store, talk.close())
    stored = await store.get(Scope(), task.id)
    assert stored is not None
    assert stored.task.status.state == FAILED


async def test_closing_does_not_wait_for_ever(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store, patience=0.05)
    sending = asyncio.create_task(talk.send("task"))
    await store.given()
    await talk.close()
    store.commit()
    assert (await sending).status.state == COMPLETED


async def test_a_hold_that_is_lost_while_answers_wait(store: LateStore) -> None:
    talk, gate, sending = await in_mid_work(store)
    store.open_door = False
    gate.open()
    await store.given()
    for _ in range(20):
        await asyncio.sleep(0)
    (task,) = (await talk.list()).tasks
    store.writers[0].lose()
    # Changes that were not written are not shown: the answer is the result of the new owner.
    store.open_door = True
    author = await Author(store, Scope()).reopen(task.id)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not sending.done()
    author.status(FAILED)
    assert (await sending).status.state == FAILED
    await talk.rest()


async def test_a_task_that_is_lost_before_it_was_stored_may_be_begun_again(store: LateStore) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    sending = asyncio.create_task(talk.send("task x"))
    await store.given()
    store.writers[0].lose()
    with rejected(Reason.UNAVAILABLE):
        await sending
    await talk.close()


@pytest.mark.parametrize("wish", ["outcome", "task"])
async def test_a_message_that_is_let_in_while_its_task_is_canceled_is_answered(
    store: LateStore, wish: str
) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    task = await started(store, talk, "input")
    members = {"configuration": IMMEDIATELY} if wish == "task" else {}
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2", **members))
    await store.given()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await _a_while()
    store.open_door = True
    store.commit()
    assert (await cancelling).status.state == CANCELED
    if wish == "task":
        assert (await sending).status.state == CANCELED
    else:
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await sending
    await talk.rest()


async def test_a_message_that_is_let_in_while_its_task_ends_and_is_lost_is_rejected(
    store: LateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    task = await started(store, talk, "input")
    gate = Gate()

    async def put(*_: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(store.push_configs, "put", put)
    config = hub.TaskPushNotificationConfig(url="https://hook.example/")
    hooked = hub.SendMessageConfiguration(task_push_notification_config=config)
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2", configuration=hooked))
    await gate.reached()
    cancelling = asyncio.create_task(talk.cancel(task.id))
    await store.given()
    await _a_while()
    store.writers[-1].lose()
    gate.open()
    for call in (sending, cancelling):  # the task has not ended: its new owner may cancel it
        with rejected(Reason.UNAVAILABLE):
            await call
    await talk.rest()


@pytest.mark.parametrize("text", ["input", "auth"])
async def test_a_message_that_is_let_in_while_the_engine_closes_is_answered(
    store: LateStore, text: str
) -> None:
    talk = Talk(ScriptedAgent(), store=store)
    task = await started(store, talk, text)
    sending = asyncio.create_task(talk.send("more", task_id=task.id, message_id="m-2"))
    await store.given()
    closing = asyncio.create_task(talk.close())
    await _a_while()
    store.open_door = True
    store.commit()
    await closing
    with rejected(Reason.UNAVAILABLE):
        await sending
    await talk.rest()


async def _a_while() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
