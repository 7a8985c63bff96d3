"""One run: what an executor yields, brought into shape and applied to its task. Not who waits for it.

Rules:
1. Nobody awaits a write: an event goes to the working copy, and the run waits only when the store has no room.
2. What an executor does wrong fails its task with a clear text, and nothing else.
3. An update may come first; whoever listens gets a task before it all the same (spec 3.1.2).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import IllegalTransition
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.hosting import timeouts
from a2a_bridge.hosting.agent_view import task_for_agent
from a2a_bridge.hosting.event_checks import ExecutorError, direct_answer, own_artifact, own_status, own_task
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.pending_send import PendingSend, Wants
from a2a_bridge.hosting.refusals import broken
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.working_copy import OwnershipLostError
from a2a_bridge.pb import lf_a2a_v1 as hub

if TYPE_CHECKING:
    from a2a_bridge.hosting.execution import Execution

log = logging.getLogger("a2a_bridge.hosting")

#: events after which a producer that never waits for anything lets others run
_STRETCH = 32

UNFINISHED = "the agent ended without finishing the task"
CRASHED = "the agent failed while working on the task"


async def perform(execution: Execution, ticket: PendingSend) -> None:
    """One run, from its first event to the state it leaves the task in. Raises OwnershipLostError."""
    run = ticket.run
    if execution.copy.task is not None:
        run.task = task_for_agent(execution.copy.snapshot())
    try:
        await _consume(execution, ticket, _begun(execution, ticket))
    except asyncio.CancelledError:
        if execution.stopping:
            return
        # The executor's own doing: nobody of us has asked for it.
        _uncancel()
        if execution.canceling:
            _finished(execution, ticket)
            return
        log.warning("the run of task %s cancelled itself", execution.task_id)
        _broken_off(execution, ticket, CRASHED, internal_error())
    except OwnershipLostError:
        raise
    except A2AError as error:
        _broken_off(execution, ticket, error.message, error)
    except (ExecutorError, IllegalTransition) as error:
        if execution.ended:
            log.warning("events after the end of task %s are dropped: %s", execution.task_id, error)
        else:
            log.error("the executor of task %s broke the rules: %s", execution.task_id, error)  # noqa: TRY400  no trace: the text says it
            _broken_off(execution, ticket, f"the agent broke the protocol: {error}", broken(str(error)))
    except Exception:
        log.exception("the executor of task %s failed", execution.task_id)
        _broken_off(execution, ticket, CRASHED, internal_error())
    else:
        _finished(execution, ticket)


def _begun(execution: Execution, ticket: PendingSend) -> AsyncIterator[Event]:
    engine = execution.engine
    if ticket.resumes:
        resume: Callable[[Run], AsyncIterator[Event]]
        resume = getattr(engine.executor, "resume")  # noqa: B009  optional member
        return resume(ticket.run)
    if engine.reply is not None and execution.copy.task is None:
        return _replied(engine.reply(ticket.run))
    return engine.executor.execute(ticket.run)


async def _replied(answer: Awaitable[hub.Message]) -> AsyncIterator[Event]:
    yield await answer


async def _consume(execution: Execution, ticket: PendingSend, events: AsyncIterator[Event]) -> None:
    if not hasattr(events, "__aiter__"):
        # `async def execute` without a `yield` in it: the commonest mistake there is.
        close = getattr(events, "close", None)
        if close is not None:
            close()
        raise ExecutorError(f"execute gave a {type(events).__name__}; it must be an async generator")
    count = 0
    copy = execution.copy
    pressure = execution.pressure
    watch = timeouts.watch(execution, ticket)
    try:
        if watch is not None:
            watch.ask()
        async for event in events:
            if watch is not None:
                watch.hear()
            if copy.task is None and ticket.push_config is not None and not isinstance(event, hub.Message):
                await _register(execution, ticket)
            take(execution, event, ticket)
            if copy.lost:
                raise OwnershipLostError
            count += 1
            if count % _STRETCH == 0:
                await asyncio.sleep(0)
            if copy.writer is not None:
                await copy.writer.room()
            if pressure.memory.exceeded:
                await pressure.relieved(execution)
            if watch is not None:
                watch.ask()
    finally:
        if watch is not None:
            watch.close()
        closing = getattr(events, "aclose", None)
        if closing is not None:
            await closing()


async def _register(execution: Execution, ticket: PendingSend) -> None:
    """The config that came with the message goes in before the task, because one without a task harms nobody."""
    if ticket.push_config is None:
        return
    execution.creating = True
    try:
        await execution.engine.store.push_configs.put(execution.scope, ticket.push_config)
    finally:
        execution.creating = False
    ticket.push_config = None


def _finished(execution: Execution, ticket: PendingSend) -> None:
    """The executor has nothing more to say: a direct answer, a task at rest, or a task left lying."""
    task = execution.copy.task
    if task is None:
        for one in ticket.all():
            one.settle(ticket.said or broken("the agent ended without an answer"))
    elif task.status.state not in RUNNING:
        _tell_streams(execution, ticket, task)
        for one in ticket.all():
            execution.settle(one)
    elif not (
        execution.canceling or execution.stopping
    ):  # else whoever ended the run says what the task becomes
        fail(execution, UNFINISHED)


def _tell_streams(execution: Execution, ticket: PendingSend, task: hub.Task) -> None:
    """Ends streams of a run that leaves the task waiting and has not said so: for them it is said once more."""
    silent = ticket.begun_at is not None and execution.asked_at <= ticket.begun_at
    silent = silent and not (execution.canceling or execution.stopping)
    if (
        silent
        and task.status.state == hub.TASK_STATE_INPUT_REQUIRED
        and any(one.wants is Wants.STREAM for one in ticket.all())
    ):
        status = hub.TaskStatusUpdateEvent()
        status.status.state = hub.TASK_STATE_INPUT_REQUIRED
        take(execution, status, None)


def _broken_off(execution: Execution, ticket: PendingSend, text: str, error: A2AError) -> None:
    if execution.task is None:
        for one in ticket.all():
            one.said = None  # what came before the failure is no answer, to nobody who sends the message again either
            one.settle(error)
    # While the executor cleans up after a cancellation, that decides: it may be what broke the run off.
    elif not (execution.ended or execution.stopping or execution.canceling):
        fail(execution, text)


def unfinished(execution: Execution) -> None:
    """Fails a task at work that has no run any more."""
    if execution.task is not None and execution.task.status.state in RUNNING:
        fail(execution, UNFINISHED)


def fail(execution: Execution, text: str) -> None:
    """Ends a task as FAILED, if it has not ended."""
    run = Run(hub.SendMessageRequest(), CallContext(), execution.task_id, execution.context_id)
    try:
        take(execution, run.status(hub.TASK_STATE_FAILED, text), None)
    except (IllegalTransition, OwnershipLostError):
        log.debug("task %s ended before it could fail", execution.task_id)


# ---------------------------------------------------------------------- events


def take(execution: Execution, event: Event, ticket: PendingSend | None) -> None:
    """Applies an event. ticket: of the run it is of; None for what is said beside the runs.

    Raises ExecutorError, IllegalTransition, A2AError RESOURCE_EXHAUSTED.
    """
    if ticket is not None and ticket.said is not None:
        raise ExecutorError("nothing may follow a direct message")
    copy = execution.copy
    match event:
        case hub.TaskArtifactUpdateEvent():
            if copy.task is None:
                _begin(execution)
            response = hub.StreamResponse(artifact_update=event)
            artifact = response.artifact_update
            own_artifact(artifact, execution.task_id, execution.context_id)
            copy.advance(response, artifact)
        case hub.TaskStatusUpdateEvent():
            if copy.task is None:
                _begin(execution)
            response = hub.StreamResponse(status_update=event)
            status = response.status_update
            own_status(status, execution.task_id, execution.context_id, execution.engine.clock)
            copy.advance(response, status)
            _note_question(execution)
            execution.settle_by_state()
        case hub.Task():
            task = hub.Task()
            task.CopyFrom(event)
            own_task(task, execution.task_id, execution.context_id, execution.engine.clock)
            if copy.task is None:
                _create(execution, task)
            else:
                copy.advance_to(task)
                _note_question(execution)
                execution.settle_by_state()
        case hub.Message():
            if copy.task is not None or ticket is None:
                raise ExecutorError("a message cannot follow a task; send it with a status instead")
            ticket.said = direct_answer(event, execution.task_id, execution.context_id)
        case _:
            raise ExecutorError(f"{type(event).__name__} is not an event")


def _note_question(execution: Execution) -> None:
    task = execution.copy.task
    if task is not None and task.status.state == hub.TASK_STATE_INPUT_REQUIRED:
        execution.asked_at = execution.copy.last


def _begin(execution: Execution) -> None:
    task = hub.Task(id=execution.task_id, context_id=execution.context_id)
    task.status.state = hub.TASK_STATE_SUBMITTED
    own_task(task, execution.task_id, execution.context_id, execution.engine.clock)
    _create(execution, task)


def _create(execution: Execution, task: hub.Task) -> None:
    ticket = execution.current
    if ticket is None:
        raise RuntimeError("a task is created by a run")
    message = ticket.message
    for own in task.history:
        if own.message_id == message.message_id:
            if own == ticket.run.message:
                own.CopyFrom(message)  # which may say more than the agent was shown
            break
    else:
        own = task.history.add()
        own.CopyFrom(message)
    own.task_id, own.context_id = execution.task_id, execution.context_id
    execution.copy.begin(task)
    _note_question(execution)
    for one in ticket.all():
        if one.wants is not Wants.OUTCOME:
            execution.settle(one)
    execution.settle_by_state()


def _uncancel() -> None:
    """Takes back a cancellation that was not meant for the task it arrived in."""
    task: asyncio.Task[Any] | None = asyncio.current_task()
    if task is not None:
        task.uncancel()
