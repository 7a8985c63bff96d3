"""The run of one task: queues messages, drives the executor, ends by cancellation, timeout, close or loss.

Rules:
1. One run at a time works on a task; further messages are queued. Once the A2A task exists, no sender's
   departure ends it.
2. `_phase` says what happens, `lease` whether the task may be changed, the senders of each message who waits
   (transitions: `phases`, `lease`, `pending_send`). At most one asyncio task, `_ender`, ends the runs.
3. Nothing waits for a write except answers, and runs when the store has no room.
4. A run is given time to stop, and the executor's `cancel` time to clean up. Executors that ignore their
   cancellation keep running; a task that has ended takes none of their events.
5. A task run is idle once the store has everything; then it releases the lease on the task.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal

from a2a_bridge.core.errors import A2AError, changed_hands_error, closing_error, task_not_found
from a2a_bridge.core.event_log import Timer
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.hosting.agent_content import for_agent, task_for_agent
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.executor_driver import UNFINISHED, CleanUp, EngineContext, ExecutorDriver
from a2a_bridge.hosting.lease import Held, Opening, OwnershipLostError, RunLease
from a2a_bridge.hosting.limits import RunTimer, already_ended, not_cancelable, too_late
from a2a_bridge.hosting.live_task import LiveTask
from a2a_bridge.hosting.pending_send import LEFT, SETTLED, PendingSend, Sender
from a2a_bridge.hosting.phases import IDLE, OVER, WORKING, Phase, RunPhase
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.hosting.replicas import can_continue, resume_run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Stored, VersionConflictError

log = logging.getLogger("a2a_bridge.hosting")

#: seconds after which an idle task run that waits for its store asks it again
_AGAIN = 1.0
#: states of a task whose lease a run that ends does not release
_KEPT = RUNNING | TERMINAL

STOPPED_TEXT = "the agent was stopped before it finished the task"
LEFT_BEHIND = "the agent's process ended before it finished the task"

#: from Python 3.12 on an asyncio task can run at once, up to its first suspension
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class TaskRun:
    """One task while messages wait for it, an executor works on it, or something ends it."""

    # Most runs need none of these: they are set when something happens.
    #: the asyncio task in which the runs live, to wait for; None while no run is active
    producer: asyncio.Task[None] | None = None
    #: the asyncio task that ends the runs: a cancellation, a timeout, memory pressure
    _ender: asyncio.Task[None] | None = None
    #: the asyncio task that answers the senders after a loss
    _rescue: asyncio.Task[None] | None = None
    _current: PendingSend | None = None
    #: callers that are about to do something with the task
    _visits = 0
    #: messages that were admitted and are not queued yet: those whose content is being prepared, which the
    #: history does not have, and those that are being stored
    _preparing = _storing = 0
    #: for an idle run that waits until all changes are durable: for the news of it, or, after a write that
    #: failed, for the time to ask again
    _flush: Literal["news"] | Timer | None = None
    #: the size of the task when `_measured` was its last event
    _size = 0
    _measured = -1

    def __init__(
        self,
        engine: EngineContext,
        scope: Scope,
        task_id: str,
        context_id: str,
        on_idle: Callable[[TaskRun], bool],
        relieve: Callable[[TaskRun], Awaitable[None]],
        stored: Stored | None = None,
    ) -> None:
        """on_idle: called when nothing happens any more; False if the run is not registered. relieve: waits
        for memory, and may end a run. stored: the task, if it exists already.
        """
        self.scope = scope
        self.task_id = task_id
        self.context_id = context_id
        self._engine = engine
        self._on_idle = on_idle
        self._relieve = relieve
        self._phase = RunPhase()
        self.lease = RunLease(engine.store, scope, task_id, self._lost, stored, push=engine.push)
        #: the task; read it before the next await, and copy parts that are kept
        self.live = LiveTask(self.lease, task_id, context_id, engine.clock, stored)
        self._driver = ExecutorDriver(engine, scope, self.live, self.lease, self._phase)
        self._queue: list[PendingSend] = []
        #: True if the task begins here: a task that the store does not have never existed
        self._begins = stored is None

    # ------------------------------------------------------------------ questions

    @property
    def phase(self) -> Phase:
        """What happens at present."""
        return self._phase.now

    @property
    def at_work(self) -> bool:
        """True if the task is in a state in which an executor has to work on it."""
        return self.live.state in RUNNING

    @property
    def aborted(self) -> bool:
        """True if the runs were stopped before a task was created."""
        return self._phase.stopped and not (self.live.task is not None and type(self.lease.now) is Held)

    @property
    def backlog(self) -> int:
        """Messages that are queued or were admitted, without the message that can start at once."""
        return len(self._queue) + self._preparing + self._storing - (self.producer is None)

    @property
    def messages(self) -> int:
        """Messages in the task's history, with the messages that were admitted."""
        return self._preparing + (0 if self.live.task is None else len(self.live.task.history))

    @property
    def running(self) -> bool:
        """True if a run is active and nothing ends it."""
        return (
            self._current is not None
            and self._ender is None
            and not self._phase.stopped
            and not self.live.ended
        )

    @property
    def size(self) -> int:
        """Bytes of the task, measured once for each state of it."""
        task, last = self.live.task, self.lease.last
        if task is None:
            return 0
        if self._measured != last:
            self._size, self._measured = task.ByteSize(), last
        return self._size

    @property
    def _can_resume(self) -> bool:
        return self._engine.resumes and self.live.task is not None and can_continue(self.live.task)

    async def wait_settled(self) -> None:
        """Returns when all that is known of the task may be shown. Raises A2AError UNAVAILABLE."""
        try:
            await self.lease.wait_settled()
        except OwnershipLostError:
            raise changed_hands_error() from None

    async def flush(self) -> None:
        """Returns when all changes are durable, or the task is another process's. Raises UNAVAILABLE."""
        with suppress(OwnershipLostError):
            await self.lease.wait_settled()

    # ------------------------------------------------------------------ callers

    async def visit(self, *, orphaned: bool = False) -> None:
        """Acquires the lease on the task, and keeps the run from becoming idle until `end_visit`. orphaned:
        True if `resume_or_fail` follows; unless that resumes, the lease comes with its change. Raises
        VersionConflictError, A2AError UNAVAILABLE; `end_visit` has to be called then, too, and by a caller
        that is cancelled: the lease is acquired all the same, see `_attempt_ended`.
        """
        self._visits += 1
        await self.lease.acquire(self._attempt_ended, wait=not orphaned or self._can_resume)

    def end_visit(self) -> None:
        """The caller of `visit` is done with the task, has submitted its message, or has left before that."""
        self._visits -= 1
        self._check_idle()

    async def ready(self) -> None:
        """Returns when the task can take a message: a task that was left at work is resumed or fails first.
        Raises UNSUPPORTED_OPERATION for a task that has ended, A2AError UNAVAILABLE.
        """
        while self.at_work and self.producer is None and self._ender is not None:
            await asyncio.wait({self._ender})  # no run is active, and the cancellation may be rejected
        if self.at_work:
            self.resume_or_fail()
        if self.live.ended:
            await self.wait_settled()
            raise already_ended(self.task_id)

    async def join(self, message: hub.Message, prepare: Callable[[], Awaitable[None]]) -> None:
        """Puts a further message into the history of the task (whose ids it is given), durably. It counts
        against the limits from the first moment. prepare: stores content that has to precede the message.
        Raises UNSUPPORTED_OPERATION, A2AError UNAVAILABLE, and the errors of `prepare`.
        """
        self._preparing += 1
        try:
            await prepare()
        finally:
            self._preparing -= 1
        self._storing += 1
        try:
            if self.live.ended:
                await self.wait_settled()
                raise already_ended(self.task_id)
            try:
                await self.live.join(message)
            except VersionConflictError:
                raise changed_hands_error() from None
        finally:
            self._storing -= 1

    def submit(self, send: PendingSend) -> None:
        """Queues a message for the executor. The run may be over when this returns."""
        self.live.add(send)
        self._queue.append(send)
        self._start_next()

    def attach(self, send: PendingSend, sender: Sender) -> None:
        """A further sender of a message whose run is not over."""
        send.attach(sender)
        self.live.attached(send, sender)

    def abandon(self, send: PendingSend, sender: Sender) -> None:
        """A sender of a submitted message leaves without its response (earlier: `end_visit`). A run without a
        task and without senders is stopped: once the task exists, no sender's departure ends it. `_work`
        skips a message in the queue.
        """
        if sender.now not in SETTLED:
            sender.to(LEFT)
        if (
            self.live.task is None
            and self._phase.now is WORKING
            and not send.awaited
            and self.producer is not None
        ):
            self._phase.to(Phase.ENDING)
            self.producer.cancel()

    def resume_or_fail(self) -> None:
        """Resumes a task that was left at work and has no run, or fails it."""
        task = self.live.task
        if task is None or self.producer is not None or self._ender is not None:
            return
        if self._can_resume and self._phase.now is Phase.IDLE:
            run = resume_run(self.scope, task)
            run.request = for_agent(run.request)
            self.submit(PendingSend(run, run.message, None))
        else:
            if task.status.state in RUNNING:
                log.warning("task %s failed: %s", self.task_id, LEFT_BEHIND)
            self.live.fail_unfinished(LEFT_BEHIND)

    # ------------------------------------------------------------------ runs

    def _start_next(self, *, never: bool = False) -> None:
        """Starts the queued messages, or turns them away. never: their turn cannot come."""
        if not self._queue or self.producer is not None:
            return
        if never or self._phase.stopped or self.live.state in TERMINAL:
            self._turn_away()
        elif self._ender is None:
            self._phase.to(WORKING)
            loop, name = asyncio.get_running_loop(), f"a2a task {self.task_id}"
            producer = self.producer = asyncio.Task(self._work(), loop=loop, name=name, **_EAGER)
            if producer.done():  # it started eagerly (see _EAGER) and never suspended
                self._work_done(producer)
            else:
                producer.add_done_callback(self._work_done)

    async def _work(self) -> None:
        try:
            # A task that has ended takes no more messages: `_start_next` turns them away.
            while self._queue and self._phase.now is WORKING and self.live.state not in TERMINAL:
                send = self._queue.pop(0)
                if self.live.task is None and send.abandoned:
                    send.finish()
                    continue  # nothing has begun
                self._current = send
                send.begin(0 if self.live.task is None else self.lease.last)
                await self._driver.perform(send, lambda: self._relieve(self), self._on_timeout)
                self._current = None
                send.finish()
        except OwnershipLostError:
            log.debug("task %s has another owner; its run has ended", self.task_id)

    def _work_done(self, producer: asyncio.Task[None]) -> None:
        # Not at the end of `_work`: a cancellation may keep that from ever starting.
        if self._current is not None:
            self._current.finish()
            self._current = None
        self.producer = None
        if self._phase.now is WORKING:
            self._phase.to(IDLE)
        if self._queue:
            self._start_next(never=producer.cancelled())
        self._check_idle()

    def _turn_away(self) -> None:
        """Answers the queued messages of a run that stops."""
        queue, self._queue = self._queue, []
        answered_later = self._rescue is not None or (self._ender is not None and not self._ender.done())
        for send in queue:
            send.finish()
            if self.live.ended and not self.lease.lost:
                for sender in send.senders:
                    self.live.deliver(sender, already_ended(self.task_id))
            elif not answered_later:
                send.settle(changed_hands_error() if self.lease.lost else closing_error())

    # ------------------------------------------------------------------ ends: timeout, memory

    def _on_timeout(self, send: PendingSend, timer: RunTimer) -> None:
        if self._phase.stopped or not timer.expired:
            return
        if self._ender is not None:  # a cancellation, which the executor may reject
            self._ender.add_done_callback(lambda _: self._on_timeout(send, timer))
            return
        log.warning("task %s: %s", self.task_id, timer.expired)
        self._end(self._break_off(send, too_late(timer.expired)))

    async def break_off(self, error: A2AError) -> None:
        """Ends the present run with an error. Only while `running`. Raises A2AError UNAVAILABLE."""
        send = self._current
        if send is not None and self._ender is None:
            await asyncio.shield(self._end(self._break_off(send, error)))
            await self.flush()

    async def _break_off(self, send: PendingSend, error: A2AError) -> None:
        """Stops a run. Its task fails with the error's text; without a task, the senders get the error."""
        send.run.cancel()
        self._phase.to_ending()
        await self._stop_producer()
        if self.live.task is None:
            send.take_back()
            self.lease.part(release=True)
            self.live.give_up(error)
            send.finish()  # the run may ignore its cancellation; a repeated message need not wait for it
        else:
            self.live.fail(error.message)

    def _end(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs what ends the runs. Only while `_ender` is None."""
        self._ender = asyncio.create_task(work, name=f"a2a end {self.task_id}")
        self._ender.add_done_callback(self._end_done)
        return self._ender

    def _end_done(self, done: asyncio.Task[None]) -> None:
        self._ender = None
        if not done.cancelled():
            done.exception()  # retrieved here, because there may be no waiter
        self._start_next(never=done.cancelled())
        self._check_idle()

    async def _stop_producer(self) -> None:
        """Cancels the run and waits for its end, for `patience` seconds."""
        producer = self.producer
        if producer is None or producer.done():
            return
        producer.cancel()
        _, running = await asyncio.wait({producer}, timeout=self._engine.options.patience)
        if running:
            log.error("the executor of task %s ignores its cancellation", self.task_id)

    # ------------------------------------------------------------------ ends: cancellation

    async def cancel(self, run: Run) -> hub.Task:
        """Cancels the task. Concurrent callers get the same response. If the lease is lost meanwhile, the
        task of the new owner is the response. Raises TASK_NOT_CANCELABLE if the task ends otherwise,
        UNAVAILABLE if another process works on it now, and the errors of the executor's `cancel`.
        """
        try:
            await asyncio.shield(self._ender or self._end(self._cancel(run)))
            task = (await self.live.durable_snapshot()).task
        except OwnershipLostError:
            log.debug("task %s got a new owner while it was being canceled", self.task_id)
            stored = await self._engine.store.get(self.scope, self.task_id)
            if stored is None:
                raise task_not_found(self.task_id) from None
            task = stored.task
            if task.status.state not in TERMINAL:
                raise changed_hands_error() from None
        if task.status.state != hub.TASK_STATE_CANCELED:
            raise not_cancelable(task.id)
        return task

    async def _cancel(self, run: Run) -> None:
        """Runs the executor's `cancel`, which may reject, and ends the run and the task. Raises A2AError, and
        OwnershipLostError if the lease was lost meanwhile: then neither events nor errors of `cancel` count.
        """
        if self._current is not None:
            self._current.run.cancel()
        run.cancel()
        run.task = task_for_agent(self.live.snapshot().task)
        clean_up: CleanUp | None = getattr(self._engine.executor, "cancel", None)
        if clean_up is not None and not self._phase.stopped and not self.live.ended:
            producer = self.producer
            self._phase.to(Phase.CANCELING)
            try:
                await self._driver.clean_up(clean_up, run)
            except BaseException as error:
                if isinstance(error, A2AError) and self.lease.lost:
                    raise OwnershipLostError from error
                if isinstance(error, A2AError) and producer is not None and producer.done():
                    self.live.fail_unfinished(UNFINISHED)  # it ended because of the rejected cancellation
                if self._phase.now is Phase.CANCELING:
                    self._phase.to(Phase.IDLE if self.producer is None else Phase.WORKING)
                raise
        self._phase.to_ending()
        await self._stop_producer()
        if self.lease.lost:
            raise OwnershipLostError
        if not self.live.ended:
            self.live.set_state(hub.TASK_STATE_CANCELED)

    # ------------------------------------------------------------------ ends: the engine's close

    async def stop(self) -> None:
        """Ends the run because the engine closes. An unfinished task fails, unless another process can resume
        it: then it keeps its state and its lease, which ends with this process.
        """
        self._visits += 1  # it must not release its lease in between
        try:
            await self._stop()
        finally:
            self.end_visit()
        if self._rescue is not None:
            self._rescue.cancel()

    async def _stop(self) -> None:
        if self._ender is not None:
            await asyncio.wait({self._ender}, timeout=self._engine.options.patience)
        self._phase.to_ending()
        resumes = self._engine.resumes and self._current is not None
        await self._stop_producer()
        task = self.live.task
        if task is None or type(self.lease.now) is not Held:
            # There is no task to end, or it is another process's, or may become so.
            self.lease.part(release=True)
            self.live.give_up(closing_error())
            return
        self.live.give_up(closing_error(), only_queued=True)
        if resumes and not self.live.ended and can_continue(task):
            self._phase.to(Phase.HANDED_OVER)
            self.lease.hand_over()
            self.live.give_up(closing_error())
        elif task.status.state in RUNNING:
            log.warning("task %s failed: %s", self.task_id, STOPPED_TEXT)
            self.live.fail(STOPPED_TEXT)
        else:
            self.live.give_up(closing_error())  # senders whose run has begun and left no new state

    # ------------------------------------------------------------------ idleness

    def _check_idle(self, *, waits: bool = True) -> None:
        """Ends the task run when nothing happens any more. waits: False not to wait for the store."""
        lease = self.lease.now
        if (
            self.producer is not None
            or self._ender is not None
            or self._visits
            or self._rescue is not None
            or type(lease) is Opening
        ):
            return
        if self.live.state in RUNNING and type(lease) is Held:
            # Its earlier owner died, and the callers that acquired it here did not start a run.
            self.resume_or_fail()
            self._check_idle(waits=waits)
        elif not waits or not self.lease.pending:
            self._detach()
        elif self._flush is None:
            self._flush = "news"
            self.lease.when_settled(self._flush_done)

    def _attempt_ended(self) -> None:
        """The attempt to acquire the lease has succeeded or failed, or the lease is lost already. Its callers
        may have left meanwhile, and `stop` may have been called; this alone decides about the lease then.
        Without callers, a task at work is resumed or fails, and any other lease is released (`_check_idle`).
        When the engine closes, others get a task at work.
        """
        if self._phase.stopped:
            if self.at_work:
                self.lease.hand_over()
            else:
                self.lease.part(release=True)
        self._check_idle()

    def _flush_done(self, error: Exception | None) -> None:
        if error is None or isinstance(error, OwnershipLostError):
            self._flush = None
            self._check_idle()
        else:
            log.warning("task %s waits for its store", self.task_id)
            self._flush = self._engine.clock.call_later(_AGAIN, lambda: self._flush_done(None))

    def give_up_flush(self) -> None:
        """The engine has closed, and the store did not work for too long: waits for it no more."""
        if self._flush is not None:
            self._check_idle(waits=False)

    def _detach(self) -> None:
        """Nothing happens any more: releases the lease. A task that is at work or handed over keeps it, so
        that other processes find an orphan after the end of this one.
        """
        if not self._on_idle(self):
            return  # it was never registered, or another run has its place
        self._phase.to(OVER)
        if self._flush is not None and self._flush != "news":
            self._flush.cancel()
        # The write of a terminal state releases the lease, too.
        self.lease.part(release=self.live.state not in _KEPT)

    # ------------------------------------------------------------------ loss of the lease

    def _lost(self) -> None:
        """Another process owns the task. The run ends. The new owner's result answers the senders (by
        `_answer_from_store`), and the caller of a cancellation (by `cancel`, when the executor's own ends).
        """
        if self._phase.now is not Phase.LOST:
            self._phase.to(Phase.LOST)
        if self.producer is None and not self.live.awaited:
            return  # another process was faster to take it over, or only a cancellation is at work here
        log.warning("task %s was changed by another process; its run here ends", self.task_id)
        if self.producer is not None:
            self.producer.cancel()
        self._rescue = asyncio.create_task(self._answer_from_store(), name=f"a2a lost {self.task_id}")
        self._rescue.add_done_callback(self._on_rescue)

    async def _answer_from_store(self) -> None:
        """Answers the senders with the result of the new owner of the task. Raises A2AError."""
        stored = await self._engine.store.get(self.scope, self.task_id)
        if stored is None:
            # Senders that have not seen a task may send their messages again.
            raise changed_hands_error() if self._begins else task_not_found(self.task_id)
        self.live.settle_elsewhere(stored.task, final=False)
        if self.live.awaited:
            found = await self._engine.readers.outcome(self.scope, TaskSnapshot(stored.task, stored.last))
            self.live.settle_elsewhere(found.task, final=True)

    def _on_rescue(self, done: asyncio.Task[None]) -> None:
        self._rescue = None
        if done.cancelled():
            self.live.give_up(closing_error())
        elif (error := done.exception()) is not None:
            if not isinstance(error, A2AError):
                log.error("the senders of task %s could not be answered", self.task_id, exc_info=error)
                error = changed_hands_error()
            self.live.give_up(error)
        self._check_idle()
