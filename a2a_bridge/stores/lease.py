"""The lease on one task: buffers its events, and makes the change that the next group writes (`groups`).

Rules:
1. Events are buffered as messages, for the readers, and serialized, for the log. The working copy is
   serialized when a group is collected: at that time it is the task after the last event.
2. The body is written when the task begins or ends, and when the events and joined messages since then are
   as large as the body: a read never costs much more than the task, and a stream writes at most twice its
   size. A joined message counts for more than its bytes: a turn is few bytes, and many events to read. The
   body is also written after any other change, and when a message joins a task of a driver that does not keep
   these.
3. The write of a terminal state also releases the lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.offload import MUCH
from a2a_bridge.core.errors import A2AError, IllegalStateError
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.lease_states import ENDED, GONE, HELD, LOST, RELEASED, TAKEN, TRANSITIONS, LeaseState
from a2a_bridge.stores.ports import Scope, Stored, Synced, VersionConflictError, ignore_loss, unavailable
from a2a_bridge.stores.records import EARLIEST, LATEST, Place, TaskChange, TaskRow
from a2a_bridge.stores.row_format import Joined, checksum_of, join_row, pack, storable

#: maximum changes of one task that are not durable yet
_MOST_EVENTS = 1024
_MOST_BYTES = 4 << 20
#: bytes of a body that are parsed in the time that a reader takes for the events of a turn
_TURN = 8 << 10


class Pending(NamedTuple):
    """The changes of one task in one group."""

    lease: TaskLease
    #: the number of the last change whose waiters this answers
    submitted: int
    change: TaskChange
    events: Sequence[hub.StreamResponse]
    #: the events, serialized
    data: Sequence[bytes]
    ended: bool
    #: bytes of the events
    size: int
    #: bytes of events and body, about
    weight: int
    #: the large task whose bytes are the body of the row, and which nobody changes; None if the row has them
    late: hub.Task | None = None

    def with_body(self) -> Pending:
        """The changes with the body of a large task. For a worker."""
        if self.late is None:
            return self
        row = self.change.row
        body = self.late.SerializeToString(deterministic=True)
        checksum = checksum_of(body_key(row.scope, row.task_id), body)
        row = row._replace(body=body, checksum=checksum)
        return self._replace(change=self.change._replace(row=row), late=None)


class Group(NamedTuple):
    """What one call of the driver writes."""

    pending: Sequence[Pending]
    #: the waiters for the results of changes that belong to no task
    answers: Sequence[asyncio.Future[Any]]
    #: the changes of tasks and the other changes, for the driver
    changes: Sequence[Any]


class LeaseWriter(Protocol):
    """What a lease needs of the writer of groups."""

    #: bytes of the events that no group has collected yet
    queued: int
    memory: MemoryAccount
    #: True if nothing is written any more
    closed: bool
    #: whether the driver stores messages that join
    keeps_joined: bool

    @property
    def crowded(self) -> bool: ...
    def deadline(self) -> float: ...
    def note(self, lease: TaskLease) -> None: ...
    def commit_soon(self) -> None: ...
    async def next_group(self) -> None: ...
    def forget(self, lease: TaskLease) -> None: ...


def finish(future: asyncio.Future[Any], error: Exception | None) -> None:
    """Completes a future, unless it is done."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def place_of(task: hub.Task) -> Place:
    """The values by which a task is listed."""
    stamp = task.status.timestamp
    nanoseconds = stamp.seconds * 1_000_000_000 + stamp.nanos
    return Place(task.context_id, task.status.state, min(max(nanoseconds, EARLIEST), LATEST))


def body_key(scope: Scope, task_id: str) -> tuple[str, ...]:
    """The texts that the checksum of a body covers beside it."""
    return storable(scope.tenant), storable(scope.owner), storable(task_id)


class Batch:
    """The changes of one task that no group has collected yet."""

    __slots__ = ("data", "events", "joined", "size", "task")

    def __init__(self) -> None:
        #: the working copy after the last change; None if only the holder changes
        self.task: hub.Task | None = None
        self.events: list[hub.StreamResponse] = []
        #: the same events, serialized
        self.data: list[bytes] = []
        #: messages that joined, serialized, with the number of the event before them
        self.joined: list[tuple[int, bytes]] = []
        #: bytes of events and messages
        self.size = 0

    def begins(self) -> bool:
        """Whether a large task begins with the first event, which is a task. Such an event is alone in its
        segment, so that the next event can be read after it.
        """
        return bool(self.events) and len(self.data[0]) >= MUCH and self.events[0].HasField("task")


class TaskLease:
    """Implements TaskWriter."""

    __slots__ = (
        "_amended",
        "_body_size",
        "_counted",
        "_event_bytes",
        "_key",
        "_on_lost",
        "_opened",
        "_place",
        "_submitted",
        "_synced",
        "_task_bytes",
        "_waiters",
        "_writer",
        "applied",
        "batch",
        "copy",
        "crowded",
        "joined",
        "joined_applied",
        "last",
        "now",
        "push",
        "released_version",
        "scope",
        "stored",
        "task_id",
        "version",
    )

    def __init__(
        self,
        writer: LeaseWriter,
        scope: Scope,
        task_id: str,
        on_lost: Callable[[], None],
        *,
        push: bool,
        opened: Stored | None = None,
    ) -> None:
        self.scope = scope
        self.task_id = task_id
        self.push = push
        #: as of the last event
        self.crowded = False
        self.last = self.applied = self.version = 0
        #: the number of the last message that joined and has a row; and of the last one in the body
        self.joined = self.joined_applied = 0
        #: the number of the last durable event
        self.stored = 0
        self._body_size = self._event_bytes = 0
        #: the version before a write that only released the lease; else -1
        self.released_version = -1
        self._place: Place | None = None
        #: the texts that the checksum of the body covers beside it
        self._key: tuple[str, ...] | None = None
        #: approximate bytes of the working copy; and all bytes that this lease has in the memory account
        self._task_bytes = self._counted = 0
        self._writer = writer
        #: True until the first change of a task that was opened is collected
        self._opened = opened is not None
        if opened is not None:
            self.version, self.applied = opened.version, opened.applied
            self.last = self.stored = opened.last
            self._place = place_of(opened.task)
            self._task_bytes = opened.size or opened.task.ByteSize()
            self._event_bytes = opened.behind
            self._body_size = self._task_bytes - opened.behind
            self.joined, self.joined_applied = opened.joined
            self._count(self._task_bytes)
        #: the task as of the last change that was collected; None before the first
        self.copy: hub.Task | None = None if opened is None else opened.task
        #: changed by this lease only; None if there is nothing to write
        self.batch: Batch | None = None
        #: True if the body lacks a change that is neither an event nor a joined message
        self._amended = opened is None
        #: the present state; changed by `to` only
        self.now = HELD
        #: the number of changes, and the number of durable changes
        self._submitted = self._synced = 0
        self._waiters: list[tuple[int, float, Synced]] = []
        self._on_lost = on_lost

    def to(self, state: LeaseState) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if state not in TRANSITIONS[self.now]:
            raise IllegalStateError("a lease", self.now, state)
        self.now = state

    @property
    def lost(self) -> bool:
        """True if another lease has the task."""
        return self.now in GONE

    # ------------------------------------------------------------------ for the engine

    @property
    def pending(self) -> bool:
        return self._submitted != self._synced

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        self.last += 1
        if self.now is LOST or self.now is TAKEN:
            return self.last
        writer, batch = self._writer, self.batch
        if batch is None:
            batch = self.batch = Batch()
            writer.note(self)
        data = event.SerializeToString()
        size = len(data)
        events = batch.events
        events.append(event)
        batch.data.append(data)
        batch.size += size
        batch.task = task
        writer.queued += size
        self._task_bytes += size
        # As `_count`, without another call for each event.
        self._counted += size + size
        writer.memory.add(size + size)
        self._submitted += 1
        self.crowded = batch.size > _MOST_BYTES or len(events) > _MOST_EVENTS or writer.crowded
        return self.last

    def amend(self, task: hub.Task, joined: hub.Message | None = None, /) -> None:
        if self.now in GONE:
            return
        batch = self.note()
        batch.task = task
        if joined is None or not self._writer.keeps_joined:
            self._amended = True
            return
        data = joined.SerializeToString()
        batch.joined.append((self.last, data))
        size = len(data)
        batch.size += size
        self._writer.queued += size
        self._task_bytes += size
        self._count(size + size)

    def when_synced(self, callback: Synced, /) -> None:
        if self.now in GONE:
            self.lose()
            callback(VersionConflictError(self.task_id))
        elif self._submitted == self._synced:
            callback(None)
        elif self._writer.closed:
            callback(unavailable())
        else:
            self._waiters.append((self._submitted, self._writer.deadline(), callback))
            self._writer.commit_soon()

    async def sync(self) -> None:
        if self.now in GONE:
            self.lose()
            raise VersionConflictError(self.task_id)
        if self._submitted != self._synced:
            synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_synced(partial(finish, synced))
            await synced

    async def wait_settled(self) -> None:
        """Waits until all changes so far are durable or dropped."""
        with suppress(VersionConflictError):
            await self.sync()

    async def room(self) -> None:
        while True:
            batch = self.batch
            full = batch is not None and (batch.size > _MOST_BYTES or len(batch.events) > _MOST_EVENTS)
            if not full and not self._writer.crowded:
                break
            await self._writer.next_group()
        self.crowded = False

    def release(self) -> None:
        if self.now is ENDED:
            self.to(RELEASED)
        elif self.now is HELD:
            self.to(RELEASED)
            if self.version or self._submitted:
                self.note()
            else:
                self._writer.forget(self)

    # ------------------------------------------------------------------ for the writer

    @property
    def released(self) -> bool:
        """True if the lease is or will be released, or the task has ended."""
        return self.now is RELEASED or self.now is ENDED

    def collect(self, me: str) -> Pending:
        """The changes to write now. Each is returned once."""
        batch, self.batch = self.batch or Batch(), None
        events, data, size = batch.events, batch.data, batch.size
        self._writer.queued -= size
        before, task = self._place, batch.task
        ended = False
        body = checksum = late = None
        self.released_version = self.version if task is None else -1
        if task is not None:
            self.copy = task
            self._place = place_of(task)
            if before is not None:
                self._place = self._place._replace(context=before.context)
            ended = task.status.state in TERMINAL
            # All changes are events if each one has a number.
            begins = not self.version and self._submitted == len(events) and batch.begins()
            if self._task_bytes >= MUCH and (ended or begins):
                # Nobody changes a task that has ended, or the snapshot in the first event.
                late, self.applied = (task, self.last) if ended else (events[0].task, 1)
                self._body_size = len(data[0]) if data else 0
                self._event_bytes = size - self._body_size
                self._amended = False
            elif (
                self._amended
                or ended
                or self._event_bytes + size + _TURN * (self.joined - self.joined_applied + len(batch.joined))
                >= self._body_size
            ):
                # The order of maps matters to who parses it: see `pending_send.begin_with`.
                body = task.SerializeToString(deterministic=True)
                if self._key is None:
                    self._key = body_key(self.scope, self.task_id)
                checksum = checksum_of(self._key, body)
                self._body_size = len(body)
                self._count(self._body_size - self._task_bytes)
                self._task_bytes = self._body_size
                self._event_bytes = 0
                self._amended = False
                self.applied = self.last
            else:
                self._event_bytes += size
        place = self._place
        if place is None:
            raise RuntimeError("a task begins with an event")
        joined: list[Joined] = []
        if body is not None or late is not None:
            self.joined_applied = self.joined  # the body has the newest messages, too
        else:
            for number, (after, message) in enumerate(batch.joined, self.joined + 1):
                joined.append(join_row(self.task_id, number, after, message))
            self.joined += len(joined)
        if ended and self.now is HELD:
            self.to(ENDED)
        self.version += 1
        holder = me if self.now is HELD else ""
        row = TaskRow(
            self.scope,
            self.task_id,
            place,
            self.version,
            self.last,
            self.applied,
            holder,
            body,
            checksum,
            (),
            time.time(),
            self.joined,
            self.joined_applied,
        )
        segments = pack(self.task_id, self.last - len(events) + 1, data)
        change = TaskChange(row, segments, before, data, self.push, me, self._opened, joined)
        self._opened = False
        weight = size if body is None and late is None else size + self._task_bytes
        return Pending(self, self._submitted, change, events, data, ended, size, weight, late)

    def resting(self, pending: Pending) -> Stored | None:
        """The task as its last writer leaves it with a change that is durable; None if it has ended, or more
        changes follow.
        """
        if (
            self.copy is None
            or self.now is not RELEASED
            or pending.ended
            or self._submitted != pending.submitted
        ):
            return None
        row = pending.change.row
        joined = row.joined, row.joined_applied
        size, behind = self._task_bytes, self._event_bytes
        return Stored(self.copy, row.version, row.last, "", row.applied, size, behind, joined)

    def settle(self, pending: Pending) -> bool:
        """A change is durable. Returns True if it was the last one."""
        self._synced = pending.submitted
        self.stored = pending.change.row.last
        if self._counted:
            self._count(-pending.size)
        waiters = self._waiters
        if waiters:
            self._waiters = [waiter for waiter in waiters if waiter[0] > pending.submitted]
            for submitted, _, callback in waiters:
                if submitted <= pending.submitted:
                    callback(None)
        return self._submitted == self._synced and (self.now is RELEASED or self.now is ENDED)

    def expire(self, now: float, error: A2AError) -> None:
        """Fails the waiters whose time is over."""
        if any(deadline <= now for _, deadline, _ in self._waiters):
            waiters = self._waiters
            self._waiters = [waiter for waiter in waiters if waiter[1] > now]
            for _, deadline, callback in waiters:
                if deadline <= now:
                    callback(error)

    def lose(self) -> None:
        """Another process owns the task. May be called again."""
        if self.now is LOST:
            return
        tell = self.now is not RELEASED
        self.to(LOST)
        self.last = self.stored
        if self.batch is not None:
            self._writer.queued -= self.batch.size
            self.batch = None
        waiters, self._waiters = self._waiters, []
        # The owner first: a waiter that asks it must find that the lease is lost, or it waits again at once.
        if tell:
            self._on_lost()
        for _, _, callback in waiters:
            callback(VersionConflictError(self.task_id))

    def report_to(self, on_lost: Callable[[], None]) -> None:
        """The lease, which was acquired without an owner, has one."""
        self._on_lost = on_lost

    def part(self) -> None:
        """The lease is over. Cuts the reference cycle with its owner, so that both are freed at once."""
        self._on_lost = ignore_loss
        self.copy = None
        self._count(-self._counted)

    def _count(self, size: int) -> None:
        self._counted += size
        self._writer.memory.add(size)

    def note(self) -> Batch:
        """There is a change to write, if only of the holder. Returns what the next group writes."""
        self._submitted += 1
        if self.batch is None:
            self.batch = Batch()
            self._writer.note(self)
        return self.batch
