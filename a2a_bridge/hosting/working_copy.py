"""The live copy of a task and its connection to the store. It knows neither runs nor callers.

Rules:
1. A change to the copy is given to the writer at once; nothing waits for the write.
2. Callers get a copy, once it is durable, so a crash never undoes what they have seen.
3. Once the lease is lost, the copy is invalid, and changes to it are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import advance, advance_to, join
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.hosting.ports import Scope, Store, Stored, Synced, TaskWriter, VersionConflictError
from a2a_bridge.pb import lf_a2a_v1 as hub


class Shown(NamedTuple):
    """A copy of a task to give away, and the number of the last event that it contains."""

    task: hub.Task
    last: int


class OwnershipLostError(Exception):
    """The task is somebody else's now. What the store has is the truth."""


class WorkingCopy:
    """One task while something happens to it.

    task: None until the first event. lost: somebody else writes the task now. writer: None without the hold.
    on_lost: called when the hold is lost. push: whether events go to the outbox.
    """

    __slots__ = (
        "_last",
        "_on_lost",
        "_opening",
        "_push",
        "_scope",
        "_shut",
        "_store",
        "_stored",
        "lost",
        "task",
        "task_id",
        "writer",
    )

    def __init__(
        self,
        store: Store,
        scope: Scope,
        task_id: str,
        on_lost: Callable[[], None],
        stored: Stored | None = None,
        *,
        push: bool = False,
    ) -> None:
        self.task_id = task_id
        if stored is None:
            self.task = None
            self._last = 0
        else:
            self.task = stored.task
            self._last = stored.last
        self.lost = False
        self._shut = False
        self._store = store
        self._scope = scope
        self._stored = stored
        self._on_lost = on_lost
        self._push = push
        self.writer: TaskWriter | None = None
        self._opening: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ questions

    @property
    def existing(self) -> hub.Task:
        """The task. Only after it exists."""
        if self.task is None:
            raise RuntimeError("there is no task yet")
        return self.task

    @property
    def ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.task is not None and self.task.status.state in TERMINAL

    @property
    def last(self) -> int:
        """The number of the last event that the copy contains."""
        return self._last if self.writer is None else self.writer.last

    @property
    def pending(self) -> bool:
        """Whether the store does not have it all for good yet."""
        return self.writer is not None and self.writer.pending

    @property
    def writable(self) -> bool:
        """Whether the task is held here, and may be changed."""
        return self.writer is not None and not self._shut

    def snapshot(self) -> hub.Task:
        """A copy of the task. It may say more than may be shown."""
        copy = hub.Task()
        if self.task is not None:
            copy.CopyFrom(self.task)
        return copy

    # ------------------------------------------------------------------ the hold

    @property
    def opening(self) -> bool:
        """Whether a stored task is just being taken hold of."""
        return self._opening is not None and not self._opening.done()

    async def hold(self, opened: Callable[[], None]) -> None:
        """Gets the hold on a stored task, unless it is there already. Raises VersionConflictError, A2AError
        UNAVAILABLE.

        opened: called when that has come to its end, which may be after the caller has gone.
        """
        if self.writer is not None or self._stored is None:
            return
        if not self._store.durable:
            await self._open(self._stored)
            return
        if self._opening is None:
            # In a task of its own, so that no caller's departure leaves a hold that nobody knows of.
            self._opening = asyncio.create_task(self._open(self._stored), name=f"a2a open {self.task_id}")

            def tell(done: asyncio.Task[None]) -> None:
                if not done.cancelled():
                    done.exception()  # whoever waits gets it; nobody may be left
                opened()

            self._opening.add_done_callback(tell)
        await asyncio.shield(self._opening)

    async def _open(self, stored: Stored) -> None:
        self.writer = await self._store.open(self._scope, stored, self._lose, push=self._push)

    def part(self, *, release: bool) -> None:
        """Nothing happens any more. release: whether the hold, if there is one, is given up."""
        writer = self.writer
        if writer is not None:
            self._last = writer.last
            if release and not self.lost and not self.ended:
                writer.release()
            self.writer = None
        # Each of the two knows somebody who knows this: what is over should not wait for the garbage
        # collector.
        self._on_lost = _nothing
        self._shut = True

    def shut(self) -> None:
        """Takes no more changes: who tries to make one gets OwnershipLostError."""
        self._shut = True

    def _lose(self) -> None:
        self.lost = self._shut = True
        self._on_lost()

    # ------------------------------------------------------------------ changes

    def begin(self, task: hub.Task) -> None:
        """Creates the task.

        Raises A2AError RESOURCE_EXHAUSTED when the store has no room for it, and OwnershipLostError.
        """
        if self._shut:
            raise OwnershipLostError
        self.writer = self._store.create(self._scope, self.task_id, self._lose, push=self._push)
        self.task = task
        self.writer.append(hub.StreamResponse(task=task), task)

    def advance(
        self,
        event: hub.StreamResponse,
        update: hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent,
    ) -> None:
        """Applies a status or an artifact: `update`, which `event` holds.

        Raises IllegalTransitionError and OwnershipLostError; the task is unchanged then.
        """
        task, writer = self._writable()
        advance(task, update)
        writer.append(event, task)

    def advance_to(self, snapshot: hub.Task) -> None:
        """Applies a snapshot.

        Raises IllegalTransitionError and OwnershipLostError; the task is unchanged then.
        """
        task, writer = self._writable()
        advance_to(task, snapshot)
        writer.append(hub.StreamResponse(task=task), task)

    async def join(self, message: hub.Message) -> None:
        """Puts a further message into the history, and returns when it is there for good; else it is taken
        out again.

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
        """Undoes `join`, whatever has happened since."""
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
        """Returns when the store has it all for good.

        Raises OwnershipLostError when it is somebody else's now, A2AError UNAVAILABLE when the store does not
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
        """Calls `tell` when the store has it all for good, or with what `settled` would raise."""
        if self.writer is None:
            tell(None)
        else:
            self.writer.when_synced(
                lambda error: tell(OwnershipLostError() if isinstance(error, VersionConflictError) else error)
            )

    async def shown(self) -> Shown:
        """A copy to give away. Raises what `settled` raises."""
        found = Shown(self.snapshot(), self.last)
        await self.settled()
        return found

    def _writable(self) -> tuple[hub.Task, TaskWriter]:
        if self._shut:
            raise OwnershipLostError
        if self.task is None or self.writer is None:
            raise RuntimeError("the task is not held")
        return self.task, self.writer


def _nothing() -> None:
    """Nobody needs to know any more."""


def as_answer(error: Exception) -> A2AError:
    """What a caller is told of an error of the store."""
    return error if isinstance(error, A2AError) else internal_error()
