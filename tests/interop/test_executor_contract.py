"""Executors of a2a-sdk 1.x: their contract on our engine, and what is told about each difference."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as sdk
from a2a.utils import errors
from starlette.applications import Starlette

from a2a_bridge import A2AError, Agent, Reason, connect
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE

pytestmark = pytest.mark.sdk

Script = Callable[[RequestContext, TaskUpdater], Any]


class Scripted(AgentExecutor):
    """Runs a coroutine function for each message. seen: the contexts."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[RequestContext] = []
        self.canceled: list[RequestContext] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen.append(context)
        await self.script(context, TaskUpdater(event_queue, context.task_id, context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Plain(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(message(f"plain {context.get_user_input()}"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise errors.UnsupportedOperationError


class Needs(Plain):
    def __init__(self, what: str) -> None:
        self.what = what


def annotated() -> Plain:
    return Plain()


def unannotated():
    return Plain()


def message(text: str, **members: Any) -> sdk.Message:
    return sdk.Message(message_id="m", role=sdk.ROLE_AGENT, parts=[sdk.Part(text=text)], **members)


async def begin(context: RequestContext, updater: TaskUpdater) -> None:
    """The first event of a task, as the SDK's examples make it."""
    if context.current_task is None:
        task = sdk.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
        task.status.state = sdk.TASK_STATE_SUBMITTED
        await updater.event_queue.enqueue_event(task)
    await updater.start_work()


def request(text: str, **members: Any) -> hub.SendMessageRequest:
    made = hub.Message(message_id=f"id of {text}", role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members)
    return hub.SendMessageRequest(message=made)


@asynccontextmanager
async def engine(executor: Any, **options: Any) -> AsyncIterator[Engine]:
    made = Engine(Agent(executor, name="sdk", **options))
    await made.start()
    yield made
    await made.close()


CONTEXT = CallContext()


async def sent(executor: Any, text: str = "go", **options: Any) -> Any:
    """The outcome of one message: a message or a task, or the error."""
    async with engine(executor, **options) as running, asyncio.timeout(PATIENCE):
        try:
            answer = await running.send_message(request(text), CONTEXT)
        except A2AError as error:
            return error
        return getattr(answer, answer.WhichOneof("payload"))


def status_text(task: hub.Task) -> str:
    return "".join(part.text for part in task.status.message.parts)


# --- what an executor is shown ---
async def test_a_follow_up_has_the_question_in_its_status_and_not_yet_the_answer() -> None:
    async def ask(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        if context.get_user_input() == "go":
            await updater.requires_input(message("what?"))
        else:
            await updater.complete()

    executor = Scripted(ask)
    async with engine(executor) as running, asyncio.timeout(PATIENCE):
        first = (await running.send_message(request("go"), CONTEXT)).task
        last = (await running.send_message(request("this", task_id=first.id), CONTEXT)).task
    new, follow_up = executor.seen
    assert new.current_task is None
    shown = follow_up.current_task
    assert shown.status.message.parts[0].text == "what?"
    assert [one.parts[0].text for one in shown.history] == ["go"]
    assert [one.parts[0].text for one in last.history] == ["go", "what?", "this"]
    assert last.status.state == hub.TASK_STATE_COMPLETED


def finished(task: sdk.Task) -> sdk.Task:
    task.status.CopyFrom(sdk.TaskStatus(state=sdk.TASK_STATE_COMPLETED))
    task.artifacts.add(artifact_id="a", parts=[sdk.Part(text="an answer")])
    return task


@each(
    "task, answers",
    [
        (lambda context: finished(context.current_task), True),
        (lambda context: finished(sdk.Task(id=context.task_id, context_id=context.context_id)), True),
        (lambda context: context.current_task, False),
        (lambda context: sdk.Task(id=context.task_id, history=[context.message]), False),
    ],
)
async def test_a_later_turn_may_answer_with_a_whole_task(
    task: Callable[[RequestContext], sdk.Task], answers: bool
) -> None:
    async def turns(context: RequestContext, updater: TaskUpdater) -> None:
        if context.get_user_input() == "go":
            await begin(context, updater)
            await updater.requires_input(message("what?"))
            return
        await updater.event_queue.enqueue_event(task(context))
        if not answers:
            await updater.add_artifact([sdk.Part(text="an answer")])
            await updater.complete()

    async with engine(Scripted(turns)) as running, asyncio.timeout(PATIENCE):
        first = (await running.send_message(request("go"), CONTEXT)).task
        last = (await running.send_message(request("this", task_id=first.id), CONTEXT)).task
    assert last.status.state == hub.TASK_STATE_COMPLETED
    assert [part.text for one in last.artifacts for part in one.parts] == ["an answer"]
    assert [one.parts[0].text for one in last.history] == ["go", "what?", "this"]


async def test_the_context_has_the_caller_the_tenant_the_headers_and_the_extensions() -> None:
    async def answer(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.event_queue.enqueue_event(message("yes"))

    executor = Scripted(answer)
    headers = {"a2a-extensions": "urn:x, urn:y", "x-trace": "7"}
    async with engine(executor) as running:
        asked = request("go")
        asked.metadata.update({"k": {"deep": [1.0]}})
        asked.configuration.accepted_output_modes.append("text/plain")
        await running.send_message(asked, CallContext("acme", headers, Principal("ada", {"scope": "send"})))
        await running.send_message(request("again"), CONTEXT)
    known, unknown = executor.seen
    call = known.call_context
    assert (call.user.is_authenticated, call.user.user_name, call.tenant) == (True, "ada", "acme")
    assert known.requested_extensions == {"urn:x", "urn:y"}
    assert (call.state["headers"]["x-trace"], call.state["claims"]) == ("7", {"scope": "send"})
    assert known.metadata == {"k": {"deep": [1.0]}}
    assert list(known.configuration.accepted_output_modes) == ["text/plain"]
    assert (unknown.call_context.user.is_authenticated, unknown.tenant) == (False, "")
    assert unknown.call_context.state["headers"] == {}


async def test_related_tasks_are_those_of_the_message_that_the_caller_may_see() -> None:
    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        await updater.add_artifact([sdk.Part(text=context.get_user_input())])
        await updater.complete()

    executor = Scripted(work)
    ada, bob = (CallContext(principal=Principal(name)) for name in ("ada", "bob"))
    async with engine(executor) as running:
        hers = (await running.send_message(request("hers"), ada)).task.id
        his = (await running.send_message(request("his"), bob)).task.id
        named = [hers, his, "absent"]
        await running.send_message(request("more", reference_task_ids=named), ada)
    assert [one.id for one in executor.seen[-1].related_tasks] == [hers]
    assert executor.seen[-1].related_tasks[0].artifacts[0].parts[0].text == "hers"


# --- events ---
async def test_an_event_of_another_context_counts_for_the_task() -> None:
    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        other = TaskUpdater(updater.event_queue, context.task_id, "another")
        await begin(context, other)
        await other.complete(message("done", context_id="third", task_id="foreign"))

    task = await sent(Scripted(work))
    assert task.status.state == hub.TASK_STATE_COMPLETED
    assert task.status.message.context_id == task.context_id
    direct = await sent(
        Scripted(
            lambda context, updater: updater.event_queue.enqueue_event(
                message("hi", context_id="another", task_id="foreign")
            )
        )
    )
    assert (direct.parts[0].text, direct.task_id) == ("hi", "")


async def test_a_second_task_event_changes_nothing() -> None:
    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        if context.get_user_input() == "go":
            await updater.requires_input()
            return
        await updater.event_queue.enqueue_event(context.current_task)
        await updater.complete(message("well"))

    async with engine(Scripted(work)) as running, asyncio.timeout(PATIENCE):
        first = (await running.send_message(request("go"), CONTEXT)).task
        last = (await running.send_message(request("on", task_id=first.id), CONTEXT)).task
    assert (last.status.state, status_text(last)) == (hub.TASK_STATE_COMPLETED, "well")


async def test_a_status_without_a_state_leaves_the_state_of_the_run() -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        def told(text: str) -> sdk.TaskStatusUpdateEvent:
            status = sdk.TaskStatus(message=message(text))
            return sdk.TaskStatusUpdateEvent(
                task_id=context.task_id, context_id=context.context_id, status=status
            )

        await updater.event_queue.enqueue_event(told("half way"))
        if context.current_task is None:
            await updater.requires_input()
            await updater.event_queue.enqueue_event(told("which one?"))
        else:
            await updater.complete()

    async with connect(Scripted(script)) as peer:
        asked = await peer.send("begin")
        assert asked.state == "input-required"
        # The call has ended with the question, and the status without a state comes after it.
        async with asyncio.timeout(PATIENCE), aclosing(peer.subscribe(asked.task.id)) as events:
            async for event in events:
                status = (event.task if event.HasField("task") else event.status_update).status
                assert status.state == hub.TASK_STATE_INPUT_REQUIRED
                if status.HasField("message"):
                    break
        assert status.message.parts[0].text == "which one?"
        done = await peer.send("this one", task=asked.task)
    assert done.state == "completed"
    texts = [one.parts[0].text for one in done.task.history]
    assert texts == ["begin", "half way", "which one?", "this one", "half way"]


async def test_a_fast_executor_waits_for_the_reader() -> None:
    ahead: list[int] = []

    async def flood(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        for number in range(1000):
            await updater.add_artifact([sdk.Part(text=f"{number} ")], artifact_id="a", append=number > 0)
            ahead.append(len(updater.event_queue.events))
        await updater.complete()

    task = await sent(Scripted(flood))
    assert "".join(part.text for part in task.artifacts[0].parts).split() == [str(one) for one in range(1000)]
    assert max(ahead) <= 64


# --- cancel ---
async def test_cancel_stops_the_work_and_the_executor_says_the_state() -> None:
    ended = asyncio.Event()

    async def hang(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    executor = Scripted(hang)
    async with engine(executor) as running, asyncio.timeout(PATIENCE):
        asked = request("go")
        asked.configuration.return_immediately = True
        task = (await running.send_message(asked, CONTEXT)).task
        canceled = await running.cancel_task(hub.CancelTaskRequest(id=task.id), CONTEXT)
        await ended.wait()
    assert canceled.status.state == hub.TASK_STATE_CANCELED
    (context,) = executor.canceled
    assert (context.message, context.task_id, context.current_task.id) == (None, task.id, task.id)


async def test_an_executor_that_rejects_a_cancellation_goes_on() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Stubborn(Scripted):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise errors.TaskNotCancelableError("not now")

    async def wait(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        begun.set()
        await go_on.wait()
        await updater.complete()

    executor = Stubborn(wait)
    async with engine(executor) as running, asyncio.timeout(PATIENCE):
        sending = asyncio.create_task(running.send_message(request("go"), CONTEXT))
        await begun.wait()
        with pytest.raises(A2AError, match="not now") as caught:
            await running.cancel_task(hub.CancelTaskRequest(id=executor.seen[0].task_id), CONTEXT)
        go_on.set()
        found = (await sending).task
    assert caught.value.reason is Reason.TASK_NOT_CANCELABLE
    assert found.status.state == hub.TASK_STATE_COMPLETED


# --- errors ---
class Derived(errors.ContentTypeNotSupportedError):
    """An error of the user."""


@each(
    "raised, reason, text",
    [
        (errors.InvalidParamsError("no city"), Reason.INVALID_PARAMS, "no city"),
        (Derived("no pictures"), Reason.CONTENT_TYPE_NOT_SUPPORTED, "no pictures"),
        (errors.UnsupportedOperationError(), Reason.UNSUPPORTED_OPERATION, "This operation is not supported"),
        (errors.VersionNotSupportedError("old"), Reason.VERSION_NOT_SUPPORTED, "old"),
        (errors.JSONParseError("odd"), Reason.PARSE_ERROR, "odd"),
        (errors.InternalError("told"), Reason.INTERNAL_ERROR, "told"),
        (ValueError("a secret"), Reason.INTERNAL_ERROR, "Internal error"),
        (SystemExit(3), Reason.INTERNAL_ERROR, "Internal error"),
        (KeyboardInterrupt(), Reason.INTERNAL_ERROR, "Internal error"),
        (GeneratorExit(), Reason.INTERNAL_ERROR, "Internal error"),
        (asyncio.CancelledError(), Reason.INTERNAL_ERROR, "Internal error"),
    ],
)
async def test_an_error_before_the_task_is_that_of_the_call(
    raised: BaseException, reason: Reason, text: str
) -> None:
    async def fail(context: RequestContext, updater: TaskUpdater) -> None:
        raise raised

    error = await sent(Scripted(fail))
    assert (error.reason, error.message) == (reason, text)


async def leave(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)


async def nothing(context: RequestContext, updater: TaskUpdater) -> None:
    pass


async def late_error(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    raise errors.InvalidParamsError("no city")


async def crash(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    raise ValueError("a secret")


async def speak(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    await updater.event_queue.enqueue_event(message("hi"))


async def foreign(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.event_queue.enqueue_event("text")


@each(
    "script, outcome, told",
    [
        (leave, "the agent ended without finishing the task", "Await the work within `execute`"),
        (nothing, "the agent ended without an answer", "Enqueue a message or a task"),
        (late_error, "no city", "Raise it before the first event, or enqueue a failed status"),
        (crash, "the agent failed while working on the task", "failed"),
        (speak, "the agent broke the protocol: a message cannot follow a task", "broke the protocol"),
        (foreign, "str is no event of the a2a-sdk 1.x", "broke the protocol"),
    ],
)
async def test_each_difference_is_told_once(
    caplog: pytest.LogCaptureFixture, script: Script, outcome: str, told: str
) -> None:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "a2a_bridge.hosting"):
        found = await sent(Scripted(script))
    text = status_text(found) if isinstance(found, hub.Task) else found.message
    assert text.startswith(outcome)
    assert "a secret" not in text
    logged = [one.getMessage() for one in caplog.records]
    assert sum(told in one for one in logged) == 1, logged


async def test_an_event_after_the_end_is_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    late: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    async def background(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)

        async def later() -> None:
            await ended.wait()
            await updater.update_status(sdk.TASK_STATE_WORKING)
            await updater.complete()

        late.append(asyncio.create_task(later()))

    with caplog.at_level(logging.WARNING, "a2a_bridge.hosting"):
        task = await sent(Scripted(background))
        ended.set()
        await asyncio.wait_for(late[0], PATIENCE)
    assert task.status.state == hub.TASK_STATE_FAILED
    assert (
        sum("after the end of the executor's call is dropped" in one.getMessage() for one in caplog.records)
        == 1
    )


async def test_masked_errors_show_no_text(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)
        await updater.failed(message("Traceback: a secret"))

    async def raises(context: RequestContext, updater: TaskUpdater) -> None:
        raise errors.InternalError("a secret")

    shown = await sent(Scripted(fail))
    assert status_text(shown) == "Traceback: a secret"
    masked = await sent(Scripted(fail), mask_errors=True)
    assert status_text(masked) == "the agent failed while working on the task"
    error = await sent(Scripted(raises), mask_errors=True)
    assert (error.reason, error.message) == (Reason.INTERNAL_ERROR, "Internal error")
    assert sum("a secret" in one.getMessage() for one in caplog.records) == 1


# ---------------------------------------------------------------------- what is given


CARD = sdk.AgentCard(
    name="Carded", description="d", version="3", capabilities=sdk.AgentCapabilities(extended_agent_card=True)
)


@each(
    "given, name",
    [
        (Plain, "Plain"),
        (Plain(), "Plain"),
        (annotated, "Plain"),
        (unannotated, "Plain"),
        (functools.partial(Needs, "it"), "Needs"),
    ],
)
async def test_an_object_a_class_and_a_factory_are_taken_everywhere(given: Any, name: str) -> None:
    assert Agent(given).card.name == name
    async with Agent.of(given).open() as opened, Agent.of(given, card=CARD).open() as carded:
        assert (opened.card.name, carded.card.version) == (name, "3")
    async with connect(given) as peer:
        assert (await peer.send("hi")).text == "plain hi"


async def test_cards_of_the_sdk_are_taken_also_from_functions() -> None:
    def extended(context: CallContext) -> sdk.AgentCard:
        return sdk.AgentCard(name=f"for {context.tenant}", version="4")

    for given, name in ((CARD, "Carded"), (extended, "for acme")):
        async with engine(Plain, card=CARD, extended_card=given) as running:
            found = await running.get_extended_agent_card(
                hub.GetExtendedAgentCardRequest(), CallContext("acme")
            )
            assert found.name == name


HANDLER = DefaultRequestHandler(Plain(), InMemoryTaskStore(), CARD)


@each(
    "call, text",
    [
        (
            lambda: Agent(HANDLER),
            r"DefaultRequestHandler\w* is no executor: .*Agent\(handler\.agent_executor",
        ),
        (lambda: connect(HANDLER), r"is a request handler of the a2a-sdk; give the executor in it"),
        (
            lambda: Agent.of(Starlette()),
            r"is a web application; give the executor .*`a2a-bridge gateway URL`",
        ),
        (lambda: Agent.of(AgentExecutor), r"is an abstract class of the a2a-sdk"),
        (lambda: Agent.of(Needs), r"Needs needs arguments: give an object of it, or a function"),
        (lambda: Agent(Plain(), resume=1), r"resume of Agent is True or False"),
        (lambda: Agent(lambda: 3), r"is no executor"),
        (lambda: Agent.of(Plain(), card=3), r"card of Agent is an AgentCard"),
    ],
)
def test_what_cannot_be_served_is_told_what_to_give(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def test_the_options_are_for_executors_of_the_sdk() -> None:
    class Own:
        async def execute(self, run: Any) -> AsyncIterator[Any]:
            yield run.reply("x")

    with pytest.raises(TypeError, match="resume and mask_errors are for executors of the a2a-sdk"):
        Agent(Own(), mask_errors=True)
