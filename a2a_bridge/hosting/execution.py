"""The live side of one task: who works on it and who waits for it. Not what the runs say: see `producing`.

Rules:
1. One run at a time works on a task; further messages wait their turn. Runs live in one asyncio task, which no
   caller's departure ends once the A2A task exists.
2. An event is applied to the working copy and given to the store at once; who waits is answered when it is durable.
3. It is at rest only when the store has everything; then it gives up the hold on the task.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from a2a_bridge.core.errors import A2AError, task_not_found
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.hosting import cancelling, producing
from a2a_bridge.hosting.clock import Clock
from a2a_bridge.hosting.executor import AgentExecutor
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.hosting.pending_send import PendingSend, Wants
from a2a_bridge.hosting.ports import GapError, Scope, Store, Stored, VersionConflictError
from a2a_bridge.hosting.pressure import Pressure
from a2a_bridge.hosting.recovery import take_up
from a2a_bridge.hosting.refusals import already_ended, changed_hands, closing
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.views import AT_REST, state_of
from a2a_bridge.hosting.working_copy import OwnershipLostError, WorkingCopy, as_answer
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")

#: seconds after which an execution that only waits for its store asks it again
_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What executions work with. The same for all of an engine.

    push: whether events go to the outbox. reply: answers messages to no task, in place of `execute`.
    """

    executor: AgentExecutor
    store: Store
    clock: Clock
    options: EngineOptions
    push: bool
    reply: Callable[[Run], Awaitable[hub.Message]] | None = None

    @property
    def resumes(self) -> bool:
        """Whether another process may go on with what a run has begun."""
        return self.store.durable and hasattr(self.executor, "resume")


class Execution:
    """One task while something happens to it.

    copy: the task. producer: the asyncio task in which the runs live. ending: the one in which something ends them.
    canceling: the executor cleans up after a cancellation, which it may refuse.
    visits: callers that are about to do something with it. joining: messages that were let in and are not queued yet.
    unwritten: those of them that the history does not have yet. stopping: somebody of us has ended the runs: the
    engine's close, a cancellation, a timeout, a store that knows better. handed_over: the task is left for another
    process to go on with, so its hold is kept until this one is gone. asked_at: the number of the last event here that
    left the task waiting for input; 0 for none.
    """

    def __init__(
        self,
        engine: EngineContext,
        scope: Scope,
        task_id: str,
        context_id: str,
        on_idle: Callable[[Execution], None],
        pressure: Pressure,
        stored: Stored | None = None,
    ) -> None:
        self.engine = engine
        self.pressure = pressure
        self.scope = scope
        self.task_id = task_id
        self.context_id = context_id
        self.copy = WorkingCopy(engine.store, scope, task_id, self._on_lost, stored, push=engine.push)
        self.producer: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None
        self.waiting: deque[PendingSend] = deque()
        self.current: PendingSend | None = None
        self.visits = 0
        self.joining = 0
        self.unwritten = 0
        self.asked_at = 0
        self.creating = False
        self.stopping = False
        self.canceling = False
        self.handed_over = False
        self._on_idle = on_idle
        #: accepted and not answered yet
        self._tickets: list[PendingSend] = []
        self._rescue: asyncio.Task[None] | None = None
        self._resting = False
        #: the task begins here, so that where it is not stored it never was
        self._begins = stored is None

    # ------------------------------------------------------------------ what callers do

    @property
    def task(self) -> hub.Task | None:
        """The working copy; None until the first event. Readers copy it and await nothing in between."""
        return self.copy.task

    @property
    def ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.copy.ended

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(not ticket.answer.done() for ticket in self._tickets)

    @property
    def busy(self) -> bool:
        """Whether anything happens, or may happen at once."""
        if self.producer is not None or self.ending is not None or self.visits or self._rescue is not None:
            return True
        return self.copy.opening

    @property
    def vain(self) -> bool:
        """Whether runs were ended and there is no task that would tell who asks now."""
        return self.stopping and not (self.task is not None and self.copy.writable)

    async def hold(self) -> None:
        """Makes sure that nobody else writes the task. Raises VersionConflictError, A2AError UNAVAILABLE."""
        await self.copy.hold(self.tell_idle)

    def let_go(self) -> None:
        """Gives up the hold on the task, unless that has to be found with it: what is left at work is an orphan when
        this process is gone, and only then.
        """
        self.copy.part(release=not self.handed_over and not self.at_work)

    @property
    def at_work(self) -> bool:
        """Whether the task is in a state in which somebody has to work on it."""
        task = self.copy.task
        return task is not None and task.status.state in RUNNING

    async def settled(self) -> None:
        """Returns when all that is known of the task may be shown. Raises A2AError UNAVAILABLE."""
        try:
            await self.copy.settled()
        except OwnershipLostError:
            raise changed_hands() from None

    def leave(self) -> None:
        """A visit is over."""
        self.visits -= 1
        self.tell_idle()

    async def join(self, message: hub.Message) -> None:
        """Puts a further message into the history of the task (whose ids it is given), durably."""
        if self.ended:
            await self.settled()
            raise already_ended(self.task_id)
        try:
            await self.copy.join(message)
        except VersionConflictError:
            raise changed_hands() from None

    def submit(self, ticket: PendingSend) -> None:
        """Queues a message for the executor. Whoever calls it may find it worked off when it returns."""
        if self._tickets:
            self._tickets = [one for one in self._tickets if not one.answer.done()]
        self._tickets.append(ticket)
        self.waiting.append(ticket)
        if ticket.wants is not Wants.OUTCOME and self.copy.task is not None:
            self.settle(ticket)
        if self.producer is None or self.producer.done():
            self._produce()

    def attach(self, first: PendingSend, wants: Wants) -> PendingSend:
        """A further ticket for a message whose run is not over."""
        ticket = PendingSend(first.run, first.message, wants)
        ticket.begun_at = first.begun_at
        if first.waiters is None:
            first.waiters = [first]
        first.waiters.append(ticket)
        ticket.waiters = first.waiters
        self._tickets.append(ticket)
        if self.task is not None:
            state = self.task.status.state
            begun = ticket.begun_at is not None and self.copy.last > ticket.begun_at
            if wants is not Wants.OUTCOME or state in TERMINAL or (state in INTERRUPTED and begun):
                self.settle(ticket)
        return ticket

    def abandon(self, ticket: PendingSend) -> None:
        """The sender of a message has gone. A run that has not made a task has nobody to work for."""
        alone = all(one is ticket or one.answer.done() for one in ticket.all())
        if self.task is None and not self.creating and alone and self.producer is not None:
            self.stopping = True
            self.producer.cancel()
        if not ticket.answer.cancel() and not ticket.answer.cancelled():
            ticket.answer.exception()  # so that nobody complains that it was never looked at

    async def cancel(self, run: Run) -> hub.Task:
        """Cancels the task; all who ask at once get the same answer. See `cancelling.cancel`."""
        return await cancelling.cancel(self, run)

    async def stop(self) -> None:
        """Ends the run because the engine closes. See `cancelling.stop`."""
        await cancelling.stop(self)
        if self._rescue is not None:
            self._rescue.cancel()

    def end(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Has something end the runs. Only while nothing else does."""
        self.ending = asyncio.create_task(work, name=f"a2a end {self.task_id}")
        self.ending.add_done_callback(self._ended)
        return self.ending

    def _ended(self, done: asyncio.Task[None]) -> None:
        self.ending = None
        if not done.cancelled():
            done.exception()  # whoever waits gets it; nobody may be left
        self._next(never=done.cancelled())
        self.tell_idle()

    async def halt(self) -> None:
        """Stops the producer, waiting as long as a polite one may take. A deaf one goes on unheard."""
        producer = self.producer
        if producer is None or producer.done():
            return
        producer.cancel()
        _, deaf = await asyncio.wait({producer}, timeout=self.engine.options.patience)
        if deaf:
            log.error("the executor of task %s ignores its cancellation", self.task_id)

    def fail(self, text: str) -> None:
        """Ends the task as FAILED, if it has not ended."""
        producing.fail(self, text)

    # ------------------------------------------------------------------ the producer

    def _produce(self) -> None:
        producer = self.producer = _spawn(self._work(), f"a2a task {self.task_id}")
        if producer.done():  # it began at once (see _EAGER) and never had to wait
            self._producer_done(producer)
        else:
            producer.add_done_callback(self._producer_done)

    async def _work(self) -> None:
        try:
            while self.waiting and not (self.stopping or self.canceling):
                ticket = self.waiting.popleft()
                if self.copy.task is None:
                    if ticket.answer.cancelled() and all(one.answer.cancelled() for one in ticket.all()):
                        ticket.end()
                        continue  # nobody waits for it any more, and nothing has begun
                elif self.ended:
                    for one in ticket.all():
                        self.deliver(one, already_ended(self.task_id))
                    ticket.end()
                    continue
                self.current = ticket
                ticket.begun_at = self.copy.last
                if ticket.waiters is not None:
                    for one in ticket.waiters:
                        one.begun_at = ticket.begun_at
                await producing.perform(self, ticket)
                self.current = None
                ticket.end()
        except OwnershipLostError:
            log.debug("the run of task %s gave way", self.task_id)

    def _producer_done(self, producer: asyncio.Task[None]) -> None:
        # Not at the end of `_work`, which a cancellation may keep from ever beginning.
        if self.producer is not producer:
            return  # the next one has begun already
        if self.current is not None:
            self.current.end()
        self.producer = None
        self._next(never=producer.cancelled())
        self.tell_idle()

    def _next(self, *, never: bool) -> None:
        """Sees to those who wait and have no producer. never: their turn cannot come."""
        if not self.waiting or self.producer is not None:
            return
        if never or self.stopping or self.ended:
            self._turn_away()
        elif self.ending is None:
            self._produce()  # the last one gave way to a cancellation, which was refused

    def _turn_away(self) -> None:
        """The turn of those who wait will not come: the runs were ended while they were let in."""
        waiting, self.waiting = self.waiting, deque()
        settled_later = self._rescue is not None or (self.ending is not None and not self.ending.done())
        for ticket in waiting:
            ticket.end()
            for one in ticket.all():
                if self.ended:
                    self.deliver(one, already_ended(self.task_id))
                elif not settled_later:
                    one.settle(changed_hands() if self.copy.lost else closing())

    # ------------------------------------------------------------------ answers

    def settle(self, ticket: PendingSend) -> None:
        """Answers with the task as it is now, if the sender still waits for it."""
        if ticket.decided or ticket.answer.done():
            return
        if ticket.wants is Wants.STREAM:
            ticket.settle(None)  # what it shows then, it reads from the store
        else:
            self.deliver(ticket, hub.SendMessageResponse(task=self.task))

    def deliver(self, ticket: PendingSend, answer: hub.SendMessageResponse | A2AError) -> None:
        """Gives an answer that says something about the task, as soon as that is durable."""
        if not self.copy.pending:
            ticket.settle(answer)
            return

        def tell(error: Exception | None) -> None:
            # What has moved elsewhere is answered from there, see `_rescue_callers`.
            if not isinstance(error, OwnershipLostError):
                ticket.settle(answer if error is None else as_answer(error))

        ticket.decided = True
        self.copy.when_settled(tell)

    def settle_by_state(self) -> None:
        """Answers whoever waited for the state that the task is in."""
        task = self.copy.task
        state = hub.TASK_STATE_UNSPECIFIED if task is None else task.status.state
        if state in TERMINAL:
            for ticket in self._tickets:
                if ticket.begun_at is None and not ticket.decided:
                    self.deliver(ticket, already_ended(self.task_id))
                else:
                    self.settle(ticket)
        elif state in INTERRUPTED:
            for ticket in self._tickets:
                if ticket.begun_at is not None:
                    self.settle(ticket)

    def give_up(self, error: A2AError, *, only_waiting: bool = False) -> None:
        """Tells whoever waits that nothing comes of it. only_waiting: those whose turn has not come."""
        for ticket in self._tickets:
            if ticket.decided and not self.copy.lost:
                continue  # the store brings its answer
            if not only_waiting or ticket.begun_at is None or self.task is None:
                ticket.settle(error)

    # ------------------------------------------------------------------ rest, and loss

    def tell_idle(self) -> None:
        """Says so if nothing happens any more."""
        if self.busy or self._goes_on():
            return
        if self.copy.lost or not self.copy.pending:
            self._on_idle(self)
        elif not self._resting:
            self._resting = True
            self.copy.when_settled(self._rested)

    def _goes_on(self) -> bool:
        """Sees to a task that is at work and has nobody who works on it; whether something happens to it now.

        It was somebody's who is dead, and those who came to it here did not get to working on it.
        """
        if self.at_work and self.copy.writable and not self.handed_over:
            take_up(self)
        return self.busy

    def _rested(self, error: Exception | None) -> None:
        if error is None or isinstance(error, OwnershipLostError):
            self._resting = False
            self.tell_idle()
        else:
            log.warning("what happened to task %s waits for its store", self.task_id)
            self.engine.clock.call_later(_AGAIN, lambda: self._rested(None))

    def _on_lost(self) -> None:
        log.warning("task %s was changed elsewhere; its run here ends", self.task_id)
        self.stopping = True
        if self.producer is not None:
            self.producer.cancel()
        self._rescue = asyncio.create_task(self._rescue_callers(), name=f"a2a lost {self.task_id}")
        self._rescue.add_done_callback(self._rescued)

    async def _rescue_callers(self) -> None:
        """Callers get what somebody else has made of the task."""
        try:
            stored = await self.engine.store.get(self.scope, self.task_id)
        except A2AError as error:
            self.give_up(error)
            return
        if stored is None:
            # The caller was told of no task, and may send its message again.
            self.give_up(changed_hands() if self._begins else task_not_found(self.task_id))
            return
        for ticket in self._tickets:
            if ticket.wants is not Wants.OUTCOME:
                now = hub.SendMessageResponse(task=stored.task) if ticket.wants is Wants.TASK else None
                ticket.settle(now)
        if any(not ticket.answer.done() for ticket in self._tickets):
            task = await self._outcome(stored)
            for ticket in self._tickets:
                ticket.settle(hub.SendMessageResponse(task=task))

    async def _outcome(self, stored: Stored) -> hub.Task:
        """The task when whoever works on it now has brought it to rest."""
        store = self.engine.store
        while stored.task.status.state not in AT_REST:
            subscription = store.subscribe(self.task_id, stored.last)
            try:
                while events := await subscription.take():
                    if any(state_of(event) in AT_REST for event in events):
                        break
            except GapError:
                log.debug("events of task %s are lost; it is looked at as it is", self.task_id)
            finally:
                subscription.close()
            again = await store.get(self.scope, self.task_id)
            if again is None:
                raise task_not_found(self.task_id)
            stored = again
        return stored.task

    def _rescued(self, done: asyncio.Task[None]) -> None:
        self._rescue = None
        if done.cancelled():
            self.give_up(closing())
        elif done.exception() is not None:
            error = done.exception()
            if not isinstance(error, A2AError):
                log.error("the callers of task %s could not be answered", self.task_id, exc_info=error)
                error = changed_hands()
            self.give_up(error)
        self.tell_idle()


#: from Python 3.12 on a task can run at once, up to its first real wait
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.Task(work, loop=asyncio.get_running_loop(), name=name, **_EAGER)
