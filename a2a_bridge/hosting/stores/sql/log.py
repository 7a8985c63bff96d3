"""Reads the events of tasks: the newest from this process's memory, older ones from the database. It does not
write.

Rules:
1. Readers get durable events only.
2. A tail holds the newest durable events of a task with readers here: all that the slowest reader has not
   read, but at most a window. Readers further behind read from the database, and no reader waits for another.
3. Events of other replicas are in a tail if they follow it without a jump. Otherwise, and when a change by
   another process is known, the readers look into the database.
4. While the store does not work, no reader gets an event. After the time for which callers wait for a write,
   the readers get the same error; they can resume later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from a2a_bridge.core.errors import A2AError
from a2a_bridge.hosting.ports import GapError
from a2a_bridge.hosting.stores.sql.database import Database
from a2a_bridge.hosting.stores.sql.segments import Segment, unpack
from a2a_bridge.hosting.stores.sql.task_lease import Change
from a2a_bridge.hosting.stores.sql.tasks import stretch
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub

#: maximum events per `take`: enough to save wake-ups, few enough for a fine-grained position
_BATCH = 32
#: events in a tail for readers that are behind
_WINDOW = 256
_WINDOW_BYTES = 96 << 10
#: bytes of segments per fetch
_FETCH = 256 << 10
#: seconds between two looks at the state of the store while there are readers
_LOOK = 1.0


class Elsewhere(Protocol):
    """The other replicas, as far as readers need them."""

    def follow(self, task_id: str, /) -> None:
        """A task has readers here: `heard` and `woken` are called for it."""
        ...

    def unfollow(self, task_id: str, /) -> None:
        """It has none any more."""
        ...


class EventLogs:
    """The tails of all tasks with readers here.

    last_written: returns the number of the last event that a writer of this process got; None without a
    writer. refusal: returns the error for callers while the store does not work. patience: seconds until
    readers get it.
    """

    def __init__(
        self,
        database: Database,
        elsewhere: Elsewhere,
        last_written: Callable[[str], int | None],
        refusal: Callable[[], A2AError | None],
        *,
        patience: float,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._database = database
        self._elsewhere = elsewhere
        self._last_written = last_written
        self._refusal = refusal
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        #: the loop time since which the store has not worked
        self._refused_since: float | None = None
        self._memory = memory or MemoryAccount()
        self._tails: dict[str, _Tail] = {}

    def subscribe(self, task_id: str, after: int) -> SqlSubscription:
        """A reader of the events after a number."""
        tail = self._tails.get(task_id)
        if tail is None:
            tail = self._tails[task_id] = _Tail(
                task_id, self._database, self._last_written, self._gone, self._memory
            )
            self._elsewhere.follow(task_id)
        if self._watch is None:
            self._watch = self._loop.call_later(_LOOK, self._look_at_store)
        return SqlSubscription(tail, after)

    def add(self, changes: Iterable[Change]) -> None:
        """Adds changes that this process has committed."""
        tails = self._tails
        if tails:
            for change in changes:
                tail = tails.get(change.lease.task_id)
                if tail is not None:
                    tail.add(change)

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool) -> None:
        """Another replica has committed these events."""
        tail = self._tails.get(task_id)
        if tail is None or self._last_written(task_id) is not None:
            return
        known = tail.last + 1 - first
        if tail.stale or known < 0:
            tail.outdated()
        elif known < len(data) or (ended and not tail.ended):
            events = [hub.StreamResponse.FromString(one) for one in data[known:]]
            tail.extend(tail.last, events, data[known:], ended)

    def woken(self, task_ids: Iterable[str] | None) -> None:
        """Other processes may have written events of these tasks, or of any if None."""
        for task_id in tuple(self._tails) if task_ids is None else task_ids:
            tail = self._tails.get(task_id)
            if tail is not None and self._last_written(task_id) is None:
                tail.outdated()

    def close(self) -> None:
        """Stops looking at the store."""
        if self._watch is not None:
            self._watch.cancel()

    def end(self, task_id: str, error: A2AError) -> None:
        """Ends the readers of a task."""
        tail = self._tails.pop(task_id, None)
        if tail is not None:
            self._elsewhere.unfollow(task_id)
            tail.part()
            tail.error = error
            tail.wake()

    def _look_at_store(self) -> None:
        """Once a second while there are readers: ends them if the store has not worked for too long."""
        self._watch = None
        refusal = self._refusal() if self._tails else None
        if refusal is None:
            self._refused_since = None
        else:
            now = self._loop.time()
            if self._refused_since is None:
                self._refused_since = now
            if now - self._refused_since >= self._patience:
                for task_id in tuple(self._tails):
                    self.end(task_id, refusal)
        if self._tails:
            self._watch = self._loop.call_later(_LOOK, self._look_at_store)

    def _gone(self, tail: _Tail) -> None:
        if self._tails.get(tail.task_id) is tail:
            del self._tails[tail.task_id]
            self._elsewhere.unfollow(tail.task_id)
        tail.part()


class _Tail:
    """The newest events of one task. base: the number of the event before the first one here.

    last: of the last event known to be durable; 0 before the first look. stale: True if the database may have
    further events.
    """

    __slots__ = (
        "_changes",
        "_database",
        "_gone",
        "_memory",
        "_size",
        "_trimming",
        "_waiters",
        "base",
        "ended",
        "error",
        "events",
        "last",
        "last_written",
        "readers",
        "stale",
        "task_id",
    )

    def __init__(
        self,
        task_id: str,
        database: Database,
        last_written: Callable[[str], int | None],
        gone: Callable[[_Tail], None],
        memory: MemoryAccount,
    ) -> None:
        self.task_id = task_id
        self.base = self.last = 0
        self.stale = True
        self.ended = False
        self.error: A2AError | None = None
        self.events: deque[tuple[hub.StreamResponse, int]] = deque()
        self.readers: set[SqlSubscription] = set()
        self.last_written = last_written
        self._size = 0
        #: counts the reports of further events in the database
        self._changes = 0
        self._database = database
        self._gone = gone
        self._memory = memory
        self._waiters: list[asyncio.Future[None]] = []
        self._trimming = False

    def add(self, change: Change) -> None:
        if change.version == 1:
            self.stale = False  # it had no events
        self.extend(change.last - len(change.events), change.events, change.data, change.ended)

    def extend(
        self, after: int, events: Sequence[hub.StreamResponse], data: Sequence[bytes], ended: bool
    ) -> None:
        """Adds the durable events after a number."""
        if after != self.base + len(self.events):
            # Readers that have not read the dropped events find them in the database.
            self.part()
            self.base = after
        added = 0
        for event, one in zip(events, data, strict=True):
            self.events.append((event, len(one)))
            added += len(one)
        self._size += added
        self._memory.add(added)
        self.last = after + len(events)
        self.ended = ended
        count, left = len(self.events), self._size
        surplus = 0
        while count - surplus > _WINDOW or (left > _WINDOW_BYTES and count - surplus > 1):
            left -= self.events[surplus][1]
            surplus += 1
        self._drop(surplus)
        self.wake()

    def part(self) -> None:
        """Drops its events."""
        self.events.clear()
        self._memory.add(-self._size)
        self._size = 0

    def outdated(self) -> None:
        """The database has further events."""
        self.stale = True
        self._changes += 1
        self.wake()

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def changed(self) -> None:
        """Waits until there may be new events."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def taken(self) -> None:
        """A reader has taken events.

        The tail is trimmed once, after all readers of this loop iteration.
        """
        if not self._trimming:
            self._trimming = True
            asyncio.get_running_loop().call_soon(self.trim)

    def trim(self) -> None:
        """Drops events that all readers have read."""
        self._trimming = False
        slowest = min((reader.delivered for reader in self.readers), default=self.base)
        self._drop(min(slowest - self.base, len(self.events)))

    def leave(self, reader: SqlSubscription) -> None:
        self.readers.discard(reader)
        if not self.readers:
            self._gone(self)

    async def fetch(self, after: int) -> list[Segment]:
        """Segments of the database after a number."""
        before = self._changes
        position, found = await self._database.read(
            lambda connection: stretch(connection, self.task_id, after, _FETCH)
        )
        # Until then, other readers of this task have to look for themselves.
        self.stale = self._changes != before
        if position is not None:
            self.last = max(self.last, position.last)
            self.ended = self.ended or position.ended
        return found

    def _drop(self, count: int) -> None:
        """Drops the oldest events."""
        if count <= 0:
            return
        size = 0
        for _ in range(count):
            size += self.events.popleft()[1]
        self._size -= size
        self._memory.add(-size)
        self.base += count


class SqlSubscription:
    """Implements Subscription. delivered: the number of the last event that was handed out."""

    __slots__ = ("_old", "_open", "_tail", "delivered", "position")

    def __init__(self, tail: _Tail, after: int) -> None:
        self.position = self.delivered = after
        self._tail = tail
        self._open = True
        #: events of the database that are not handed out yet
        self._old: Iterator[hub.StreamResponse] = iter(())
        tail.readers.add(self)

    async def take(self) -> Sequence[hub.StreamResponse]:
        tail = self._tail
        self.position = self.delivered
        while True:
            if not self._open:
                return []
            batch = list(islice(self._old, _BATCH))
            if not batch and tail.base <= self.delivered < tail.base + len(tail.events):
                start = self.delivered - tail.base
                batch = [event for event, _ in islice(tail.events, start, start + _BATCH)]
            if batch:
                self.delivered += len(batch)
                tail.taken()
                return batch
            if self.delivered < tail.last or tail.stale:
                await self._fetch()
            elif tail.error is not None:
                raise tail.error
            elif self.delivered > tail.last and self.delivered > (tail.last_written(tail.task_id) or 0):
                raise GapError
            elif tail.ended and self.delivered == tail.last:
                return []
            else:
                await tail.changed()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._old = iter(())
            self._tail.leave(self)
            self._tail.wake()

    async def _fetch(self) -> None:
        wanted = self.delivered < self._tail.last
        found = await self._tail.fetch(self.delivered)
        if found:
            if found[0].first > self.delivered + 1:
                raise GapError
            self._old = chain.from_iterable(
                unpack(self._tail.task_id, segment, self.delivered) for segment in found
            )
        elif wanted:
            raise GapError  # the log is shorter than before: that part was deleted
