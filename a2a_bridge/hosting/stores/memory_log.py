"""The events of one task in memory: a bounded window that all its readers share.

Rules:
1. An event is stored once for all readers; a reader is a position in the log.
2. The log keeps all events that the slowest reader has not read, and as many read ones as fit into the
   window, so that broken streams can resume. If unread events fill the window, `room` makes the producer
   wait.
3. A reader that keeps the log full for `stall` seconds is dropped with an error, so that the others continue.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.clock import Clock
from a2a_bridge.hosting.ports import GapError
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub

#: maximum events per `take`: enough to save wake-ups, few enough for a fine-grained position
_BATCH = 32
#: how far a window may be exceeded before it is cut, so that it is not cut at each event
_SLACK = 32

#: the number of an event and the task after it, serialized; empty before the first
Note = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds of one task's log."""

    #: maximum number of events
    events: int
    #: maximum bytes of the events; a single event may exceed it, and the newest note may take as many bytes
    #: again
    bytes: int
    #: seconds that a full log waits for its slowest reader
    stall: float
    clock: Clock
    #: counts the bytes
    memory: MemoryAccount


class EventLog:
    """The newest events of one task.

    base: the number of the event before the first stored one. last: of the newest. ended: no event follows.
    on_quiet: called when the last reader has left.
    """

    # Most logs have neither readers nor notes: the first reader or note makes the members for them.
    __slots__ = (
        "_dropped",
        "_dropped_notes",
        "_ends",
        "_noted",
        "_notes",
        "_slowest",
        "_window",
        "base",
        "crowded",
        "ended",
        "events",
        "last",
        "on_quiet",
        "readers",
        "readers_waiting",
        "task_id",
        "writers_waiting",
    )

    def __init__(self, window: Window, task_id: str, last: int, on_quiet: Callable[[EventLog], None]) -> None:
        self._window = window
        self.task_id = task_id
        self.on_quiet = on_quiet
        self.base = self.last = last
        self.ended = False
        #: True if the log was full after the last event
        self.crowded = False
        #: the task after changes that are not events; their bytes; whether any were dropped
        self._notes: deque[Note] | None = None
        self._noted = 0
        self._dropped_notes = False
        self.events: list[hub.StreamResponse] = []
        #: per event: the bytes of all events up to it, since the log began; _dropped: of the dropped ones
        self._ends: list[int] = []
        self._dropped = 0
        self.readers: set[MemorySubscription] | None = None
        #: a position that all readers have reached: the lowest one when it was looked up last
        self._slowest = 0
        self.readers_waiting: list[asyncio.Future[None]] | None = None
        self.writers_waiting: list[asyncio.Future[None]] | None = None

    @property
    def bytes(self) -> int:
        """The bytes of everything stored here."""
        return self._noted + (self._ends[-1] - self._dropped if self._ends else 0)

    def append(self, event: hub.StreamResponse) -> int:
        """Adds the next event. Returns its size in bytes, which the caller adds to the memory account."""
        ends = self._ends
        size = len(event.SerializeToString())  # ByteSize costs more
        total = (ends[-1] if ends else self._dropped) + size
        ends.append(total)
        self.events.append(event)
        self.last += 1
        window = self._window
        if len(ends) >= window.events + _SLACK or total - self._dropped > window.bytes:
            self._trim()
        if self.readers:
            self.crowded = (
                self.last - self._slowest >= window.events or total - self._dropped >= window.bytes
            ) and self.full()
        if self.readers_waiting:
            _wake(self.readers_waiting)
        return size

    def forget(self) -> None:
        """Drops the content: it is no longer needed."""
        self._window.memory.add(-self.bytes)

    def note(self, task: hub.Task) -> None:
        """Stores the task after a change that is not an event."""
        data = task.SerializeToString()
        if self._notes is None:
            self._notes = deque()
        notes = self._notes
        if notes and notes[-1][0] == self.last:
            self._forget(notes.pop())  # no event lies between the two, so the older one cannot be requested
        notes.append((self.last, data))
        self._noted += len(data)
        self._window.memory.add(len(data))
        while self._noted > self._window.bytes and len(notes) > 1:
            self._forget(notes.popleft())
            self._dropped_notes = True

    def start(self, sequence: int) -> Note | None:
        """The state from which events lead to the task after event `sequence`; None if it is no
        longer known.
        """
        for note in reversed(self._notes or ()):
            if note[0] < sequence:
                return note
        return None if self.base or self._dropped_notes else (0, b"")

    def end(self) -> None:
        """Notes that no event follows."""
        self.ended = True
        if self.readers_waiting:
            _wake(self.readers_waiting)
        if self.writers_waiting:
            _wake(self.writers_waiting)

    def wake(self) -> None:
        """Wakes the readers that wait for an event."""
        if self.readers_waiting:
            _wake(self.readers_waiting)

    def after(self, position: int, most: int) -> list[hub.StreamResponse]:
        """Stored events after a position."""
        start = position - self.base
        return self.events[start : start + most]

    async def room(self) -> None:
        """Waits until the slowest reader is less than a window behind, or gone."""
        while self.full():
            future = asyncio.get_running_loop().create_future()
            if self.writers_waiting is None:
                self.writers_waiting = []
            self.writers_waiting.append(future)
            timer = self._window.clock.call_later(self._window.stall, self._drop_slowest)
            try:
                await future
            finally:
                timer.cancel()

    def subscribe(self, position: int) -> MemorySubscription:
        reader = MemorySubscription(self, position)
        if not self.base <= position <= self.last:
            reader.lapse()
            return reader
        if not self.readers:
            self.readers = set()
            self._slowest = position
        self.readers.add(reader)
        self._slowest = min(self._slowest, position)
        return reader

    def moved(self) -> None:
        """Notes that a reader has read further, or left: wakes the producer if that was the slowest one."""
        if self.writers_waiting and (not self.readers or self._lowest() > self._slowest):
            _wake(self.writers_waiting)

    def leave(self, reader: MemorySubscription) -> None:
        """Notes that a reader has left."""
        if self.readers is not None:
            self.readers.discard(reader)
        self.moved()
        if not self.readers:
            self.on_quiet(self)

    def break_off(self, error: A2AError) -> None:
        """Ends all readers with an error, after the events so far."""
        for reader in self.readers or ():
            reader.break_off(self.last, error)
        self.wake()

    def full(self) -> bool:
        """True if the slowest reader is a window behind."""
        if not self.readers:
            return False
        self._slowest = self._lowest()
        unread = self.last - self._slowest
        if unread >= self._window.events:
            return True
        ends = self._ends
        if not unread or ends[-1] - self._dropped < self._window.bytes:
            return False
        place = self._slowest - self.base
        before = self._ends[place - 1] if place else self._dropped
        return ends[-1] - before >= self._window.bytes

    def _lowest(self) -> int:
        """The position of the slowest reader, or the end of the log."""
        return min((reader.position for reader in self.readers or ()), default=self.last)

    def _trim(self) -> None:
        ends = self._ends
        most = self._window.bytes
        surplus = bisect_left(ends, ends[-1] - most) + 1 if ends[-1] - self._dropped > most else 0
        count = max(len(ends) - self._window.events, surplus)
        if self.readers:
            self._slowest = self._lowest()
            count = min(count, self._slowest - self.base)
        if count > 0:
            self._window.memory.add(self._dropped - ends[count - 1])
            self._dropped = ends[count - 1]
            del self.events[:count], ends[:count]
            self.base += count
            while self._notes and self._notes[0][0] < self.base:
                self._forget(self._notes.popleft())

    def _forget(self, note: Note) -> None:
        self._noted -= len(note[1])
        self._window.memory.add(-len(note[1]))

    def _drop_slowest(self) -> None:
        text = "the events of the task were read too slowly; subscribe again"
        for reader in tuple(self.readers or ()):
            if reader.position == self._slowest:
                reader.drop(A2AError(Reason.UNAVAILABLE, text))


class MemorySubscription:
    """Implements Subscription."""

    __slots__ = ("_delivered", "_error", "_limit", "_log", "_open", "position")

    def __init__(self, log: EventLog, position: int) -> None:
        self._log = log
        self.position = position
        #: the last event handed out; it counts as read at the next `take`
        self._delivered = position
        self._open = True
        self._error: Exception | None = None
        #: the number of the event after which the error is raised
        self._limit = 0

    async def take(self) -> Sequence[hub.StreamResponse]:
        log = self._log
        if self._open and self._delivered != self.position:
            self.position = self._delivered
            if log.writers_waiting:
                log.moved()
        while True:
            most = _BATCH
            if self._error is not None:
                most = min(most, self._limit - self.position)
                if most <= 0:
                    raise self._error
            if not self._open:
                return []
            start = self.position - log.base
            batch = log.events[start : start + most]
            if batch:
                self._delivered = self.position + len(batch)
                return batch
            if log.ended:
                return []
            waiter = asyncio.get_running_loop().create_future()
            if log.readers_waiting is None:
                log.readers_waiting = []
            log.readers_waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter.cancelled() and waiter in log.readers_waiting:
                    log.readers_waiting.remove(waiter)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._log.leave(self)

    def lapse(self) -> None:
        """Marks the reader as lapsed: the events at its position may be dropped."""
        self._open = False
        self._error = GapError(self.position)

    def drop(self, error: A2AError) -> None:
        """Closes the reader; its next `take` raises `error`."""
        self.close()
        self._error = error
        self._log.wake()

    def break_off(self, limit: int, error: A2AError) -> None:
        """Makes `take` raise `error` after the event of this number."""
        self._limit, self._error = limit, error


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
    futures.clear()
