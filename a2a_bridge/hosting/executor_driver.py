"""Runs the executor for one task: its runs and its `cancel`. `task_run` decides when they start and stop.

Rules:
1. An executor that fails or breaks the protocol fails its task, or its senders if there is no task.
2. In the phase CANCELING the cancellation decides about the task: it may be the cause of the run's failure.
3. The executor's `cancel` has limited time; then the run is stopped without it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import IllegalTransitionError
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting.agent_content import ExecutorError, task_for_agent
from a2a_bridge.hosting.crash_log import CrashLog
from a2a_bridge.hosting.executor import AgentExecutor, Event, FindTask, Lock, Run
from a2a_bridge.hosting.lease import Held, Lost, OwnershipLostError, RunLease
from a2a_bridge.hosting.limits import RunTimer, Turns, broken_protocol_error
from a2a_bridge.hosting.live_task import LiveTask
from a2a_bridge.hosting.pending_send import WAITING, PendingSend
from a2a_bridge.hosting.phases import WORKING, Phase, RunPhase
from a2a_bridge.hosting.reading import EventReaders
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock, Registered, Scope, Store

log = logging.getLogger("a2a_bridge.hosting")


#: events after which a run that never suspends yields to other coroutines
_STRETCH = 32

UNFINISHED = "the agent ended without finishing the task"
CRASHED = "the agent failed while working on the task"

#: the executor's `cancel`
CleanUp = Callable[[Run], AsyncIterator[Event]]
#: called when a limit of the run of a message has passed
TimedOut = Callable[[PendingSend, RunTimer], None]


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The collaborators of an engine's task runs."""

    executor: AgentExecutor
    store: Store
    readers: EventReaders
    clock: Clock
    options: EngineOptions
    #: True if events go to the outbox
    push: bool
    #: the executor's `reply`, instead of `execute` for messages that name no task; None to call `execute`
    reply: Callable[[Run], Awaitable[hub.Message]] | None = None
    #: finds other tasks of a caller
    find: FindTask | None = None
    #: locks that all runs share
    locks: Lock | None = None
    turns: Turns = field(default_factory=Turns)
    #: the exceptions of the executor
    crashes: CrashLog = field(default_factory=lambda: CrashLog(log))

    @property
    def resumes(self) -> bool:
        """True if another process can continue an unfinished run."""
        return self.store.durable and hasattr(self.executor, "resume")


class ExecutorDriver:
    """The executor at work on one task. It does not know the task run: that would be a reference cycle."""

    __slots__ = ("_engine", "_lease", "_live", "_phase", "_scope")

    def __init__(
        self, engine: EngineContext, scope: Scope, live: LiveTask, lease: RunLease, phase: RunPhase
    ) -> None:
        self._engine = engine
        self._scope = scope
        self._live = live
        self._lease = lease
        self._phase = phase

    async def perform(
        self, send: PendingSend, wait_for_memory: Callable[[], Awaitable[None]], timed_out: TimedOut
    ) -> None:
        """One run, from its first event to the state that it leaves the task in. wait_for_memory: returns
        when the run may continue; may end it. timed_out: called if it takes too long. Raises
        OwnershipLostError.
        """
        engine, live = self._engine, self._live
        memory, apply = engine.store.memory, live.apply
        timer: RunTimer | None = None
        events: Any = None
        count = 0
        try:
            try:
                if engine.turns.spent:
                    await engine.turns.next()
                if live.task is not None:
                    task_now = live.task_now()
                    send.run.continue_task(lambda: task_for_agent(task_now()))
                elif memory.limit and (full := memory.rejection()) is not None:
                    # Hundreds may be admitted before the first of them has added anything.
                    raise full
                events = self._executor_events(send)
                if engine.options.run_timeout > 0 or engine.options.silence_timeout > 0:
                    timer = RunTimer(engine.clock, engine.options, lambda timer: timed_out(send, timer))
                    timer.ask(live.task)
                async for event in events:
                    if timer is not None:
                        timer.on_event()
                    if live.task is None and type(event) is not hub.Message:
                        if send.push_config is not None:
                            await self._register(send.push_config)
                        if send.run.context.large:
                            await send.prepare()
                    apply(event, send)
                    del event  # it may be large, and this run may have to wait
                    lease = self._lease.now
                    if type(lease) is Lost:
                        raise OwnershipLostError
                    count += 1
                    if count % _STRETCH == 0:
                        await asyncio.sleep(0)
                    if type(lease) is Held and lease.writer.crowded:
                        await lease.writer.room()
                    if memory.pressed and memory.exceeded:
                        await wait_for_memory()
                        if type(lease) is Held:
                            await lease.writer.room()  # others that waited may have gone on before
                    if timer is not None:
                        timer.ask(live.task)
            finally:
                if timer is not None:
                    timer.close()
                aclose = getattr(events, "aclose", None)
                if aclose is not None:
                    await aclose()
        except BaseException as error:  # noqa: BLE001  raised again unless it is the executor's
            self._break_off(send, error)
        else:
            self._finish(send)

    def _break_off(self, send: PendingSend, error: BaseException) -> None:
        """A run has ended with an exception. Raises it again if it is not the executor's fault."""
        task_id = self._live.task_id
        match error:
            case asyncio.CancelledError():
                if self._phase.stopped:
                    send.take_back()
                    return
                # The engine did not cancel it: the executor cancelled itself.
                _uncancel()
                if self._phase.now is Phase.CANCELING:
                    self._finish(send)
                    return
                log.warning("the run of task %s cancelled itself", task_id)
                self._fail(send, CRASHED, internal_error())
            case A2AError():
                self._fail(send, error.message, error)
            case ExecutorError() | IllegalTransitionError():
                if self._live.ended:
                    log.warning("events after the end of task %s are dropped: %s", task_id, error)
                else:
                    log.error("the executor of task %s broke the protocol: %s", task_id, error)
                    self._fail(
                        send, f"the agent broke the protocol: {error}", broken_protocol_error(str(error))
                    )
            case OwnershipLostError():
                raise error
            case GeneratorExit():
                raise error
            # Also `sys.exit` and KeyboardInterrupt, which must not end the server, and groups with other
            # exceptions.
            case _:
                self._engine.crashes.error(error, "the executor of task %s failed", task_id)
                self._fail(send, CRASHED, internal_error())

    def _executor_events(self, send: PendingSend) -> AsyncIterator[Event]:
        engine = self._engine
        send.run.find, send.run.locks = engine.find, engine.locks
        events: AsyncIterator[Event]
        if send.resumes:
            events = getattr(engine.executor, "resume")(send.run)  # noqa: B009  optional member
        elif engine.reply is not None and self._live.task is None:
            events = _single(engine.reply(send.run))
        else:
            events = engine.executor.execute(send.run)
        if not hasattr(events, "__aiter__"):
            # `async def execute` without a `yield` in it, a frequent mistake.
            close = getattr(events, "close", None)
            if close is not None:
                close()
            raise ExecutorError(f"execute gave a {type(events).__name__}; it must be an async generator")
        return events

    async def _register(self, config: Registered) -> None:
        """Stores the push config that came with the message, before the task: alone it has no effect."""
        if self._phase.now is Phase.WORKING:
            self._phase.to(Phase.REGISTERING)
        try:
            await self._engine.store.push_configs.put(self._scope, config)
        finally:
            if self._phase.now is Phase.REGISTERING:
                self._phase.to(Phase.WORKING)

    def _finish(self, send: PendingSend) -> None:
        """The executor yields no more: it gave a direct response, a task at rest, or an unfinished task."""
        live = self._live
        if live.task is None:
            send.settle(send.direct_answer or broken_protocol_error("the agent ended without an answer"))
        elif live.state not in RUNNING:
            if live.state == hub.TASK_STATE_INPUT_REQUIRED:
                self._repeat_question(send)
            for sender in send.senders:
                if sender.now is WAITING:
                    live.settle(sender)
        elif self._phase.now is WORKING:  # in other phases, the cause of the end decides the state
            live.fail(UNFINISHED)

    def _repeat_question(self, send: PendingSend) -> None:
        """Ends streams of a run that left the task waiting for input without an event that says so."""
        if (
            self._phase.now is Phase.WORKING
            and send.begun_at is not None
            and self._live.asked_at <= send.begun_at
            and any(sender.wants == "stream" for sender in send.senders)
        ):
            self._live.set_state(hub.TASK_STATE_INPUT_REQUIRED)

    def _fail(self, send: PendingSend, text: str, error: A2AError) -> None:
        live = self._live
        if live.task is None:
            send.take_back()  # events before the failure are no response
            send.settle(error)
        elif self._phase.now is Phase.WORKING:
            if not live.ended:
                live.fail(text)
        elif self._phase.now is Phase.CANCELING and live.state not in RUNNING:
            for sender in send.senders:  # a rejected cancellation leaves the task as it is
                live.settle(sender)

    async def clean_up(self, clean_up: CleanUp, run: Run) -> None:
        """Runs the executor's `cancel`, for `cancel_timeout` seconds. Raises A2AError, OwnershipLostError."""
        # In an asyncio task: `cancel` may ignore its cancellation, and the A2A task has to end all the same.
        work = asyncio.create_task(
            self._clean_up_events(clean_up, run), name=f"a2a clean up {self._live.task_id}"
        )
        try:
            await asyncio.wait({work}, timeout=self._engine.options.cancel_timeout or None)
        finally:
            late = not work.done()
            if late:
                work.add_done_callback(_ignore)
                work.cancel()
        if late:
            log.error(
                "canceling task %s: the executor's cancel takes too long; its run is stopped",
                self._live.task_id,
            )
            return
        try:
            work.result()
        except (A2AError, OwnershipLostError):
            raise
        except BaseException as error:  # noqa: BLE001  the end of another asyncio task, not of this one
            task_id = self._live.task_id
            if isinstance(error, IllegalTransitionError) and self._live.ended:
                log.debug("task %s ended while it was being canceled: %s", task_id, error)
                return
            text = "canceling task %s: the executor's cancel failed; its run is stopped"
            self._engine.crashes.error(error, text, task_id)

    async def _clean_up_events(self, clean_up: CleanUp, run: Run) -> None:
        try:
            async for event in clean_up(run):
                if self._phase.stopped:
                    break  # too late
                self._live.apply(event, None)
        except (SystemExit, KeyboardInterrupt) as error:
            # They would end the event loop from an asyncio task.
            raise RuntimeError(f"the executor's cancel raised {type(error).__name__}") from error


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
