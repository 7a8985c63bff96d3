"""How runs are ended from outside: by a caller, by the engine's close. Not by themselves, nor by a timeout.

Rules:
1. One thing at a time ends a task; whoever else wants it to end waits for that.
2. A run gets so many seconds to stop, and the executor's `cancel` to clean up. What is deaf goes on, and nothing of
   what it says counts.
3. A run that ends because it is told of a cancellation has not failed: the cancellation says what the task becomes.
4. No run begins while a cancellation is open. Whoever waits has its turn when it is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from a2a_bridge.core.errors import A2AError, task_not_found
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.hosting import producing
from a2a_bridge.hosting.agent_view import task_for_agent
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.recovery import goes_on
from a2a_bridge.hosting.refusals import closing, not_cancelable
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.working_copy import OwnershipLostError
from a2a_bridge.pb import lf_a2a_v1 as hub

if TYPE_CHECKING:
    from a2a_bridge.hosting.execution import Execution

log = logging.getLogger("a2a_bridge.hosting")

STOPPED = "the agent was stopped before it finished the task"


async def cancel(execution: Execution, run: Run) -> hub.Task:
    """Cancels the task; all who ask at once get the same answer.

    Raises TASK_NOT_CANCELABLE when the task ends otherwise, and what the executor's `cancel` raises.
    """
    try:
        await asyncio.shield(execution.ending or execution.end(_cancel(execution, run)))
        task = (await execution.copy.shown()).task
    except OwnershipLostError:
        log.debug("task %s was ended elsewhere while it was being canceled", execution.task_id)
        stored = await execution.engine.store.get(execution.scope, execution.task_id)
        if stored is None:
            raise task_not_found(execution.task_id) from None
        task = stored.task
    if task.status.state != hub.TASK_STATE_CANCELED:
        raise not_cancelable(task.id)
    return task


async def _cancel(execution: Execution, run: Run) -> None:
    if execution.current is not None:
        execution.current.run.cancel()
    run.cancel()
    run.task = task_for_agent(execution.copy.snapshot())
    clean_up: Callable[[Run], AsyncIterator[Event]] | None
    clean_up = getattr(execution.engine.executor, "cancel", None)
    if clean_up is not None:
        producer = execution.producer
        execution.canceling = True
        try:
            await _cleaned_up(execution, clean_up, run)
        except A2AError:
            if producer is not None and producer.done():  # for a cancellation that is refused now
                producing.unfinished(execution)
            raise
        finally:
            execution.canceling = False
    execution.stopping = True
    await execution.halt()
    if execution.copy.lost:
        raise OwnershipLostError
    if not execution.ended:
        status = hub.TaskStatusUpdateEvent()
        status.status.state = hub.TASK_STATE_CANCELED
        producing.take(execution, status, None)


async def _cleaned_up(
    execution: Execution, clean_up: Callable[[Run], AsyncIterator[Event]], run: Run
) -> None:
    """Lets the executor's `cancel` do its work, for so many seconds. Raises its A2AError, and OwnershipLostError."""
    # In a task of its own, because it may be deaf to being cancelled, and the task is to end all the same.
    work = asyncio.create_task(_clean_up(execution, clean_up, run), name=f"a2a clean up {execution.task_id}")
    try:
        await asyncio.wait({work}, timeout=execution.engine.options.cancel_timeout or None)
    finally:
        late = not work.done()
        if late:
            work.add_done_callback(_unheard)
            work.cancel()
    if late:
        log.error(
            "cancelling task %s: the executor's cancel takes too long; its run is ended without it",
            execution.task_id,
        )
        return
    try:
        work.result()
    except (A2AError, OwnershipLostError):
        raise
    except (Exception, asyncio.CancelledError):
        log.exception("cancelling task %s: the executor's cancel failed; its run is ended", execution.task_id)


async def _clean_up(execution: Execution, clean_up: Callable[[Run], AsyncIterator[Event]], run: Run) -> None:
    async for event in clean_up(run):
        if execution.stopping or execution.copy.lost:
            break  # it is too late
        producing.take(execution, event, None)


def _unheard(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        log.debug("what was left of an executor's cancel has failed: %r", error)


async def stop(execution: Execution) -> None:
    """Ends the run because the engine closes. A task that this leaves unfinished fails, unless another process can go
    on with it: then it is left as it is, with its hold, which is free when this process is gone.
    """
    execution.visits += 1  # so that it does not give up its hold in between
    try:
        await _stop(execution)
    finally:
        execution.leave()


async def _stop(execution: Execution) -> None:
    if execution.ending is not None:
        await asyncio.wait({execution.ending}, timeout=execution.engine.options.patience)
    execution.stopping = True
    resumes = execution.engine.resumes and execution.current is not None
    await execution.halt()
    task = execution.task
    if task is None or execution.copy.lost or execution.copy.writer is None:
        # Nothing of ours to end: there is no task, or it is another's, or may be in a moment.
        execution.copy.shut()
        execution.give_up(closing())
        return
    execution.give_up(closing(), only_waiting=True)
    if resumes and not execution.ended and goes_on(task):
        execution.handed_over = True
        execution.copy.shut()
        execution.give_up(closing())
    elif task.status.state in RUNNING:
        execution.fail(STOPPED)
    else:
        execution.give_up(closing())  # a run for which the task waits still, and which has said nothing
