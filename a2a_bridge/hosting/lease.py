"""The lease of a run on its task: its states, which one may follow which, and the writes that it allows.

Rules:
1. All transitions are in TRANSITIONS; docs and tests read the same table. A state has the members that it
   needs, and no others.
2. A task is changed in the state Held only. A task run begins in NotHeld.
3. An attempt to acquire the lease goes on when its callers leave, so that no unknown lease is left behind.
   When it ends, the run decides: see `TaskRun._attempt_ended`.
4. After a loss, the content of the store is valid and the working copy is not: see `TaskRun._lost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from a2a_bridge.core.errors import IllegalStateError
from a2a_bridge.stores.ports import (
    Scope,
    Store,
    Stored,
    Synced,
    TaskWriter,
    VersionConflictError,
    ignore_loss,
)


class NotHeld:
    """The run does not have the lease. stored: the task, if it exists already."""

    __slots__ = ("stored",)

    def __init__(self, stored: Stored | None) -> None:
        self.stored = stored


class Opening:
    """The lease on a stored task is being acquired."""

    __slots__ = ("attempt", "stored")

    def __init__(self, stored: Stored, attempt: asyncio.Task[TaskWriter]) -> None:
        self.stored = stored
        self.attempt = attempt


class _Writing:
    """A state with a writer: this process owns the task."""

    __slots__ = ("writer",)

    def __init__(self, writer: TaskWriter) -> None:
        self.writer = writer


class Held(_Writing):
    """The run has the lease, and may change the task."""

    __slots__ = ()


class HandedOver(_Writing):
    """No further changes. The lease is kept until this process ends, so that others find an orphan. The last
    changes may be on the way to the store.
    """

    __slots__ = ()


class _Final:
    """A state that no other follows. last: the number of an event, see the states."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last


class Lost(_Final):
    """Another process owns the task. last: the number of the last event that is durable here."""

    __slots__ = ()


class Parted(_Final):
    """The run has ended with the task, and has no lease. last: the number of the last event."""

    __slots__ = ()


Lease = NotHeld | Opening | Held | HandedOver | Lost | Parted

#: state -> the states that may follow it
TRANSITIONS: dict[type[Lease], frozenset[type[Lease]]] = {
    NotHeld: frozenset({Opening, Held, Parted}),
    # Back when the attempt has failed: the next caller tries again.
    Opening: frozenset({NotHeld, Held, Lost}),
    Held: frozenset({HandedOver, Lost, Parted}),
    HandedOver: frozenset({Lost, Parted}),
    Lost: frozenset(),
    Parted: frozenset(),
}

#: of a task that begins here
_NEW = NotHeld(None)


class OwnershipLostError(Exception):
    """Another process owns the task. The content of the store is valid, the working copy is not."""


def refused(state: Lease) -> Exception:
    """The error for a change in a state other than Held."""
    if isinstance(state, Lost | HandedOver | Parted):
        return OwnershipLostError()
    return RuntimeError("the task is not held")  # a defect of the engine


class RunLease:
    """The lease of one task run. on_lost: called when another process owns the task. stored: the task, if it
    exists already. push: True if events go to the outbox.
    """

    __slots__ = ("_on_lost", "_push", "_scope", "_store", "_task_id", "now")

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
        self._store = store
        self._scope = scope
        self._task_id = task_id
        self._on_lost = on_lost
        self._push = push
        #: the present state; changed by `to` only
        self.now: Lease = _NEW if stored is None else NotHeld(stored)

    def to(self, state: Lease) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if type(state) not in TRANSITIONS[type(self.now)]:
            before, after = type(self.now).__name__, type(state).__name__
            raise IllegalStateError("the lease of a run", before, after)
        self.now = state

    # ------------------------------------------------------------------ questions

    @property
    def lost(self) -> bool:
        return type(self.now) is Lost

    @property
    def held(self) -> bool:
        """True if this process owns the task, although it may change it no more."""
        return isinstance(self.now, _Writing)

    @property
    def opening(self) -> bool:
        return type(self.now) is Opening

    @property
    def last(self) -> int:
        """The number of the last event of the working copy; after a loss, of the last durable one."""
        state = self.now
        if isinstance(state, _Writing):
            return state.writer.last
        if isinstance(state, _Final):
            return state.last
        return 0 if state.stored is None else state.stored.last

    @property
    def durable(self) -> int:
        """The number of the last event that is durable here. A later event in the store is of a new owner."""
        state = self.now
        return state.writer.stored if isinstance(state, _Writing) else self.last

    @property
    def pending(self) -> bool:
        """True if any change is not durable yet."""
        state = self.now
        return isinstance(state, _Writing) and state.writer.pending

    # ------------------------------------------------------------------ transitions

    def begin(self) -> TaskWriter:
        """The writer of a task that begins here; gets the lease unless the run has it. Raises
        OwnershipLostError if no changes are allowed any more, A2AError RESOURCE_EXHAUSTED.
        """
        state = self.now
        if type(state) is Held:
            return state.writer
        if type(state) is not NotHeld or state.stored is not None:
            raise refused(state)
        writer = self._store.create(self._scope, self._task_id, self._lose, push=self._push)
        self.now = Held(writer)  # without `to`: on the path of each task
        return writer

    async def acquire(self, ended: Callable[[], None], *, wait: bool = True) -> None:
        """Acquires the lease on a stored task, unless the run has it. One attempt counts for all callers.
        ended: called when the attempt ends, which may be after its callers have left. wait: False to acquire
        it with the first change, see `Store.open`. Raises VersionConflictError, UNAVAILABLE.
        """
        state = self.now
        if type(state) is NotHeld and state.stored is not None:
            stored = state.stored
            opening = self._store.open(self._scope, stored, self._lose, push=self._push, wait=wait)
            if not self._store.durable:
                self.to(Held(await opening))
                return
            state = Opening(stored, asyncio.create_task(opening, name=f"a2a open {self._task_id}"))

            def callback(attempt: asyncio.Task[TaskWriter]) -> None:
                failed = attempt.cancelled() or attempt.exception() is not None
                if type(self.now) is Opening:
                    self.to(NotHeld(stored) if failed else Held(attempt.result()))
                ended()

            self.to(state)
            state.attempt.add_done_callback(callback)
        if type(state) is Opening:
            await asyncio.shield(state.attempt)
            if self.lost:
                raise VersionConflictError(self._task_id)

    def hand_over(self) -> None:
        """No further changes; the lease is kept. Does nothing in a state without changes."""
        state = self.now
        if type(state) is Held:
            self.to(HandedOver(state.writer))

    def part(self, *, release: bool) -> None:
        """No further changes. release: True to release a lease that the run has, after its last change."""
        state = self.now
        if isinstance(state, _Writing):
            last = state.writer.last
            if release and type(state) is Held:
                state.writer.release()
            self.to(Parted(last))
        elif type(state) is NotHeld:
            self.to(Parted(self.last))
        # Cuts a reference cycle, so that a finished run need not wait for the garbage collector.
        self._on_lost = ignore_loss

    def _lose(self) -> None:
        state = self.now
        if isinstance(state, _Writing):
            self.to(Lost(state.writer.stored))
        elif type(state) is Opening:  # between the end of the attempt and the news of it
            self.to(Lost(state.stored.last))
        self._on_lost()

    # ------------------------------------------------------------------ durability

    async def wait_settled(self) -> None:
        """Waits until all changes are durable. Raises OwnershipLostError if another process owns the task,
        A2AError UNAVAILABLE if the store does not work.
        """
        state = self.now
        if isinstance(state, _Writing):
            if state.writer.pending:
                try:
                    await state.writer.sync()
                except VersionConflictError:
                    raise OwnershipLostError from None
        elif type(state) is Lost:
            raise OwnershipLostError

    def when_settled(self, callback: Synced) -> None:
        """Calls `callback` once all changes are durable, or with the error of `wait_settled`."""
        state = self.now
        if isinstance(state, _Writing):
            state.writer.when_synced(
                lambda error: callback(
                    OwnershipLostError() if isinstance(error, VersionConflictError) else error
                )
            )
        else:
            callback(OwnershipLostError() if type(state) is Lost else None)
