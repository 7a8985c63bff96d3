"""The live side of one task: the runs that work on it, the events they yield, and whoever waits. Not the protocol.

Rules:
1. One run at a time works on a task; further messages wait their turn. Runs live in one asyncio task, which no
   caller's departure ends once the A2A task exists.
2. An event is applied to the working copy, stored if it changes the status, published, and only then answered.
3. What an executor does wrong fails its task with a clear text, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.lifecycle import IllegalTransition, advance, advance_to, join
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.hosting.clock import Clock
from a2a_bridge.hosting.executor import AgentExecutor, Event
from a2a_bridge.hosting.ports import (
    EventBus,
    PushConfigStore,
    PushSender,
    Scope,
    Stored,
    TaskStore,
    VersionConflict,
)
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.seen import task_as_seen
from a2a_bridge.hosting.shape import Misbehaviour, direct_answer, own_artifact, own_status, own_task
from a2a_bridge.hosting.ticket import Ticket, Wants
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")

#: events after which a producer that never waits for anything lets others run
_STRETCH = 32

UNFINISHED = "the agent ended without finishing the task"
CRASHED = "the agent failed while working on the task"
STOPPED = "the agent was stopped before it finished the task"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What executions work with. The same for all of an engine.

    patience: seconds that a cancelled run may take to stop.
    """

    executor: AgentExecutor
    tasks: TaskStore
    bus: EventBus
    push_configs: PushConfigStore
    push_sender: PushSender | None
    clock: Clock
    patience: float


class Execution:
    """One task while something happens to it.

    task: the working copy; None until the first event. Readers copy it and await nothing in between.
    """

    def __init__(
        self,
        workshop: Workshop,
        scope: Scope,
        task_id: str,
        context_id: str,
        on_idle: Callable[[Execution], None],
        stored: Stored | None = None,
    ) -> None:
        self.scope = scope
        self.task_id = task_id
        self.context_id = context_id
        self.task = stored.task if stored is not None else None
        self.producer: asyncio.Task[None] | None = None
        self.waiting: deque[Ticket] = deque()
        self._version = stored.version if stored is not None else 0
        self._workshop = workshop
        self._on_idle = on_idle
        self._lock = asyncio.Lock()
        #: accepted and not answered yet
        self._tickets: list[Ticket] = []
        self._current: Ticket | None = None
        self._creating = False
        #: somebody of us has ended the runs: the engine's close, a cancellation, a store that knows better
        self._stopping = False
        self._cancellation: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ what callers do

    @property
    def ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.task is not None and self.task.status.state in TERMINAL

    @property
    def idle(self) -> bool:
        """Whether nothing happens any more, so that the store knows it all."""
        return self.producer is None and self._cancellation is None

    async def join(self, message: hub.Message) -> None:
        """Puts a further message into the history of the task (whose ids it is given)."""
        if self.task is None:
            raise RuntimeError("only a task that exists can be joined")
        async with self._lock:
            if self.ended:
                raise already_ended(self.task)
            before = self.snapshot()
            join(self.task, message)
            try:
                await self._persist()
            except Overtaken:
                raise A2AError(Reason.UNAVAILABLE, "the task was changed meanwhile; try again") from None
            except Lost as error:
                # The message was not taken, so the next who writes must not write it.
                self.task.CopyFrom(before)
                raise internal_error() from error

    def submit(self, ticket: Ticket) -> None:
        """Queues a message for the executor. Whoever calls it may find it worked off when it returns."""
        self._tickets.append(ticket)
        self.waiting.append(ticket)
        if self.task is not None and ticket.wants is not Wants.OUTCOME:
            self._settle(ticket)
        if self.producer is None or self.producer.done():
            producer = self.producer = _spawn(self._work(), f"a2a task {self.task_id}")
            if producer.done():  # it began at once (see _EAGER) and never had to wait
                self._producer_done(producer)
            else:
                producer.add_done_callback(self._producer_done)

    def abandon(self, ticket: Ticket) -> None:
        """The sender of a message has gone. A run that has not made a task has nobody to work for."""
        if self.task is None and not self._creating and self.producer is not None:
            self._stopping = True
            self.producer.cancel()
        if not ticket.answer.cancel() and not ticket.answer.cancelled():
            ticket.answer.exception()  # so that nobody complains that it was never looked at

    async def cancel(self, run: Run) -> hub.Task:
        """Cancels the task; all who ask at once get the same answer.

        Raises TASK_NOT_CANCELABLE when the task ends otherwise, and what the executor's `cancel` raises.
        """
        if self._cancellation is None:
            self._cancellation = asyncio.create_task(self._cancel(run), name=f"a2a cancel {self.task_id}")
            self._cancellation.add_done_callback(self._cancelled)
        try:
            await asyncio.shield(self._cancellation)
        except Overtaken:
            log.debug("task %s was ended elsewhere while it was being canceled", self.task_id)
        except Lost as error:
            raise internal_error() from error
        task = self.snapshot()
        if task.status.state != hub.TASK_STATE_CANCELED:
            raise not_cancelable(task)
        return task

    async def stop(self) -> None:
        """Ends the run because the engine closes, and fails the task if that leaves it unfinished."""
        if self._cancellation is not None:
            await asyncio.wait({self._cancellation}, timeout=self._workshop.patience)
        self._stopping = True
        await self._halt()
        for ticket in self._tickets:
            if ticket.begun_at is None or self.task is None:
                ticket.settle(closing())
        if self.task is not None and self.task.status.state in RUNNING:
            await self._fail(STOPPED)

    def snapshot(self) -> hub.Task:
        """A copy of the task. Only after it exists."""
        copy = hub.Task()
        if self.task is not None:
            copy.CopyFrom(self.task)
        return copy

    # ------------------------------------------------------------------ the producer

    async def _work(self) -> None:
        try:
            while self.waiting and not self._stopping:
                ticket = self.waiting.popleft()
                if self.ended:
                    ticket.settle(already_ended(self.task))
                    continue
                if self.task is None and ticket.answer.cancelled():
                    continue  # nobody waits for it any more, and nothing has begun
                self._current = ticket
                ticket.begun_at = self._workshop.bus.position(self.task_id)
                await self._perform(ticket)
                self._current = None
                if ticket.answer.done() and ticket in self._tickets:
                    self._tickets.remove(ticket)
        except Overtaken:
            log.debug("the run of task %s gave way", self.task_id)
        except Lost:
            log.debug("the run of task %s ended with its store", self.task_id)

    def _producer_done(self, producer: asyncio.Task[None]) -> None:
        # Not at the end of `_work`, which a cancellation may keep from ever beginning.
        if self.producer is producer:
            self.producer = None
            self._tell_idle()

    async def _perform(self, ticket: Ticket) -> None:
        """One run, from its first event to the state it leaves the task in."""
        run = ticket.run
        if self.task is not None:
            run.task = task_as_seen(self.snapshot())
        try:
            await self._consume(ticket, self._workshop.executor.execute(run))
        except asyncio.CancelledError:
            if self._stopping:
                return
            # The executor's own doing: nobody of us has asked for it.
            _uncancel()
            log.warning("the run of task %s cancelled itself", self.task_id)
            await self._broken(ticket, CRASHED, internal_error())
        except (Overtaken, Lost):
            raise
        except A2AError as error:
            await self._broken(ticket, error.message, error)
        except (Misbehaviour, IllegalTransition) as error:
            if self.ended:
                log.warning("events after the end of task %s are dropped: %s", self.task_id, error)
            else:
                log.error("the executor of task %s broke the rules: %s", self.task_id, error)  # noqa: TRY400  no trace: the text says it
                await self._broken(ticket, f"the agent broke the protocol: {error}", _invalid(str(error)))
        except Exception:
            log.exception("the executor of task %s failed", self.task_id)
            await self._broken(ticket, CRASHED, internal_error())
        else:
            await self._finished(ticket)

    async def _consume(self, ticket: Ticket, events: AsyncIterator[Event]) -> None:
        if not hasattr(events, "__aiter__"):
            # `async def execute` without a `yield` in it: the commonest mistake there is.
            close = getattr(events, "close", None)
            if close is not None:
                close()
            raise Misbehaviour(f"execute gave a {type(events).__name__}; it must be an async generator")
        count = 0
        try:
            async for event in events:
                await self._take(event, ticket)
                count += 1
                if count % _STRETCH == 0:
                    await asyncio.sleep(0)
                await self._workshop.bus.drained(self.task_id)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _finished(self, ticket: Ticket) -> None:
        """The executor has nothing more to say: a direct answer, a task at rest, or a task left lying."""
        if ticket.said is not None:
            ticket.settle(ticket.said)
        elif self.task is None:
            ticket.settle(_invalid("the agent ended without an answer"))
        elif self.task.status.state in RUNNING:
            await self._fail(UNFINISHED)
        else:
            self._settle(ticket)

    async def _broken(self, ticket: Ticket, text: str, error: A2AError) -> None:
        if self.task is None:
            ticket.settle(error)
        elif not self.ended:
            await self._fail(text)

    # ------------------------------------------------------------------ events

    async def _take(self, event: Event, ticket: Ticket | None) -> None:
        if ticket is not None and ticket.said is not None:
            raise Misbehaviour("nothing may follow a direct message")
        match event:
            case hub.TaskStatusUpdateEvent():
                await self._begin()
                await self._update(hub.StreamResponse(status_update=event))
            case hub.TaskArtifactUpdateEvent():
                await self._begin()
                response = hub.StreamResponse(artifact_update=event)
                update = response.artifact_update
                own_artifact(update, self.task_id, self.context_id)
                async with self._lock:
                    advance(self._existing, update)
                    if self._observed:
                        await self._publish(response)
            case hub.Task():
                await self._take_task(event)
            case hub.Message():
                if self.task is not None or ticket is None:
                    raise Misbehaviour("a message cannot follow a task; send it with a status instead")
                ticket.said = direct_answer(event, self.task_id, self.context_id)
            case _:
                raise Misbehaviour(f"{type(event).__name__} is not an event")

    async def _take_task(self, event: hub.Task) -> None:
        task = hub.Task()
        task.CopyFrom(event)
        own_task(task, self.task_id, self.context_id, self._workshop.clock)
        if self.task is None:
            await self._create(task)
            return
        async with self._lock:
            advance_to(self._existing, task)
            await self._persist()
            await self._publish(hub.StreamResponse(task=self.task))
        self._settle_by_state()

    async def _begin(self) -> None:
        """An update may come first; whoever listens gets a task before it all the same (spec 3.1.2)."""
        if self.task is None:
            task = hub.Task(id=self.task_id, context_id=self.context_id)
            task.status.state = hub.TASK_STATE_SUBMITTED
            own_task(task, self.task_id, self.context_id, self._workshop.clock)
            await self._create(task)

    async def _create(self, task: hub.Task) -> None:
        ticket = self._current
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
        own.task_id, own.context_id = self.task_id, self.context_id
        workshop = self._workshop
        self._creating = True
        try:
            # In this order, because a config without a task harms nobody.
            if ticket.push_config is not None:
                await workshop.push_configs.put(self.scope, ticket.push_config)
            self._version = await workshop.tasks.create(self.scope, task)
            self.task = task
        finally:
            self._creating = False
        if self._observed:
            await self._publish(hub.StreamResponse(task=task))
        if ticket.wants is not Wants.OUTCOME:
            self._settle(ticket)
        self._settle_by_state()

    async def _update(self, response: hub.StreamResponse) -> None:
        """Applies a status: to the working copy, the store, the listeners, and those who wait for it."""
        update = response.status_update
        own_status(update, self.task_id, self.context_id, self._workshop.clock)
        async with self._lock:
            advance(self._existing, update)
            await self._persist()
            if self._observed:
                await self._publish(response)
        self._settle_by_state()

    async def _fail(self, text: str) -> None:
        run = Run(hub.SendMessageRequest(), _nowhere(), self.task_id, self.context_id)
        try:
            await self._update(hub.StreamResponse(status_update=run.status(hub.TASK_STATE_FAILED, text)))
        except (IllegalTransition, Overtaken):
            log.debug("task %s ended before it could fail", self.task_id)
        except Lost:
            log.debug("task %s could not be failed", self.task_id)

    async def _persist(self) -> None:
        try:
            self._version = await self._workshop.tasks.update(self.scope, self._existing, self._version)
        except VersionConflict:
            await self._yield_to_store()
        except Exception as error:
            # Neither the executor nor a caller can help it, and nobody may be told what was not stored.
            log.exception("task %s cannot be stored; its callers are sent away", self.task_id)
            self._stopping = True
            self._give_up(internal_error())
            raise Lost from error

    async def _yield_to_store(self) -> None:
        """Somebody else has written the task, so it is theirs now: callers get what they have written."""
        log.warning("task %s was changed elsewhere; its run here ends", self.task_id)
        self._stopping = True
        if self.producer is not None and self.producer is not asyncio.current_task():
            self.producer.cancel()
        stored = await self._workshop.tasks.get(self.scope, self.task_id)
        if stored is None:
            self._give_up(A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": self.task_id}))
        else:
            self.task, self._version = stored
            await self._publish(hub.StreamResponse(task=self.task))
            for ticket in self._tickets:
                self._settle(ticket)
            self._tickets.clear()
            self._workshop.bus.end(self.task_id)
        raise Overtaken

    @property
    def _observed(self) -> bool:
        return self._workshop.push_sender is not None or self._workshop.bus.heard(self.task_id)

    async def _publish(self, response: hub.StreamResponse) -> None:
        workshop = self._workshop
        if workshop.bus.heard(self.task_id):
            await workshop.bus.publish(self.task_id, response)
        if workshop.push_sender is not None:
            try:
                configs = await workshop.push_configs.list(self.scope, self.task_id)
                if configs:
                    await workshop.push_sender.deliver(self.scope, response, configs, self._existing)
            except Exception:
                # A webhook is a courtesy to one client; the task belongs to all of them.
                log.exception("an event of task %s could not be handed to the push sender", self.task_id)

    # ------------------------------------------------------------------ answers

    @property
    def _existing(self) -> hub.Task:
        if self.task is None:
            raise RuntimeError("there is no task yet")
        return self.task

    def _settle(self, ticket: Ticket) -> None:
        """Answers with the task as it is now, if the sender still waits for it."""
        if not ticket.answer.done():
            ticket.settle(None if ticket.wants is Wants.STREAM else hub.SendMessageResponse(task=self.task))

    def _settle_by_state(self) -> None:
        state = self._existing.status.state
        if state in TERMINAL:
            for ticket in self._tickets:
                if ticket.begun_at is None:
                    ticket.settle(already_ended(self.task))
                else:
                    self._settle(ticket)
            self._tickets.clear()
        elif state in INTERRUPTED and self._current is not None:
            self._settle(self._current)

    def _give_up(self, error: A2AError) -> None:
        for ticket in self._tickets:
            ticket.settle(error)
        self._tickets.clear()
        self._workshop.bus.end(self.task_id, error)

    def _tell_idle(self) -> None:
        if self.idle:
            self._on_idle(self)

    # ------------------------------------------------------------------ cancelling

    async def _cancel(self, run: Run) -> None:
        if self._current is not None:
            self._current.run.cancel()
        run.cancel()
        run.task = task_as_seen(self.snapshot())
        clean_up: Callable[[Run], AsyncIterator[Event]] | None
        clean_up = getattr(self._workshop.executor, "cancel", None)
        if clean_up is not None:
            try:
                async for event in clean_up(run):
                    await self._take(event, None)
            except (A2AError, Overtaken, Lost):
                raise
            except Exception:
                log.exception(
                    "cancelling task %s: the executor's cancel failed; its run is ended", self.task_id
                )
        self._stopping = True
        await self._halt()
        if not self.ended:
            status = hub.TaskStatusUpdateEvent()
            status.status.state = hub.TASK_STATE_CANCELED
            await self._update(hub.StreamResponse(status_update=status))

    def _cancelled(self, done: asyncio.Task[None]) -> None:
        self._cancellation = None
        if not done.cancelled():
            done.exception()  # whoever waits gets it; nobody may be left
        self._tell_idle()

    async def _halt(self) -> None:
        """Stops the producer, waiting as long as a polite one may take. A deaf one goes on unheard."""
        producer = self.producer
        if producer is None or producer.done():
            return
        producer.cancel()
        _, deaf = await asyncio.wait({producer}, timeout=self._workshop.patience)
        if deaf:
            log.error("the executor of task %s ignores its cancellation", self.task_id)


class Overtaken(Exception):  # noqa: N818  it is no error: somebody else was first
    """The store holds a newer task than ours. Its readers have been told when this is raised."""


class Lost(Exception):  # noqa: N818  it is the consequence of an error, which was logged
    """The store does not work. All who waited have been told when this is raised."""


def already_ended(task: hub.Task | None) -> A2AError:
    """The answer to a message to a task that has ended (spec 3.1.1)."""
    task_id = task.id if task is not None else ""
    text = "the task has ended and takes no more messages"
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task_id})


def not_cancelable(task: hub.Task) -> A2AError:
    """The answer to a cancellation of a task that has ended (spec 3.1.5)."""
    return A2AError(Reason.TASK_NOT_CANCELABLE, metadata={"taskId": task.id})


def closing() -> A2AError:
    """The answer to new work while the engine closes."""
    return A2AError(Reason.UNAVAILABLE, "the agent is being stopped", blame=Blame.SELF)


def _invalid(text: str) -> A2AError:
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.SELF)


#: from Python 3.12 on a task can run at once, up to its first real wait
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.Task(work, loop=asyncio.get_running_loop(), name=name, **_EAGER)


def _uncancel() -> None:
    """Takes back a cancellation that was not meant for the task it arrived in."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _nowhere() -> CallContext:
    """The context of what the engine does of its own accord."""
    return CallContext()
