"""The live copy of a task and its connection to the store. It knows neither runs nor callers.

Rules:
1. A change to the copy is given to the writer at once; nothing waits for the write.
2. Callers get a copy once it is durable, so a crash never undoes data that a client has seen.
3. Once the lease is lost, the copy is invalid, and changes to it are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import add_artifact, advance, advance_to, join
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.hosting.clock import Clock
from a2a_bridge.hosting.event_checks import own_artifact, own_status, own_task
from a2a_bridge.hosting.ports import Scope, Store, Stored, Synced, TaskWriter, VersionConflictError
from a2a_bridge.pb import lf_a2a_v1 as hub


class Shown(NamedTuple):
    """A copy of a task for callers, and the number of the last event that it contains."""

    task: hub.Task
    last: int


class OwnershipLostError(Exception):
    """Another process owns the task. The content of the store is valid, the working copy is not."""


class WorkingCopy:
    """One live task.

    on_lost: called when the lease is lost. stored: the task, if it exists already. push: True if events go to
    the outbox.
    """

    #: None until the first event
    task: hub.Task | None = None
    #: the state of the task; UNSPECIFIED until the first event
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    #: None without the lease
    writer: TaskWriter | None = None
    #: True if another process writes the task
    lost = False
    _shut = False
    _last = 0
    _opening: asyncio.Task[None] | None = None

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
        """The number of the last event that the copy contains."""
        return self._last if self.writer is None else self.writer.last

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

    def snapshot(self) -> Shown:
        """A copy of the task. It may contain changes that are not durable yet."""
        copy = hub.Task()
        if self.task is not None:
            copy.CopyFrom(self.task)
        return Shown(copy, self.last)

    # ------------------------------------------------------------------ the lease

    @property
    def opening(self) -> bool:
        """True while the lease on a stored task is being acquired."""
        return self._opening is not None and not self._opening.done()

    async def hold(self, opened: Callable[[], None]) -> None:
        """Acquires the lease on a stored task, unless it is already held. Raises VersionConflictError,
        A2AError UNAVAILABLE.

        opened: called at the end of the attempt, which may be after the caller has left.
        """
        if self.writer is not None or self._stored is None:
            return
        if not self._store.durable:
            await self._open(self._stored)
            return
        if self._opening is None:
            # In a separate asyncio task, so that a caller that leaves does not leave an unknown lease behind.
            self._opening = asyncio.create_task(self._open(self._stored), name=f"a2a open {self.task_id}")

            def tell(done: asyncio.Task[None]) -> None:
                if not done.cancelled():
                    done.exception()  # waiters get it; there may be none
                opened()

            self._opening.add_done_callback(tell)
        await asyncio.shield(self._opening)

    async def _open(self, stored: Stored) -> None:
        self.writer = await self._store.open(self._scope, stored, self._lose, push=self._push)

    def part(self, *, release: bool) -> None:
        """Ends the use of the copy. release: True to release the lease, if there is one."""
        writer = self.writer
        if writer is not None:
            self._last = writer.last
            if release and not self.lost and self.state not in TERMINAL:
                writer.release()
            self.writer = None
        # Cuts a reference cycle, so that a finished run need not wait for the garbage collector.
        self._on_lost = _nothing
        self._shut = True

    def shut(self) -> None:
        """Accepts no more changes: further ones raise OwnershipLostError."""
        self._shut = True

    def _lose(self) -> None:
        self.lost = self._shut = True
        self._on_lost()

    # ------------------------------------------------------------------ changes

    # A change copies its event: executors may keep their events and change them later.

    def begin(self, task: hub.Task) -> None:
        """Creates the task. It takes over the message.

        Raises A2AError RESOURCE_EXHAUSTED if the store has no room for it, ExecutorError and
        OwnershipLostError.
        """
        if self._shut:
            raise OwnershipLostError
        writer = self.writer = self._store.create(self._scope, self.task_id, self._lose, push=self._push)
        self.task = task
        self.state = task.status.state
        event = hub.StreamResponse()
        event.task.CopyFrom(task)
        writer.append(event, task)

    def extend(self, update: hub.TaskArtifactUpdateEvent) -> None:
        """Applies an artifact.

        Raises ExecutorError, IllegalTransitionError and OwnershipLostError; the task is unchanged then.
        """
        event = hub.StreamResponse()
        own = event.artifact_update
        own.CopyFrom(update)
        own_artifact(own, self.task_id, self.context_id)
        task, writer = self.task, self.writer
        if self._shut or task is None or writer is None:
            task, writer = self._writable()
        if self.state in TERMINAL:
            advance(task, own)
        add_artifact(task, own)
        writer.append(event, task)

    def advance(self, update: hub.TaskStatusUpdateEvent) -> None:
        """Applies a status. Raises what `extend` raises."""
        event = hub.StreamResponse()
        own = event.status_update
        own.CopyFrom(update)
        own_status(own, self.task_id, self.context_id, self._clock)
        task, writer = self.task, self.writer
        if self._shut or task is None or writer is None:
            task, writer = self._writable()
        advance(task, own)
        self.state = own.status.state
        writer.append(event, task)

    def advance_to(self, snapshot: hub.Task) -> None:
        """Applies a snapshot. Raises what `extend` raises."""
        own = hub.Task()
        own.CopyFrom(snapshot)
        own_task(own, self.task_id, self.context_id, self._clock)
        task, writer = self._writable()
        advance_to(task, own)
        self.state = own.status.state
        writer.append(hub.StreamResponse(task=task), task)

    async def join(self, message: hub.Message) -> None:
        """Adds a further message to the history, and returns when it is durable; otherwise it is removed
        again.

        Raises VersionConflictError, A2AError UNAVAILABLE.
        """
        if self._shut:
            raise VersionConflictError(self.task_id)
        task, writer = self._writable()
        answered = task.status.message.message_id
        join(task, message)
        own = task.history[-1]
        writer.amend(task)
        if self.lost:
            raise VersionConflictError(self.task_id)
        if not writer.pending:
            return
        try:
            await writer.synced()
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

    async def settled(self) -> None:
        """Waits until all changes are durable.

        Raises OwnershipLostError if another process owns the task, A2AError UNAVAILABLE if the store does not
        work.
        """
        if self.lost:
            raise OwnershipLostError
        if self.writer is not None and self.writer.pending:
            try:
                await self.writer.synced()
            except VersionConflictError:
                raise OwnershipLostError from None

    def when_settled(self, tell: Synced) -> None:
        """Calls `tell` once all changes are durable, or with the error that `settled` would raise."""
        if self.writer is None:
            tell(None)
        else:
            self.writer.when_synced(
                lambda error: tell(OwnershipLostError() if isinstance(error, VersionConflictError) else error)
            )

    async def shown(self) -> Shown:
        """A durable copy for callers. Raises the errors of `settled`."""
        found = self.snapshot()
        await self.settled()
        return found

    def _writable(self) -> tuple[hub.Task, TaskWriter]:
        if self._shut:
            raise OwnershipLostError
        if self.task is None or self.writer is None:
            raise RuntimeError("the task is not held")
        return self.task, self.writer


def _nothing() -> None:
    """The callback after the copy's use has ended."""


def as_answer(error: Exception) -> A2AError:
    """The error for callers for an error of the store."""
    return error if isinstance(error, A2AError) else internal_error()
