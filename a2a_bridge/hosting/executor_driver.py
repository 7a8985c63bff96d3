"""Runs the executor for one task: its runs and its `cancel`. It does not decide when they start or stop.

Rules:
1. An executor that fails or breaks the protocol fails its task, or its senders if there is no task.
2. In the phase CANCELING the cancellation decides about the task: it may be the cause of the run's failure.
3. The executor's `cancel` has limited time; then the run is stopped without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import IllegalTransitionError
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.hosting.agent_view import task_for_agent
from a2a_bridge.hosting.engine_context import EngineContext
from a2a_bridge.hosting.event_checks import ExecutorError
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.pending_send import Answers, PendingSend, Wants
from a2a_bridge.hosting.phases import Phase, RunPhase
from a2a_bridge.hosting.ports import Scope
from a2a_bridge.hosting.pressure import MemoryUser, Pressure
from a2a_bridge.hosting.refusals import broken
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.run_timer import RunTimer
from a2a_bridge.hosting.task_events import TaskEvents
from a2a_bridge.hosting.working_copy import OwnershipLostError, WorkingCopy
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")

#: events after which a run that never suspends yields to other coroutines
_STRETCH = 32

UNFINISHED = "the agent ended without finishing the task"
CRASHED = "the agent failed while working on the task"

#: the executor's `cancel`
CleanUp = Callable[[Run], AsyncIterator[Event]]
#: called when a limit has passed: with the message, the text for the caller, and whether that still applies
#: (see RunTimer)
TimedOut = Callable[[PendingSend, str, Callable[[], bool]], None]


class ExecutorDriver:
    """The executor at work on one task."""

    __slots__ = (
        "_answers",
        "_copy",
        "_engine",
        "_events",
        "_phase",
        "_pressure",
        "_scope",
        "_task_id",
        "_timed_out",
        "_user",
    )

    def __init__(
        self,
        engine: EngineContext,
        scope: Scope,
        phase: RunPhase,
        copy: WorkingCopy,
        answers: Answers,
        events: TaskEvents,
        pressure: Pressure,
        user: MemoryUser,
        timed_out: TimedOut,
    ) -> None:
        """user: the task run, for the memory pressure. timed_out: called when a run takes too long."""
        self._engine = engine
        self._scope = scope
        self._task_id = copy.task_id
        self._phase = phase
        self._copy = copy
        self._answers = answers
        self._events = events
        self._pressure = pressure
        self._user = user
        self._timed_out = timed_out

    async def perform(self, send: PendingSend) -> None:
        """One run, from its first event to the state it leaves the task in. Raises OwnershipLostError."""
        if self._copy.task is not None:
            send.run.task = task_for_agent(self._copy.snapshot())
        try:
            await self._consume(send, self._executor_events(send))
        except asyncio.CancelledError:
            if self._phase.stopped:
                return
            # The engine did not cancel it: the executor cancelled itself.
            _uncancel()
            if self._phase.now is Phase.CANCELING:
                self._finished(send)
                return
            log.warning("the run of task %s cancelled itself", self._task_id)
            self._failed(send, CRASHED, internal_error())
        except OwnershipLostError:
            raise
        except A2AError as error:
            self._failed(send, error.message, error)
        except (ExecutorError, IllegalTransitionError) as error:
            if self._copy.ended:
                log.warning("events after the end of task %s are dropped: %s", self._task_id, error)
            else:
                log.error("the executor of task %s broke the protocol: %s", self._task_id, error)  # noqa: TRY400  the text says it all
                self._failed(send, f"the agent broke the protocol: {error}", broken(str(error)))
        except Exception:
            log.exception("the executor of task %s failed", self._task_id)
            self._failed(send, CRASHED, internal_error())
        else:
            self._finished(send)

    def _executor_events(self, send: PendingSend) -> AsyncIterator[Event]:
        engine = self._engine
        if send.resumes:
            resume: Callable[[Run], AsyncIterator[Event]]
            resume = getattr(engine.executor, "resume")  # noqa: B009  optional member
            return resume(send.run)
        if engine.reply is not None and self._copy.task is None:
            return _single(engine.reply(send.run))
        return engine.executor.execute(send.run)

    async def _consume(self, send: PendingSend, events: AsyncIterator[Event]) -> None:
        if not hasattr(events, "__aiter__"):
            # `async def execute` without a `yield` in it, a frequent mistake.
            close = getattr(events, "close", None)
            if close is not None:
                close()
            raise ExecutorError(f"execute gave a {type(events).__name__}; it must be an async generator")
        count = 0
        copy, pressure, apply = self._copy, self._pressure, self._events.apply
        memory = pressure.memory
        options = self._engine.options
        timer = None
        if options.run_timeout > 0 or options.silence_timeout > 0:
            timer = RunTimer(self._engine.clock, options, lambda *expired: self._timed_out(send, *expired))
        try:
            if timer is not None:
                timer.ask(copy.task)
            async for event in events:
                if timer is not None:
                    timer.hear()
                if send.push_config is not None and copy.task is None and not isinstance(event, hub.Message):
                    await self._register(send)
                apply(event, send)
                if copy.lost:
                    raise OwnershipLostError
                count += 1
                if count % _STRETCH == 0:
                    await asyncio.sleep(0)
                writer = copy.writer
                if writer is not None and writer.crowded:
                    await writer.room()
                if memory.pressed and memory.exceeded:
                    await pressure.relieved(self._user)
                if timer is not None:
                    timer.ask(copy.task)
        finally:
            if timer is not None:
                timer.close()
            aclose = getattr(events, "aclose", None)
            if aclose is not None:
                await aclose()

    async def _register(self, send: PendingSend) -> None:
        """Stores the push config that came with the message, before the task: alone it has no effect."""
        config = send.push_config
        if config is None:
            return
        if self._phase.now is Phase.WORKING:
            self._phase.to(Phase.REGISTERING)
        try:
            await self._engine.store.push_configs.put(self._scope, config)
        finally:
            if self._phase.now is Phase.REGISTERING:
                self._phase.to(Phase.WORKING)
        send.push_config = None

    def _finished(self, send: PendingSend) -> None:
        """The executor yields no more: it gave a direct answer, a task at rest, or an unfinished task."""
        task = self._copy.task
        if task is None:
            for one in send.all():
                one.settle(send.said or broken("the agent ended without an answer"))
        elif task.status.state not in RUNNING:
            if task.status.state == hub.TASK_STATE_INPUT_REQUIRED:
                self._repeat_question(send)
            for one in send.all():
                if not one.decided and not one.answer.done():
                    self._answers.settle(one)
        elif self._phase.now is Phase.WORKING:  # in other phases, the cause of the end decides the state
            self._events.fail(UNFINISHED)

    def _repeat_question(self, send: PendingSend) -> None:
        """Ends streams of a run that left the task waiting for input without an event that says so."""
        if (
            self._phase.now is Phase.WORKING
            and send.begun_at is not None
            and self._events.asked_at <= send.begun_at
            and any(one.wants is Wants.STREAM for one in send.all())
        ):
            self._events.set_state(hub.TASK_STATE_INPUT_REQUIRED)

    def _failed(self, send: PendingSend, text: str, error: A2AError) -> None:
        task = self._copy.task
        if task is None:
            for one in send.all():
                one.said = None  # what preceded the failure is no answer
                one.settle(error)
        elif self._phase.now is Phase.WORKING:
            if not self._copy.ended:
                self._events.fail(text)
        elif self._phase.now is Phase.CANCELING and task.status.state not in RUNNING:
            for one in send.all():  # a refused cancellation leaves the task as it is
                self._answers.settle(one)

    async def clean_up(self, clean_up: CleanUp, run: Run) -> None:
        """Runs the executor's `cancel`, for `cancel_timeout` seconds.

        Raises its A2AError, and OwnershipLostError.
        """
        # In an asyncio task, because it may ignore its cancellation, and the A2A task has to end all the
        # same.
        work = asyncio.create_task(self._clean_up_events(clean_up, run), name=f"a2a clean up {self._task_id}")
        try:
            await asyncio.wait({work}, timeout=self._engine.options.cancel_timeout or None)
        finally:
            late = not work.done()
            if late:
                work.add_done_callback(_ignore)
                work.cancel()
        if late:
            log.error(
                "canceling task %s: the executor's cancel takes too long; its run is stopped", self._task_id
            )
            return
        try:
            work.result()
        except (A2AError, OwnershipLostError):
            raise
        except (Exception, asyncio.CancelledError):
            log.exception(
                "canceling task %s: the executor's cancel failed; its run is stopped", self._task_id
            )

    async def _clean_up_events(self, clean_up: CleanUp, run: Run) -> None:
        async for event in clean_up(run):
            if self._phase.stopped:
                break  # too late
            self._events.apply(event, None)


async def _single(answer: Awaitable[hub.Message]) -> AsyncIterator[Event]:
    yield await answer


def _ignore(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        log.debug("an executor's cancel that took too long has failed: %r", error)


def _uncancel() -> None:
    """Undoes a cancellation that was not meant for the current asyncio task."""
    task: asyncio.Task[Any] | None = asyncio.current_task()
    if task is not None:
        task.uncancel()
