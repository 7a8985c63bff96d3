"""A live task: its working copy, its writer, the senders who wait for it. It does not start or stop runs.

Rules:
1. A change goes to the working copy, and from there to the writer at once; nothing waits for a write.
2. A response about the task is given once that is durable: a crash never undoes what a client has seen.
3. Once the lease is lost, the working copy is invalid, and changes to it are dropped.
4. An executor that breaks the protocol fails its own task, with a clear text.
5. An update may come first; readers get a task before it all the same (spec 3.1.2).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import (
    ArtifactIndex,
    IllegalTransitionError,
    add_artifact,
    advance,
    advance_to,
    join,
)
from a2a_bridge.core.messages import AT_REST, INTERRUPTED, RUNNING, TERMINAL, copy_shown
from a2a_bridge.hosting.agent_content import ExecutorError, direct_answer, own_artifact, own_status, own_task
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.limits import MOST_ARTIFACTS, already_ended, too_many_artifacts
from a2a_bridge.hosting.pending_send import PendingSend
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import (
    Clock,
    Scope,
    Store,
    Stored,
    Synced,
    TaskWriter,
    VersionConflictError,
    ignore_loss,
)

log = logging.getLogger("a2a_bridge.hosting")

#: the events that change a task
_UPDATES = frozenset({hub.Task, hub.TaskStatusUpdateEvent, hub.TaskArtifactUpdateEvent})


class OwnershipLostError(Exception):
    """Another process owns the task. The content of the store is valid, the working copy is not."""


class LiveTask:
    """One live task. on_lost: called when the lease is lost. stored: the task, if it exists already. push:
    True if events go to the outbox.
    """

    #: the working copy; None until the first event
    task: hub.Task | None = None
    #: the state of the task; UNSPECIFIED until the first event
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    #: None without the lease
    writer: TaskWriter | None = None
    #: True if another process writes the task
    lost = False
    #: the number of the last event that left the task waiting for input; 0 if there was none in this process
    asked_at = 0
    _shut = False
    #: the response whose task is the working copy, for a task that begins here
    _response: hub.SendMessageResponse | None = None
    _last = 0
    _opening: asyncio.Task[None] | None = None
    _sends: tuple[PendingSend, ...] = ()
    #: of the artifacts; None until the first
    _index: ArtifactIndex | None = None

    def __init__(
        self,
        store: Store,
        scope: Scope,
        task_id: str,
        context_id: str,
        clock: Clock,
        on_lost: Callable[[], None],
        stored: Stored | None = None,
        *,
        push: bool = False,
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self._store = store
        self._scope = scope
        self._clock = clock
        self._on_lost = on_lost
        self._push = push
        self._stored = stored
        if stored is not None:
            self.task = stored.task
            self.state = stored.task.status.state
            self._last = stored.last

    # ------------------------------------------------------------------ questions

    @property
    def ended(self) -> bool:
        """True if the task is in a terminal state."""
        return self.state in TERMINAL

    @property
    def last(self) -> int:
        """The number of the last event that the working copy contains."""
        return self._last if self.writer is None else self.writer.last

    @property
    def stored(self) -> int:
        """The number of the last event that is durable here. A later event in the store is of a new owner."""
        return self._last if self.writer is None else self.writer.stored

    @property
    def pending(self) -> bool:
        """True if any change is not durable yet."""
        writer = self.writer
        return writer is not None and writer.pending

    @property
    def writable(self) -> bool:
        """True if this process has the lease, so that the task may be changed."""
        return self.writer is not None and not self._shut

    @property
    def held(self) -> bool:
        """True if the task exists and this process owns it."""
        return self.task is not None and self.writer is not None

    @property
    def awaited(self) -> bool:
        """True if any sender still waits."""
        return any(not send.done for send in self._sends)

    def snapshot(self, limit: int | None = None) -> TaskSnapshot:
        """A copy of the task. It may contain changes that are not durable yet. limit: the newest messages of
        its history; None for all.
        """
        copy = hub.Task()
        if self.task is not None:
            copy_shown(copy, self.task, limit)
        return TaskSnapshot(copy, self.last)

    def task_now(self) -> Callable[[], hub.Task]:
        """A function that returns a copy of the task as it is now. Its history, to which messages are only
        added, is copied when the function is called, which many agents never do.
        """
        task = self.task or hub.Task()
        made = hub.Task()
        copy_shown(made, task, 0)
        history: Any = task.history
        count = len(history)

        def load() -> hub.Task:
            if len(made.history) < count:
                made.history.extend(history[:count])
            return made

        return load

    async def durable_snapshot(self) -> TaskSnapshot:
        """A durable copy for callers. Raises the errors of `wait_settled`."""
        found = self.snapshot()
        await self.wait_settled()
        return found

    def has_message(self, message_id: str) -> bool:
        """True if the history has a message of the user with this id."""
        history = () if self.task is None else self.task.history
        return any(one.message_id == message_id and one.role == hub.ROLE_USER for one in history)

    # ------------------------------------------------------------------ the lease

    @property
    def opening(self) -> bool:
        """True while the lease on a stored task is being acquired."""
        return self._opening is not None and not self._opening.done()

    def claim(self) -> None:
        """Gets the lease on a task that does not exist yet. Raises RESOURCE_EXHAUSTED."""
        self.writer = self._store.create(self._scope, self.task_id, self._lose, push=self._push)

    async def hold(self, opened: Callable[[], None], *, wait: bool = True) -> None:
        """Acquires the lease on a stored task, unless it is held. Raises VersionConflictError, UNAVAILABLE.

        opened: called at the end of the attempt, which may be after the caller has left. wait: False to
        acquire it with the first change, see `Store.open`. An attempt that has begun counts for all callers.
        """
        if self.writer is not None or self._stored is None:
            return
        if not self._store.durable:
            await self._open(self._stored, wait=wait)
            return
        if self._opening is None:
            # In a separate asyncio task, so that a caller that leaves does not leave an unknown lease behind.
            work = self._open(self._stored, wait=wait)
            self._opening = asyncio.create_task(work, name=f"a2a open {self.task_id}")

            def callback(done: asyncio.Task[None]) -> None:
                if not done.cancelled():
                    done.exception()  # waiters get it; there may be none
                opened()

            self._opening.add_done_callback(callback)
        await asyncio.shield(self._opening)

    async def _open(self, stored: Stored, *, wait: bool) -> None:
        self.writer = await self._store.open(self._scope, stored, self._lose, push=self._push, wait=wait)

    def part(self, *, release: bool) -> None:
        """Ends the use of the working copy. release: True to release the lease, if there is one."""
        writer = self.writer
        if writer is not None:
            self._last = writer.last
            if release and not self.lost and self.state not in TERMINAL:
                writer.release()
            self.writer = None
        # Cuts a reference cycle, so that a finished run need not wait for the garbage collector.
        self._on_lost = ignore_loss
        self._shut = True

    def _lose(self) -> None:
        self.lost = self._shut = True
        self._on_lost()

    def _writable(self) -> tuple[hub.Task, TaskWriter]:
        if self._shut:
            raise OwnershipLostError
        if self.task is None or self.writer is None:
            raise RuntimeError("the task is not held")
        return self.task, self.writer

    # ------------------------------------------------------------------ events

    def apply(self, event: Event, send: PendingSend | None) -> None:
        """Applies a copy of an event: executors may keep their events and change them later.

        send: the message whose run yielded it; None for events of the engine and of the executor's `cancel`.
        Raises ExecutorError, IllegalTransitionError, OwnershipLostError, A2AError RESOURCE_EXHAUSTED.
        """
        if send is not None and send.direct_answer is not None:
            raise ExecutorError("nothing may follow a direct message")
        if type(event) is hub.Message:
            if self.task is not None or send is None:
                raise ExecutorError("a message cannot follow a task; send it with a status instead")
            send.direct_answer = direct_answer(event, self.task_id, self.context_id)
            return
        if type(event) not in _UPDATES:
            raise ExecutorError(f"{type(event).__name__} is not an event")
        if self.task is None:
            if type(event) is hub.Task:
                self._begin(event, send)
                return
            self._begin(None, send)
        task, writer = self.task, self.writer
        if self._shut or task is None or writer is None:
            task, writer = self._writable()
        change = hub.StreamResponse()
        if type(event) is hub.TaskArtifactUpdateEvent:
            artifact = change.artifact_update
            artifact.CopyFrom(event)
            own_artifact(artifact, self.task_id, self.context_id)
            if self.state in TERMINAL:
                advance(task, artifact)  # which raises the error
            index = self._index
            if index is None:
                index = self._index = ArtifactIndex()
            if (
                len(task.artifacts) >= MOST_ARTIFACTS
                and index.find(task, artifact.artifact.artifact_id) is None
            ):
                raise too_many_artifacts()
            add_artifact(task, artifact, index)
            writer.append(change, self._renewed(index) if index.left < 0 else task)
            return
        if type(event) is hub.TaskStatusUpdateEvent:
            status = change.status_update
            status.CopyFrom(event)
            own_status(status, self.task_id, self.context_id, self._clock)
            self.state = advance(task, status)
        elif type(event) is hub.Task:
            snapshot = change.task
            snapshot.CopyFrom(event)
            own_task(snapshot, self.task_id, self.context_id, self._clock)
            if len(snapshot.artifacts) > MOST_ARTIFACTS:
                raise too_many_artifacts()
            index = self._index = self._index or ArtifactIndex()
            self.state = advance_to(task, snapshot, index)
            snapshot.CopyFrom(task)
            if index.left < 0:
                task = self._renewed(index)
        writer.append(change, task)
        if self.state in AT_REST:
            self._on_rest()

    def _renewed(self, index: ArtifactIndex) -> hub.Task:
        """A new working copy, which takes less memory."""
        task, _ = self._writable()
        return self._go_on_with(index.renewed(task))

    def _go_on_with(self, copy: hub.Task) -> hub.Task:
        """Takes a copy of the task as the working copy."""
        self.task = copy
        self._response = None  # it would keep the old one
        return copy

    def set_state(self, state: hub.TaskState) -> None:
        """Applies a status without a message. Raises what `apply` raises."""
        status = hub.TaskStatusUpdateEvent()
        status.status.state = state
        self.apply(status, None)

    def fail(self, text: str) -> None:
        """Ends the task as FAILED, unless it has ended."""
        run = Run(hub.SendMessageRequest(), CallContext(), self.task_id, self.context_id)
        try:
            self.apply(run.status(hub.TASK_STATE_FAILED, text), None)
        except (IllegalTransitionError, OwnershipLostError):
            log.debug("task %s ended before it could fail", self.task_id)

    def fail_unfinished(self, text: str) -> None:
        """Ends a task that exists and is at work as FAILED."""
        if self.state in RUNNING:
            self.fail(text)

    def _begin(self, first: hub.Task | None, send: PendingSend | None) -> None:
        """Creates the task. first: the executor's snapshot; None for a task in the state SUBMITTED."""
        if send is None:
            raise RuntimeError("a task is created by a run")
        if self._shut:
            raise OwnershipLostError
        # The response of a task that ends is not copied from it: a copy of a large message takes long.
        response = hub.SendMessageResponse()
        task, message = response.task, send.message
        if first is not None:
            if len(first.artifacts) > MOST_ARTIFACTS:
                raise too_many_artifacts()
            task.CopyFrom(first)
        state = own_task(task, self.task_id, self.context_id, self._clock)
        change = hub.StreamResponse()
        history = task.history
        if send.beginning is not None and not history:
            (response, change), send.beginning = send.beginning, None
            for begun in (response.task, change.task):
                begun.MergeFrom(task)
                own = begun.history[0]
                own.task_id, own.context_id = self.task_id, self.context_id
            task = response.task
        else:
            for own in history[:]:
                if own.message_id == message.message_id:
                    if own == send.run.message:
                        own.CopyFrom(message)  # it may hold more than the agent was shown
                    break
            else:
                own = history.add()
                own.CopyFrom(message)
            own.task_id, own.context_id = self.task_id, self.context_id
            change.task.CopyFrom(task)
        writer = self.writer
        if writer is None:
            writer = self.writer = self._store.create(self._scope, self.task_id, self._lose, push=self._push)
        self._response = response
        self.task = task
        self.state = state
        writer.append(change, task)
        for one in send.waiters or (send,):
            if one.wants != "outcome":
                self.settle(one)
        if self.state in AT_REST:
            self._on_rest()

    def _on_rest(self) -> None:
        """The task has ended or waits for its caller: answers the senders that waited for that."""
        if self.state == hub.TASK_STATE_INPUT_REQUIRED:
            self.asked_at = self.last
        for send in self._sends:
            if send.decided or send.done:
                continue
            if send.begun_at is not None:
                self.settle(send)
            elif self.state in TERMINAL:
                self.deliver(send, already_ended(self.task_id))

    # ------------------------------------------------------------------ further messages

    async def join(self, message: hub.Message) -> None:
        """Adds a further message to the history, and returns when it is durable; otherwise it is removed
        again. Raises VersionConflictError, A2AError UNAVAILABLE.
        """
        if self._shut:
            raise VersionConflictError(self.task_id)
        task, writer = self._writable()
        answered = task.status.message.message_id
        join(task, message)
        own = task.history[-1]
        writer.amend(task, own)
        if self.lost:
            raise VersionConflictError(self.task_id)
        if not writer.pending:
            return
        try:
            await writer.sync()
        except BaseException:
            self._take_out(own.message_id, answered)
            raise

    def _take_out(self, message_id: str, answered: str) -> None:
        """Undoes `join`, independent of later changes."""
        if self._shut or self.ended:
            return
        task, writer = self._writable()
        history = task.history
        place = next((n for n in reversed(range(len(history))) if history[n].message_id == message_id), None)
        if place is None:
            return
        # In a copy: nothing else removes a message, and runs may read the history as it was (`task_now`).
        copy = hub.Task()
        copy.CopyFrom(task)
        task = self._go_on_with(copy)
        history = task.history
        del history[place]
        if (
            answered
            and place
            and history[place - 1].message_id == answered
            and not task.status.HasField("message")
        ):
            task.status.message.CopyFrom(history[place - 1])
            del history[place - 1]
        writer.amend(task)

    # ------------------------------------------------------------------ durability

    async def wait_settled(self) -> None:
        """Waits until all changes are durable. Raises OwnershipLostError if another process owns the task,
        A2AError UNAVAILABLE if the store does not work.
        """
        if self.lost:
            raise OwnershipLostError
        if self.writer is not None and self.writer.pending:
            try:
                await self.writer.sync()
            except VersionConflictError:
                raise OwnershipLostError from None

    def when_settled(self, callback: Synced) -> None:
        """Calls `callback` once all changes are durable, or with the error of `wait_settled`."""
        if self.writer is None:
            callback(None)
        else:
            self.writer.when_synced(
                lambda error: callback(
                    OwnershipLostError() if isinstance(error, VersionConflictError) else error
                )
            )

    # ------------------------------------------------------------------ answers

    def add(self, send: PendingSend) -> None:
        """A message was accepted. Forgets messages that are answered."""
        self._sends = (*[one for one in self._sends if not one.done], send) if self._sends else (send,)
        if send.wants != "outcome" and self.task is not None:
            self.settle(send)

    def add_to(self, send: PendingSend) -> None:
        """A further sender of a message whose run is not over was accepted."""
        self._sends = (*self._sends, send)
        if self.task is None:
            return
        begun = send.begun_at is not None and self.last > send.begun_at
        if send.wants != "outcome" or self.ended or (self.state in INTERRUPTED and begun):
            self.settle(send)

    def settle(self, send: PendingSend) -> None:
        """Answers with the task as it is now, if the sender still waits. For a task that has ended, that is
        the working copy itself, which cannot change any more.
        """
        if send.decided or send.done:
            return
        if send.wants == "stream":
            send.settle(None)  # the events are read from the store, so all of them are durable
            return
        answer = self._response
        if answer is None or self.state not in TERMINAL:
            answer = hub.SendMessageResponse()
            if self.task is not None:
                copy_shown(answer.task, self.task, send.limit)
        writer = self.writer
        if writer is None or not writer.pending:
            send.settle(answer)  # at once in stores that are not durable
        else:
            self.deliver(send, answer)

    def deliver(self, send: PendingSend, answer: hub.SendMessageResponse | A2AError) -> None:
        """Gives a response that depends on the task, as soon as the task is durable."""
        if not self.pending:
            send.settle(answer)
            return

        def callback(error: Exception | None) -> None:
            # After a loss the response comes from the new owner, see TaskRun.
            if not isinstance(error, OwnershipLostError):
                send.settle(answer if error is None else as_answer(error))

        send.decided = True
        self.when_settled(callback)

    def settle_elsewhere(self, task: hub.Task, *, final: bool) -> None:
        """Answers with the task as its new owner has stored it. final: True if the task has come to rest, so
        that senders who wait for an outcome get it, too.
        """
        for send in self._sends:
            if final and send.wants != "stream":
                send.settle(hub.SendMessageResponse(task=task))
            elif send.wants != "outcome":
                send.settle(hub.SendMessageResponse(task=task) if send.wants == "task" else None)

    def reject(self, error: A2AError) -> None:
        """Accepts no more changes (further ones raise OwnershipLostError), and gives up with this error."""
        self._shut = True
        self.give_up(error)

    def give_up(self, error: A2AError, *, only_queued: bool = False) -> None:
        """Fails the senders whose answer is not certain. only_queued: senders whose run has not begun."""
        for send in self._sends:
            if send.decided and not self.lost:
                continue  # the store brings its response
            if not only_queued or send.begun_at is None or self.task is None:
                send.settle(error)


def begin_with(message: hub.Message) -> tuple[hub.SendMessageResponse, hub.StreamResponse]:
    """A response and an event with a task that has nothing but this message. For a worker."""
    response, change = hub.SendMessageResponse(), hub.StreamResponse()
    # Not CopyFrom, which takes six times as long for large maps: their entries come in the order of a hash
    # table, and collide in the next table.
    data = message.SerializeToString(deterministic=True)
    for task in (response.task, change.task):
        task.history.add().MergeFromString(data)
    return response, change


def as_answer(error: Exception) -> A2AError:
    """The error for callers for an error of the store."""
    return error if isinstance(error, A2AError) else internal_error()
