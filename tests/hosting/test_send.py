"""SendMessage: direct answers and tasks, ids and contexts, blocking and not."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope
from tests.agents import EchoAgent, ScriptedAgent, SlowAgent
from tests.hosting.hand_clock import HandClock
from tests.hosting.scene import (
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    PATIENCE,
    REJECTED,
    SUBMITTED,
    WORKING,
    Gate,
    Talk,
    agent_of,
    request,
    stored,
)
from tests.rejections import rejected


@pytest.fixture
def talk() -> Talk:
    return Talk(ScriptedAgent())


async def test_a_direct_answer_is_a_message_and_leaves_no_task(talk: Talk) -> None:
    answer = await talk.send("message hello")
    assert isinstance(answer, hub.Message)
    assert (answer.parts[0].text, answer.role, answer.task_id) == ("hello", hub.ROLE_AGENT, "")
    assert (await talk.list()).total_size == 0


async def test_a_direct_executor_costs_no_task_of_the_loop() -> None:
    agent = SlowAgent()
    talk, before = Talk(agent), asyncio.all_tasks()
    sending = asyncio.create_task(talk.send("x"))
    await agent.wait_running(1)
    assert asyncio.all_tasks() - before == {sending}
    agent.release()
    assert (await sending).parts[0].text == "x"


async def test_parts_come_back_as_they_went() -> None:
    parts = [
        hub.Part(text="é ✓ 😀", metadata={"n": 7}),
        hub.Part(raw=bytes(range(256)), filename="x.bin", media_type="image/png"),
        hub.Part(url="https://e.example/x"),
    ]
    for agent, verb in ((EchoAgent(), "x"), (ScriptedAgent(), "data")):
        sent = [hub.Part(text=verb), *parts]
        answer = await Talk(agent).send(parts=sent, extensions=["https://e.example/1"])
        assert (list(answer.parts), list(answer.extensions)) == (sent, ["https://e.example/1"])


async def test_a_task_is_answered_when_it_has_ended(talk: Talk) -> None:
    task = await talk.send("task all good")
    assert isinstance(task, hub.Task)
    assert task.status.state == COMPLETED
    assert task.status.HasField("timestamp")
    assert [part.text for part in task.artifacts[0].parts] == ["all good"]
    assert await talk.get(task.id) == task


@pytest.mark.parametrize(("text", "state"), [("fail", FAILED), ("reject", REJECTED)])
async def test_a_task_may_end_badly(talk: Talk, text: str, state: int) -> None:
    task = await talk.send(text)
    assert (task.status.state, task.status.message.task_id) == (state, task.id)


async def test_the_message_stands_in_the_history_with_its_ids(talk: Talk) -> None:
    sent = request("task")
    before = sent.SerializeToString()
    answer = await talk.client.send_message(sent)
    assert sent.SerializeToString() == before
    (own,) = answer.task.history
    assert (own.message_id, own.task_id, own.context_id) == ("m-1", answer.task.id, answer.task.context_id)


async def test_a_message_the_executor_put_into_the_history_is_not_doubled() -> None:
    async def execute(run: Run) -> AsyncIterator[hub.Task]:
        task = run.start()
        task.history.append(run.message)
        task.status.state = COMPLETED
        yield task

    task = await Talk(agent_of(execute)).send("x")
    assert [(one.message_id, one.task_id) for one in task.history] == [("m-1", task.id)]


@pytest.mark.parametrize("text", ["message x", "task"])
async def test_a_context_is_made_or_kept(talk: Talk, text: str) -> None:
    made = [(await talk.send(text)).context_id for _ in range(2)]
    assert all(made)
    assert made[0] != made[1]
    assert (await talk.send(text, context_id="mine")).context_id == "mine"


async def test_every_task_has_its_own_id(talk: Talk) -> None:
    tasks = await asyncio.gather(*(talk.send("task") for _ in range(50)))
    assert len({task.id for task in tasks}) == 50


async def test_return_immediately_gives_the_task_as_it_begins() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[hub.TaskStatusUpdateEvent]:
        yield run.status("working")
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    task = await talk.send("x", configuration=IMMEDIATELY)
    assert task.status.state == SUBMITTED
    await gate.reached()
    assert (await talk.get(task.id)).status.state == WORKING
    gate.open()
    events = [one async for one in talk.subscribe(task.id)]
    assert events[-1].status.state == COMPLETED


async def test_return_immediately_does_not_change_a_direct_answer(talk: Talk) -> None:
    assert (await talk.send("message x", configuration=IMMEDIATELY)).parts[0].text == "x"


async def test_a_task_continues_when_its_caller_disconnects() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[hub.TaskStatusUpdateEvent]:
        yield run.status("working")
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    sending = asyncio.create_task(talk.send("x"))
    await gate.reached()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    (task,) = (await talk.list()).tasks
    assert task.status.state == WORKING
    gate.open()
    assert [one async for one in talk.subscribe(task.id)][-1].status.state == COMPLETED


@pytest.mark.parametrize("direct", [True, False])
async def test_an_answer_without_a_waiting_caller_is_cancelled(direct: bool) -> None:
    slow = SlowAgent()
    if not direct:
        slow = SlowAgent()
        executor = slow.executor
        slow.executor = type("Streaming", (), {"execute": staticmethod(executor.execute)})()
    talk = Talk(slow)
    sending = asyncio.create_task(talk.send("x"))
    await slow.wait_running(1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await slow.wait_running(0)
    assert slow.cancelled == 1


async def test_a_caller_that_leaves_before_the_run_has_begun_leaves_nothing() -> None:
    began = []

    async def execute(run: Run) -> AsyncIterator[hub.Task]:
        began.append(run)
        yield run.start()

    talk = Talk(agent_of(execute))
    sending = asyncio.create_task(talk.send("x"))
    await asyncio.sleep(0)  # it has created the run's task, which has not run yet
    if sys.version_info >= (3, 12):
        # There a run begins within its sender's turn, so the sender cannot leave before.
        assert ((await sending).status.state, len(began)) == (hub.TASK_STATE_FAILED, 1)
    else:
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert (began, (await talk.list()).total_size) == ([], 0)
    await talk.close()
    assert talk.engine.live == 0


@pytest.mark.parametrize("text", ["error UNSUPPORTED_OPERATION", "error UNAUTHENTICATED"])
async def test_an_error_before_there_is_a_task_reaches_the_caller(talk: Talk, text: str) -> None:
    with rejected(Reason[text.split()[1]]):
        await talk.send(text)
    assert (await talk.list()).total_size == 0


async def test_an_error_while_a_task_works_fails_it(talk: Talk) -> None:
    task = await talk.send("late UNAVAILABLE")
    assert task.status.state == FAILED
    assert task.status.message.parts[0].text == "scripted UNAVAILABLE"


async def test_the_text_of_an_exception_is_not_sent(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    with rejected(Reason.INTERNAL_ERROR) as caught:
        await talk.send("crash")
    assert "secret" not in str(caught.value)
    task = await talk.send("crash task")
    assert task.status.state == FAILED
    assert task.status.message.parts[0].text
    assert "secret" not in str(task)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "a secret of the agent" in caplog.text


async def test_a_crash_of_a_direct_executor_is_internal(caplog: pytest.LogCaptureFixture) -> None:
    class Crashing:
        async def reply(self, _: Run) -> hub.Message:
            raise RuntimeError("a secret of the agent")

    agent = EchoAgent()
    agent.executor = Crashing()
    with rejected(Reason.INTERNAL_ERROR) as caught:
        await Talk(agent).send("x")
    assert "secret" not in str(caught.value)
    assert "a secret of the agent" in caplog.text


async def test_many_tasks_at_once(talk: Talk) -> None:
    async with asyncio.timeout(PATIENCE):
        tasks = await asyncio.gather(
            *(talk.send(f"task {number}", message_id=f"m{number}") for number in range(200))
        )
    assert [task.artifacts[0].parts[0].text for task in tasks] == [str(number) for number in range(200)]
    assert (await talk.list()).total_size == 200
    await talk.rest()


@pytest.mark.parametrize("length", [-1, -2147483648])
@pytest.mark.parametrize("text", ["task", "message x"])
async def test_a_negative_history_length_is_rejected(talk: Talk, text: str, length: int) -> None:
    with rejected(Reason.INVALID_PARAMS, "configuration.historyLength"):
        await talk.send(text, configuration=hub.SendMessageConfiguration(history_length=length))


@pytest.mark.parametrize(("modes", "fits"), [
    (["text/plain"], True),
    (["image/png", "TEXT/plain; charset=utf-8"], True),
    (["text/*"], True),
    (["*/*"], True),
    (["text"], True),
    (["image/png"], False),
    (["image/*", "application/json"], False),
])  # fmt: skip
async def test_output_modes_that_the_agent_has_none_of_are_rejected(modes: list[str], fits: bool) -> None:
    configuration = hub.SendMessageConfiguration(accepted_output_modes=modes)
    for talk in (Talk(ScriptedAgent()), Talk(EchoAgent())):
        if fits:
            await talk.send("x", configuration=configuration)
        else:
            with rejected(Reason.CONTENT_TYPE_NOT_SUPPORTED):
                await talk.send("x", configuration=configuration)


@pytest.mark.parametrize(("modes", "media", "fits"), [
    (("text/plain",), "", True),
    (("text/plain",), "text/plain; charset=utf-8", True),
    (("text/plain", "image/*"), "image/png", True),
    (("text",), "image/png", True),  # of an old card: it cannot be judged
    ((), "image/png", True),
    (("text/plain",), "image/png", False),
    (("application/json",), "text/plain", False),
])  # fmt: skip
async def test_parts_of_media_types_that_the_agent_does_not_accept_are_rejected(
    modes: tuple[str, ...], media: str, fits: bool
) -> None:
    """CORE-SEND-004 of the draft conformance documents. Messages to a task too."""
    talk = Talk(Agent(EchoAgent().executor, input_modes=modes))
    asked = request("first")
    asked.message.parts.add(text="x", media_type=media)
    async with asyncio.timeout(PATIENCE):
        if fits:
            await talk.client.send_message(asked)
            return
        with rejected(Reason.CONTENT_TYPE_NOT_SUPPORTED, "message.parts[1].mediaType"):
            await talk.client.send_message(asked)


async def test_an_agent_that_declares_no_output_modes_rejects_none() -> None:
    talk = Talk(ScriptedAgent(output_modes=()))
    await talk.send("x", configuration=hub.SendMessageConfiguration(accepted_output_modes=["image/png"]))


async def test_an_unknown_state_keeps_no_caller_waiting() -> None:
    """A task of an older agent may be in a state without a name in 1.0."""
    store = MemoryStore()
    await stored(store, Scope(), hub.Task(id="t", context_id="c"))

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.artifact("x")

    talk = Talk(agent_of(execute), store=store)
    task = await talk.send("go on", task_id="t")
    assert (task.status.state, len(task.artifacts)) == (hub.TASK_STATE_UNSPECIFIED, 1)


@pytest.mark.parametrize("begins", [True, False])
async def test_times_are_whole_microseconds(begins: bool) -> None:
    """Date types of most languages have no nanoseconds: a peer must not change a time that it only forwards."""

    class Precise(HandClock):
        def now(self) -> int:
            return 1_700_000_000_123_456_789

    async def execute(run: Run) -> AsyncIterator[Event]:
        if begins:
            yield run.start()
        yield run.status("working")
        yield run.artifact("x")
        yield run.status("completed")

    events = await Talk(agent_of(execute), clock=Precise()).stream("x")
    stamps = [one.status.timestamp for one in events if not isinstance(one, hub.TaskArtifactUpdateEvent)]
    assert [(one.seconds, one.nanos) for one in stamps] == [(1_700_000_000, 123_456_000)] * 3
