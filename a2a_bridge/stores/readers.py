"""Reads from the memory of this process: the newest events of tasks with readers here, and ended tasks.

Rules of logs:
1. Readers get durable events only.
2. A log holds the newest durable events of a task with readers here, at most a window of the events that some
   readers have not read. Readers further behind read from the records, and no reader waits for another.
3. Events of other processes are in a log if they follow it without a jump. Otherwise, and when a change by
   another process is known, the readers read from the records.
4. While the store does not work, no reader gets an event. After the time for which callers wait for a write,
   the readers get the same error; they can resume later.

Ended tasks are in an LRU cache: they never change, so each is read from the database once, until it may be
deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from cachetools import LRUCache

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.offload import MUCH
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event_log import EventLog, GapError, LogReader, LogRules, Pace
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.lease import Pending
from a2a_bridge.stores.ports import Scope, Stored
from a2a_bridge.stores.records import Position, SharedRecords
from a2a_bridge.stores.row_format import Segment, unpack

#: events, and bytes of them, that a log keeps for readers that are behind
_WINDOW, _WINDOW_BYTES = 256, 96 << 10
#: overhead of a task in the cache beside its own bytes
_OVERHEAD = 400
#: seconds between two looks at the state of the store while there are readers
_LOOK = 1.0

#: reads the end of a task's log, and segments after a number
Read = Callable[[str, int], Awaitable[tuple[Position | None, Sequence[Segment]]]]


class StoredLogs:
    """The logs of all tasks with readers here.

    read: segments after a number. elsewhere: the other processes; None without any. last_written: the number
    of the last event that a writer of this process got; None without a writer. rejection: the error while the
    store does not work. patience: seconds until readers get it.
    """

    def __init__(
        self,
        read: Read,
        elsewhere: SharedRecords | None,
        last_written: Callable[[str], int | None],
        rejection: Callable[[], A2AError | None],
        *,
        patience: float,
        memory: MemoryAccount,
    ) -> None:
        self.read = read
        self.last_written = last_written
        self.memory = memory
        self._elsewhere = elsewhere
        self._rejection = rejection
        self._patience = patience
        self.rules = LogRules(_WINDOW, _WINDOW_BYTES, Pace.FREE, waiter=asyncio.Future)
        self._watch: asyncio.TimerHandle | None = None
        #: the loop time since which the store has not worked
        self._rejected_since: float | None = None
        self._logs: dict[str, _StoredLog] = {}

    def subscribe(self, task_id: str, after: int, *, exists: bool = False) -> LogReader[hub.StreamResponse]:
        """A reader of the events after a number. exists: True if the task is known."""
        one = self._logs.get(task_id)
        if one is None:
            one = self._logs[task_id] = _StoredLog(self, task_id)
            if self._elsewhere is not None:
                self._elsewhere.follow(task_id)
        one.exists = one.exists or exists
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(_LOOK, self._look_at_store)
        if after > one.last and self.last_written(task_id) is None:
            one.look_again()  # what another process has committed may not have been heard here yet
        return one.reader(after)

    def add(self, committed: Iterable[Pending]) -> None:
        """Adds changes that this process has committed."""
        logs = self._logs
        if logs:
            for pending in committed:
                one = logs.get(pending.lease.task_id)
                if one is not None:
                    one.add(pending)

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool) -> None:
        """Another process has committed these events."""
        one = self._logs.get(task_id)
        if one is None or self.last_written(task_id) is not None:
            return
        known = one.last + 1 - first
        if one.stale or known < 0:
            one.look_again()
        elif known < len(data) or (ended and not one.ended):
            events = [hub.StreamResponse.FromString(event) for event in data[known:]]
            one.extend(one.last, events, data[known:], ended=ended)

    def wake(self, task_ids: Iterable[str] | None) -> None:
        """Other processes may have written events of these tasks, or of any if None."""
        for task_id in tuple(self._logs) if task_ids is None else task_ids:
            one = self._logs.get(task_id)
            if one is not None and self.last_written(task_id) is None:
                one.look_again()

    def close(self) -> None:
        """Stops looking at the store."""
        if self._watch is not None:
            self._watch.cancel()

    def end(self, task_id: str, error: A2AError) -> None:
        """Ends the readers of a task."""
        one = self._logs.get(task_id)
        if one is not None:
            one.fail(error)

    def leave(self, one: _StoredLog) -> None:
        """A log has no reader."""
        if self._logs.get(one.task_id) is one:
            del self._logs[one.task_id]
            if self._elsewhere is not None:
                self._elsewhere.unfollow(one.task_id)

    def _look_at_store(self) -> None:
        """Once a second while there are readers: ends them if the store has not worked for too long."""
        self._watch = None
        rejection = self._rejection() if self._logs else None
        if rejection is None:
            self._rejected_since = None
        else:
            now = asyncio.get_running_loop().time()
            if self._rejected_since is None:
                self._rejected_since = now
            if now - self._rejected_since >= self._patience:
                for one in tuple(self._logs.values()):
                    one.fail(rejection)
        if self._logs:
            self._watch = asyncio.get_running_loop().call_later(_LOOK, self._look_at_store)


class _StoredLog(EventLog[hub.StreamResponse]):
    """The newest events of one task. It is stale until it is looked up, or begins here."""

    __slots__ = ("_error", "_logs", "exists", "task_id")

    def __init__(self, logs: StoredLogs, task_id: str) -> None:
        super().__init__(logs.rules)
        self.stale = True
        #: True once the task is known to exist; a reader may begin before it
        self.exists = False
        self.task_id = task_id
        self._logs = logs
        self._error: A2AError | None = None

    def add(self, pending: Pending) -> None:
        """Adds a change that is durable."""
        row = pending.change.row
        if row.version == 1:
            self.stale = False  # it had no events
        self.extend(row.last - len(pending.events), pending.events, pending.data, ended=pending.ended)

    def extend(
        self, after: int, events: Sequence[hub.StreamResponse], data: Sequence[bytes], *, ended: bool
    ) -> None:
        """Adds the durable events after a number, without events that the log knows already."""
        known = self.last - after
        if known > 0:  # a look at the records was faster than the report of their commit
            events, data = events[known:], data[known:]
        # Readers that have not read the dropped events find them in the records.
        self.skip_to(after)
        self.drop_read()
        self._logs.memory.add(sum(map(len, data)))
        for event, one in zip(events, data, strict=True):
            self.append(event, len(one))
        if ended:
            self.end()

    def fail(self, error: A2AError) -> None:
        """Ends all readers with an error, after the events so far."""
        if self.stale:
            self._error = error
            self.wake()
        else:
            self.break_off(error)

    async def older(self, after: int, /) -> Sequence[hub.StreamResponse]:
        position, segments = await self._logs.read(self.task_id, after)
        events: Sequence[hub.StreamResponse] = ()
        if segments and segments[0].first <= after + 1:
            large = sum([len(one.data) for one in segments]) >= MUCH
            arguments = self.task_id, segments, after
            events = await asyncio.to_thread(_events_in, *arguments) if large else _events_in(*arguments)
        if position is None and self.exists:
            raise GapError(after)  # another process has deleted the task since it was found
        if position is not None:
            self.exists = True
            self.skip_to(position.last)
            if position.ended:
                self.end()
        if self._error is not None:
            error, self._error = self._error, None
            self.break_off(error)
        return events

    def on_drop(self, _: Sequence[hub.StreamResponse], size: int, /) -> None:
        self._logs.memory.add(-size)

    def last_given(self) -> int:
        return max(self.last, self._logs.last_written(self.task_id) or 0)

    def left(self) -> None:
        self.drop(len(self.events))
        self._logs.leave(self)


def _events_in(task_id: str, segments: Sequence[Segment], after: int) -> list[hub.StreamResponse]:
    """The events in segments whose numbers are greater than `after`. Raises DamagedError."""
    return [event for one in segments for event in unpack(task_id, one, after)]


class _Entry(NamedTuple):
    scope: Scope
    data: bytes
    version: int
    last: int
    written: float


def _size_of(entry: _Entry) -> int:
    return len(entry.data) + _OVERHEAD


class TerminalTaskCache:
    """The ended tasks that were read or written last. most: bytes. retention: seconds after which any replica
    may delete an ended task; None for never. wall: seconds since the epoch.
    """

    def __init__(
        self,
        most: int,
        retention: float | None = None,
        *,
        wall: Callable[[], float] = time.time,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._most = most
        self._retention = retention
        self._wall = wall
        self._entries: LRUCache[str, _Entry] = LRUCache(most, _size_of)
        self._memory = memory or MemoryAccount()
        self._memory.holds(self)

    @property
    def idle(self) -> int:
        """Bytes that can be evicted: all of them."""
        return int(self._entries.currsize)

    def give_up(self, wanted: int, /) -> None:
        """Evicts entries in LRU order."""
        until = max(0, self.idle - wanted)
        while self.idle > until:
            _, oldest = self._entries.popitem()
            self._memory.add(-_size_of(oldest))

    def __contains__(self, task_id: str) -> bool:
        """True if the task is cached, or was when it was read last."""
        return task_id in self._entries

    def get(self, scope: Scope, task_id: str) -> Stored | None:
        """A copy of a task; None if it is not cached or belongs to another scope."""
        entry = self._entries.get(task_id)
        if entry is None or entry.scope != scope:
            return None
        if self._retention is not None and entry.written < self._wall() - self._retention:
            self.drop(task_id)
            return None
        return Stored(hub.Task.FromString(entry.data), entry.version, entry.last)

    def put(
        self, scope: Scope, task_id: str, data: bytes, version: int, last: int, written: float = 0.0
    ) -> None:
        """Adds an ended task, serialized. written: time of its last write, in seconds since the epoch."""
        entry = _Entry(scope, data, version, last, written)
        if _size_of(entry) * 8 > self._most:
            return
        before = self.idle
        self._entries[task_id] = entry
        self._memory.add(self.idle - before)

    def drop(self, task_id: str) -> None:
        """Removes a task."""
        entry = self._entries.pop(task_id, None)
        if entry is not None:
            self._memory.add(-_size_of(entry))
