"""A task that one engine works on, and calls about it at another engine on the same database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.stores import StoreOptions, open_store
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    WORKING,
    Gate,
    Talk,
    agent_of,
    request,
    shapes,
)
from tests.rejections import rejected
from tests.replicas.conftest import LEASE, PATIENCE, until


@pytest.fixture(params=["postgresql", "nats"])
async def beside(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Creates engines side by side, each with a store of its own on one database, without and with NATS."""
    cluster = request.getfixturevalue("nats").url if request.param == "nats" else ""
    async with AsyncExitStack() as stack:

        async def make(agent: Agent, **options: Any) -> Talk:
            talk = await stack.enter_async_context(_talking(postgres_url, cluster, agent, options))
            await talk.engine.start()
            return talk

        yield make


@asynccontextmanager
async def _talking(url: str, cluster: str, agent: Agent, options: dict[str, Any]) -> AsyncIterator[Talk]:
    async with open_store(url, StoreOptions(lease=LEASE, cluster=cluster)) as store:
        talk = Talk(agent, store=store, **options)
        yield talk
        await talk.close()


class Steps:
    """Its first run works, and ends as told, once a test lets it; further ones repeat their messages."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.end = "input-required"
        self.runs: list[Run] = []

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.runs.append(run)
        if run.task is None:
            yield run.status("working")
            await self.gate.wait()
            yield run.status(self.end)
        else:
            yield run.artifact(f"got {run.text}", artifact_id="answer")
            yield run.status("completed")

    def agent(self) -> Agent:
        return agent_of(self.execute)


async def _begun(talk: Talk, steps: Steps, **more: Any) -> str:
    task = await talk.send("go", configuration=IMMEDIATELY, **more)
    await steps.gate.reached()
    return task.id


async def test_tasks_of_another_replica_are_visible(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    assert (await two.get(task_id)).status.state == WORKING
    assert [task.id for task in (await two.list()).tasks] == [task_id]
    events = two.subscribe(task_id)
    assert shapes([await anext(events)]) == [("task", WORKING)]
    steps.gate.open()
    assert shapes([event async for event in events]) == [INPUT]


async def test_a_message_reaches_the_replica_that_works_on_the_task_and_its_answer_comes_back(
    beside: Any,
) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    sending = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id))
    await _joined(two, task_id, "m-2")
    steps.gate.open()
    task = await sending
    assert (task.status.state, task.artifacts[0].parts[0].text) == (COMPLETED, "got more")
    assert [run.text for run in steps.runs] == ["go", "more"]
    assert two.engine.live == 0, "the other replica has worked on it"


async def test_a_stream_of_a_message_is_read_here_from_where_the_other_replica_took_it(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    events = two.events("more", message_id="m-2", task_id=task_id)
    assert shapes([await anext(events)]) == [("task", WORKING)]
    steps.gate.open()
    # After the question of the run before it, which it waited for.
    assert shapes([event async for event in events]) == [INPUT, "got more", COMPLETED]


async def test_a_stream_ends_with_the_question_of_its_own_run(beside: Any) -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Any]:
        if run.task is None:
            yield run.status("working")
            await gate.wait()
        yield run.status("input-required", run.text)

    one, two = await beside(agent_of(execute)), await beside(agent_of(execute))
    task = await one.send("go", configuration=IMMEDIATELY)
    await gate.reached()
    events = two.events("more", message_id="m-2", task_id=task.id)
    await anext(events)
    gate.open()
    assert [event.status.message.parts[0].text async for event in events] == ["go", "more"]


async def test_the_ids_of_events_are_those_of_the_log(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    numbers = []
    async with asyncio.timeout(PATIENCE):
        asked = request("more", message_id="m-2", task_id=task_id)
        async for event in two.engine.service.stream(Call(ops.SEND_STREAMING_MESSAGE, asked, CallContext())):
            numbers.append(event.id)
            steps.gate.open()
    assert numbers == ["2", "3", "4", "5"]


async def test_a_task_is_canceled_where_it_runs(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    assert (await two.cancel(task_id)).status.state == CANCELED
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await two.cancel(task_id)
    assert steps.runs[0].cancelled


async def test_a_waiting_task_is_continued_by_any_replica(beside: Any) -> None:
    steps = Steps()
    steps.gate.open()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task = await one.send("go")
    assert task.status.state == INPUT
    task = await two.send("more", message_id="m-2", task_id=task.id)
    assert task.status.state == COMPLETED
    assert (await one.get(task.id)) == task


async def test_the_circumstances_of_a_call_travel_with_it(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    context = CallContext(
        tenant="acme",
        parameters={"X-Trace": "7"},
        principal=Principal("alice", {"groups": ["a", "b"], "level": 3}),
        origin=Origin("GRPC", "1.0", "peer:1", "http://x"),
    )
    task_id = await _begun(one, steps, context=context)
    sending = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id, context=context))
    await _joined(two, task_id, "m-2", context)
    steps.gate.open()
    await sending
    seen = steps.runs[1].context
    assert (seen.tenant, seen.principal) == ("acme", context.principal)
    assert (seen.parameters["x-trace"], seen.origin) == ("7", context.origin)
    with rejected(Reason.TASK_NOT_FOUND):
        await two.cancel(task_id, context=CallContext(principal=Principal("bob")))


async def test_errors_come_back_as_they_were(beside: Any) -> None:
    details = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x"}

    async def execute(run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        await asyncio.Event().wait()

    async def cancel(run: Run) -> AsyncIterator[Any]:
        raise A2AError(
            Reason.RESOURCE_EXHAUSTED,
            "not so fast",
            violations=[Violation("id", "too often")],
            metadata={"limit": "3"},
            details=[details],
            code=-32077,
            name="SLOW_DOWN",
            retry_after=2.5,
        )
        yield

    one, two = await beside(agent_of(execute, cancel)), await beside(agent_of(execute, cancel))
    task = await one.send("go", configuration=IMMEDIATELY)
    with pytest.raises(A2AError) as here:
        await one.cancel(task.id)
    with pytest.raises(A2AError) as there:
        await two.cancel(task.id)
    for name in (
        "reason",
        "message",
        "violations",
        "metadata",
        "details",
        "code",
        "name",
        "blame",
        "retry_after",
    ):
        assert getattr(there.value, name) == getattr(here.value, name), name
    assert there.value.details == (details,)


async def test_a_caller_that_goes_away_stops_nothing_that_was_taken(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    sending = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id))
    await _joined(two, task_id, "m-2")
    sending.cancel()
    steps.gate.open()
    await _ends(two, task_id)
    assert [run.text for run in steps.runs] == ["go", "more"]


@pytest.mark.parametrize("asked", ["unary", "stream"])
async def test_a_forwarded_message_to_a_dying_replica_gets_the_outcome_of_the_task(
    beside: Any, asked: str
) -> None:
    """The message was not accepted, so it meets a task that has failed with its process."""
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    deaf(one)
    if asked == "unary":
        asking = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id))
    else:
        asking = asyncio.create_task(two.stream("more", message_id="m-2", task_id=task_id))
    dead(one)
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await asking
    task = await two.get(task_id)
    assert task.status.state == FAILED
    assert task.status.message.parts[0].text == "the agent's process ended before it finished the task"


async def test_who_cancels_at_a_replica_that_dies_ends_the_task_or_finds_it_ended(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    deaf(one)
    canceling = asyncio.create_task(two.cancel(task_id))
    dead(one)
    (outcome,) = await asyncio.gather(canceling, return_exceptions=True)
    if isinstance(outcome, A2AError):
        outcome = outcome.reason
    ended = (await two.get(task_id)).status.state
    expected = Reason.TASK_NOT_CANCELABLE if ended == FAILED else await two.get(task_id)
    assert outcome == expected
    assert ended in (CANCELED, FAILED)


async def test_an_accepted_message_of_a_dead_replica_is_answered_with_the_outcome(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    sending = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id))
    await _joined(two, task_id, "m-2")
    streaming = asyncio.create_task(two.stream("again", message_id="m-3", task_id=task_id))
    await _joined(two, task_id, "m-3")
    dead(one)
    task = await sending
    assert task.status.state == FAILED
    assert [message.message_id for message in task.history[:3]] == ["m-1", "m-2", "m-3"]
    # The snapshot alone, if the first replica died before it had answered.
    assert shapes(await streaming)[-1] in (FAILED, ("task", FAILED))


async def test_readers_of_other_replicas_continue_after_a_takeover(beside: Any) -> None:
    gate = Gate()

    class Resumes:
        async def execute(self, run: Run) -> AsyncIterator[Any]:
            yield run.status("working")
            yield run.artifact("1", artifact_id="a")
            await gate.wait()

        async def resume(self, run: Run) -> AsyncIterator[Any]:
            yield run.artifact("2", artifact_id="a", append=True)
            yield run.status("completed")

    agent = Agent(Resumes(), name="test")
    one, two, three = await beside(agent), await beside(agent), await beside(agent)
    task = await one.send("go", configuration=IMMEDIATELY)
    await gate.reached()
    readers = [two.subscribe(task.id), three.subscribe(task.id)]
    for reader in readers:
        await anext(reader)
    dead(one)
    for reader in readers:
        assert shapes([event async for event in reader]) == ["2", COMPLETED]
    assert "".join(part.text for part in (await three.get(task.id)).artifacts[0].parts) == "12"


async def test_a_lost_takeover_race_shows_the_winners_task(beside: Any) -> None:
    steps, gate = Steps(), Gate()
    one, two, three = await beside(steps.agent()), await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    take, take_first = two.store.open, three.store.open

    async def slowly(*arguments: Any, **more: Any) -> Any:
        await gate.wait()
        return await take(*arguments, **more)

    async def quickly(*arguments: Any, **more: Any) -> Any:
        await gate.reached()  # otherwise the other one may see that the task is taken, and not try
        return await take_first(*arguments, **more)

    two.store.open, three.store.open = slowly, quickly
    reader = two.subscribe(task_id)
    await anext(reader)
    dead(one)
    await gate.reached()
    assert shapes([event async for event in reader]) == [FAILED]
    assert (await two.get(task_id)).status.state == FAILED
    gate.open()


async def test_one_that_was_taken_for_dead_ends_its_runs_and_works_on(beside: Any) -> None:
    steps = Steps()
    one, two = await beside(steps.agent()), await beside(steps.agent())
    task_id = await _begun(one, steps)
    unary = asyncio.create_task(one.send("more", message_id="m-2", task_id=task_id))
    await _joined(two, task_id, "m-2")
    before = one.store._beside.me
    await asyncio.to_thread(_bury, one.store._beside._session._url, before)
    await _ends(two, task_id)
    assert (await two.get(task_id)).status.state == FAILED
    assert (await unary).status.state == FAILED, "callers get what others have made of it"
    await one.rest()
    assert one.store._beside.me != before
    steps.gate.open()
    again = await one.send("go", message_id="m-9")
    assert again.status.state == INPUT


async def test_a_message_that_is_sent_again_to_another_replica_is_worked_on_once(beside: Any) -> None:
    steps = Steps()
    one = await beside(steps.agent(), idempotent_sends=True)
    two = await beside(steps.agent(), idempotent_sends=True)
    first = asyncio.create_task(one.send("go"))
    await steps.gate.reached()
    again = asyncio.create_task(two.send("go"))
    task_id = steps.runs[0].task_id
    await _joined(two, task_id, "m-1")
    more = asyncio.create_task(two.send("more", message_id="m-2", task_id=task_id))
    await _joined(two, task_id, "m-2")
    repeated = asyncio.create_task(one.send("more", message_id="m-2", task_id=task_id))
    steps.gate.open()
    assert (await first).id == (await again).id == (await more).id == (await repeated).id == task_id
    assert [run.text for run in steps.runs] == ["go", "more"]


@pytest.mark.parametrize("learns", [False, True])
async def test_a_message_of_one_that_was_taken_for_dead_leads_to_one_task(beside: Any, learns: bool) -> None:
    gate = Gate()

    async def slow(run: Run) -> AsyncIterator[Any]:
        await gate.wait()
        yield run.status("completed", "too late")

    async def quick(run: Run) -> AsyncIterator[Any]:
        yield run.status("completed")

    one = await beside(agent_of(slow), idempotent_sends=True)
    two = await beside(agent_of(quick), idempotent_sends=True)
    first = asyncio.create_task(one.send("go"))
    await gate.reached()
    before = one.store._beside.me
    if not learns:
        one.store._beside._living.cancel()
    await asyncio.to_thread(_bury, one.store._beside._session._url, before)
    task = await two.send("go")
    assert task.status.state == COMPLETED
    if learns:
        await until(lambda: one.store._beside.me != before)
    gate.open()
    with rejected(Reason.UNAVAILABLE):
        await first
    assert [one.id for one in (await two.list()).tasks] == [task.id]


def deaf(talk: Talk) -> None:
    """It answers no calls any more."""
    talk.store._beside._server.answer = _never


async def _never(_: Any) -> Any:
    await asyncio.Event().wait()


def dead(talk: Talk) -> None:
    """It has no effects that others can see any more: as after a kill, but the process lives."""
    beside = talk.store._beside
    beside._living.cancel()
    for call in beside._server._calls.values():
        if call.task is not None:
            call.task.cancel()
    talk.store.writer.lose_all()
    talk.ending = [
        asyncio.create_task(beside._bus.close()),
        asyncio.create_task(talk.engine._recovery.close()),
    ]


def _bury(url: str, name: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas WHERE id = %s", (name,))


async def _joined(talk: Talk, task_id: str, message_id: str, context: CallContext | None = None) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(A2AError):  # before it is there
                history = (await talk.get(task_id, context=context)).history
                if any(message.message_id == message_id for message in history):
                    return
            await asyncio.sleep(0.02)


async def _ends(talk: Talk, task_id: str) -> None:
    try:
        async for _ in talk.subscribe(task_id):
            pass
    except A2AError as error:
        if error.reason is not Reason.UNSUPPORTED_OPERATION:
            raise


async def test_runs_of_two_replicas_hold_a_lock_in_turn(beside: Any) -> None:
    order: asyncio.Queue[str] = asyncio.Queue()
    gates = {name: Gate() for name in ("first", "second")}

    async def execute(run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        async with run.lock(run.context_id):
            order.put_nowait(run.text)
            await gates[run.text].wait()
        yield run.status("completed")

    one, two = await beside(agent_of(execute)), await beside(agent_of(execute))
    tasks = [await one.send("first", context_id="c", configuration=IMMEDIATELY)]
    await gates["first"].reached()
    tasks.append(await two.send("second", context_id="c", configuration=IMMEDIATELY))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):  # longer than the first pauses between two attempts
                await gates["second"].reached()
        assert order.qsize() == 1
        gates["first"].open()
        await gates["second"].reached()
    gates["second"].open()
    for talk, task in ((one, tasks[1]), (two, tasks[0])):
        await _ends(talk, task.id)
    assert [order.get_nowait() for _ in range(2)] == ["first", "second"]
