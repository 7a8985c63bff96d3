"""A bounded, numbered log of the events of one stream, with readers at their own positions. It does no I/O.

How to use it: subclass `EventLog` where events that are not in memory are found elsewhere (`older`), or have
to be folded into something (`on_drop`). One `LogRules` serves all logs of an owner, and has the functions
with which logs wait.

    rules = LogRules(256, 96 << 10, Pace.FREE, waiter=asyncio.Future)
    log = EventLog(rules)                    # or a subclass; `last` if events exist already
    log.append(event, size)                  # then, with another pace: if log.crowded: await log.room()
    reader = log.reader(after)
    while events := await reader.take(): ... # the first of them has the number reader.position + 1
    reader.close()

Rules:
1. Events are numbered from 1 without gaps and stored once for all readers. A reader is a position: the number
   of the last event that it has read. What a reader was handed out counts as read at its next `take`.
2. The log keeps as many of the newest events as `events` and `size` allow. Events that fall out of it are
   given to `on_drop`. With Pace.FREE, the newest one is kept, of any size.
3. `pace` says which reader the writer waits for. That reader never misses an event: what it has not read is
   kept beyond the bounds, and `crowded` asks the writer to wait in `room`.
4. A reader behind the kept events reads from `older`; if that has nothing, it gets a GapError. If another
   process writes the events, too, `skip_to` or `look_again` makes the readers look into `older`.
5. With Pace.SLOWEST, a reader that makes the writer wait for `stall` seconds is dropped with an error.
6. Sizes are the caller's: given to `append`, reported again to `on_drop`. So the owner of a memory account
   adds the first and subtracts the second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import Enum
from sys import maxsize
from typing import Any, Generic, Protocol, TypeVar

from a2a_bridge.core.errors import A2AError, Reason

E = TypeVar("E")

#: maximum events per `take`: enough to save wake-ups, few enough for a fine-grained position
BATCH = 32
#: maximum events by which a log may exceed its bound before it is cut, so that it is not cut at each event
_SLACK = 32


class GapError(Exception):
    """Events after the requested position are no longer kept, or the position lies beyond the last one."""


class Pace(Enum):
    """Which reader the writer waits for."""

    #: the slowest one: no reader misses an event
    SLOWEST = "slowest"
    #: the fastest one: those that fall behind the kept events get a GapError
    FASTEST = "fastest"
    #: none: readers that are behind read from `older`
    FREE = "free"


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None: ...


class LogRules:
    """The bounds of logs, shared by all logs of an owner.

    events, size: what a log keeps; size in bytes. lead, lead_size: how far the writer may be ahead of the
    reader that sets the pace; as far as `events` and `size` if None. stall: seconds after which a reader is
    dropped that makes the writer wait; 0 for never. waiter: makes an `asyncio.Future`, which this module may
    not name. call_later: starts a timer, as the method of an event loop does; only for `stall`.
    """

    __slots__ = ("call_later", "events", "lead", "lead_size", "most", "pace", "size", "stall", "waiter")

    def __init__(
        self,
        events: int,
        size: int,
        pace: Pace,
        *,
        waiter: Callable[[], Any],
        lead: int | None = None,
        lead_size: int | None = None,
        stall: float = 0.0,
        call_later: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        free = pace is Pace.FREE
        self.events = events
        self.size = size
        #: events at which the log is cut
        self.most = events + min(max(events // 4, 1), _SLACK)
        self.pace = pace
        self.lead = maxsize if free else events if lead is None else lead
        self.lead_size = maxsize if free else size if lead_size is None else lead_size
        self.waiter = waiter
        self.stall = stall
        self.call_later = call_later


class EventLog(Generic[E]):
    """The newest events of one stream.

    base: the number of the event before the first one in memory. last: of the newest event. events: those in
    memory. ended: no event follows. crowded: the writer has to wait in `room` before the next event. readers:
    those that are open; None or empty without any. stale: `older` may have events after `last`.
    """

    # Most logs have no readers: the first one makes the members for them.
    __slots__ = (
        "_dropped",
        "_ends",
        "_pace",
        "_pace_total",
        "_total",
        "base",
        "crowded",
        "ended",
        "events",
        "last",
        "readers",
        "readers_waiting",
        "reports",
        "rules",
        "stale",
        "writers_waiting",
    )

    def __init__(self, rules: LogRules, last: int = 0) -> None:
        self.rules = rules
        self.base = self.last = last
        self.ended = False
        self.crowded = self.stale = False
        #: counts the calls of `look_again`
        self.reports = 0
        self.events: list[E] = []
        self.readers: set[LogReader[E]] | None = None
        #: per event in memory: the bytes of all events up to it, since the log began
        self._ends: list[int] = []
        #: the same for the newest event, and for the newest that was dropped
        self._total = self._dropped = 0
        #: a position that the reader that sets the pace has reached, and the bytes up to it
        self._pace = last
        self._pace_total = 0
        #: what waiting readers and writers await
        self.readers_waiting: list[Any] | None = None
        self.writers_waiting: list[Any] | None = None

    # ------------------------------------------------------------------ what a subclass may say

    async def older(self, after: int, /) -> Sequence[E]:  # noqa: ARG002  for subclasses
        """Events after a number that are not in memory, in order and without gaps: any number of them. Empty
        if there are none, or they are lost. A reader hands all of them out before it asks again.
        """
        return ()

    def on_drop(self, events: Sequence[E], size: int, /) -> None:
        """Called with the oldest events when they leave the memory, and their bytes."""

    def last_given(self) -> int:
        """The highest number that an event was given, whether it is in the log by now or not."""
        return self.last

    def left(self) -> None:
        """Called when the last reader has left."""

    # ------------------------------------------------------------------ the writing side

    @property
    def size(self) -> int:
        """The bytes of the events in memory."""
        return self._total - self._dropped

    def append(self, event: E, size: int) -> None:
        """Adds the next event."""
        self._total = total = self._total + size
        ends = self._ends
        ends.append(total)
        self.events.append(event)
        self.last += 1
        rules = self.rules
        if len(ends) >= rules.most or total - self._dropped > rules.size:
            self._trim()
        if self.readers:
            self.crowded = (
                self.last - self._pace >= rules.lead or total - self._pace_total >= rules.lead_size
            ) and self.full()
        if self.readers_waiting:
            self.readers_waiting = _wake(self.readers_waiting)

    def skip_to(self, last: int) -> None:
        """Notes that events up to this number exist elsewhere; all of them, so that the log has no holes."""
        if last > self.last:
            self.drop(len(self.events))
            self.base = self.last = last
            self.wake()

    def look_again(self) -> None:
        """Notes that `older` may have events after `last`."""
        self.stale = True
        self.reports += 1
        self.wake()

    def end(self) -> None:
        """Notes that no event follows, unless `reopen` is called."""
        self.ended = True
        self.wake()
        self.wake_writer()

    def reopen(self) -> None:
        """Notes that events may follow again."""
        self.ended = False

    def break_off(self, error: Exception) -> None:
        """Ends all readers with an error, after the events so far. Readers that come later do not get it."""
        for reader in self.readers or ():
            reader.break_off(self.last, error)
        self.wake()

    def full(self) -> bool:
        """True if the writer is as far ahead of the reader that sets the pace as it may be."""
        if not self.readers or self.rules.pace is Pace.FREE:
            return False
        self._set_pace(self._find_pace())
        ahead = self.last - self._pace
        return ahead > 0 and (
            ahead >= self.rules.lead or self._total - self._pace_total >= self.rules.lead_size
        )

    async def room(self) -> None:
        """Waits until the reader that sets the pace has read enough, or left, or the log has ended."""
        rules = self.rules
        while not self.ended and self.full():
            waiter = rules.waiter()
            if self.writers_waiting is None:
                self.writers_waiting = []
            self.writers_waiting.append(waiter)
            timer = None
            if rules.stall and rules.call_later is not None:
                timer = rules.call_later(rules.stall, self._drop_slowest)
            try:
                await waiter
            finally:
                if timer is not None:
                    timer.cancel()
        self.crowded = False

    def drop(self, count: int) -> None:
        """Drops the oldest events from memory."""
        if count <= 0:
            return
        ends = self._ends
        gone = self.events[:count]
        size = ends[count - 1] - self._dropped
        self._dropped += size
        del self.events[:count], ends[:count]
        self.base += count
        self.on_drop(gone, size)

    def drop_read(self) -> None:
        """Drops what is not needed at once: all events that the readers who matter have read."""
        self.drop(min(self._find_pace() - self.base, len(self.events)))

    # ------------------------------------------------------------------ the reading side

    def reader(self, after: int) -> LogReader[E]:
        """A reader of the events after a number. To be closed."""
        reader = LogReader(self, after)
        free = self.rules.pace is Pace.FREE
        if not free and not self.base <= after <= self.last:
            # Nobody waits for a reader whose events are lost.
            reader.lapse()
            return reader
        if self.readers is None:
            self.readers = set()
        if not free and (not self.readers or after < self._pace):
            self._set_pace(after)
        self.readers.add(reader)
        self.wake_writer()  # it may be the fastest one
        return reader

    def leave(self, reader: LogReader[E]) -> None:
        """Removes a reader; see `LogReader.close`."""
        readers = self.readers
        if readers is None or reader not in readers:
            return
        readers.remove(reader)
        if self.rules.pace is Pace.FASTEST:
            self._set_pace(self.base)  # this may have been the fastest one
        self.wake_writer()
        if not readers:
            self.left()

    def wake(self) -> None:
        """Makes waiting readers look again."""
        if self.readers_waiting:
            self.readers_waiting = _wake(self.readers_waiting)

    # ------------------------------------------------------------------ internals

    def wake_writer(self) -> None:
        """Notes that a reader has joined, read further, or left: wakes the writer if it may go on."""
        if self.writers_waiting and (self.ended or not self.readers or self._find_pace() > self._pace):
            self.writers_waiting = _wake(self.writers_waiting)

    def _set_pace(self, position: int) -> None:
        place = max(position - self.base, 0)  # nobody waits for a reader whose events are lost
        self._pace = self.base + place
        self._pace_total = self._ends[place - 1] if place else self._dropped

    def _find_pace(self) -> int:
        """The position of the reader that sets the pace; without readers, the end of the log."""
        readers = self.readers
        if not readers:
            return self.last
        which = max if self.rules.pace is Pace.FASTEST else min
        return which([reader.position for reader in readers])

    def _trim(self) -> None:
        """Drops the oldest events, as far as the bounds ask for it and the readers allow it."""
        rules, ends = self.rules, self._ends
        count = len(ends) - rules.events
        surplus = self._total - self._dropped - rules.size
        if surplus > 0:
            count = max(count, bisect_left(ends, self._dropped + surplus) + 1)
        if rules.pace is Pace.FREE:
            count = min(count, len(ends) - 1)  # its readers want it, and would all look for it elsewhere
        elif self.readers:
            count = min(count, self._find_pace() - self.base)
        self.drop(count)

    def _drop_slowest(self) -> None:
        text = "the events of the task were read too slowly; subscribe again"
        slowest = self._find_pace()
        for reader in tuple(self.readers or ()):
            if reader.position == slowest:
                reader.close()
                reader.break_off(reader.position, A2AError(Reason.UNAVAILABLE, text))
        self.wake()


class LogReader(Generic[E]):
    """One position in a log. position: the number of the event before the first of the last `take`."""

    __slots__ = ("_error", "_limit", "_log", "_next", "_old", "_open", "position")

    def __init__(self, log: EventLog[E], position: int) -> None:
        self.position = position
        self._log = log
        self._open = True
        #: the number of the last event that was handed out
        self._next = position
        #: events of `older` that are not handed out yet
        self._old: Sequence[E] = ()
        self._error: Exception | None = None
        #: the number of the event after which the error is raised
        self._limit = 0

    async def take(self) -> Sequence[E]:
        """The next events, at most BATCH of them. All readers share the events: treat them as immutable.
        Empty after the last event of a log that has ended, and after `close`. Raises GapError if the next
        event is lost, and the error of `break_off`.
        """
        log = self._log
        if self.position != self._next:
            self.position = self._next
            if log.writers_waiting:
                log.wake_writer()
        while True:
            most = BATCH
            if self._error is not None:
                most = min(most, self._limit - self.position)
                if most <= 0:
                    raise self._error
            if not self._open:
                return ()
            start = self.position - log.base
            if self._old:
                batch, self._old = self._old[:most], self._old[most:]
            elif start >= 0:
                batch = log.events[start : start + most]
            else:
                batch = ()
            if batch:
                self._next = self.position + len(batch)
                return batch
            if start < 0 or log.stale:
                await self._look_elsewhere()
                continue
            if self.position > log.last:
                if self.position > log.last_given():
                    raise GapError(self.position)
            elif log.ended:
                return ()
            waiter = log.rules.waiter()
            if log.readers_waiting is None:
                log.readers_waiting = []
            log.readers_waiting.append(waiter)
            try:
                await waiter
            except BaseException:
                if log.readers_waiting and waiter in log.readers_waiting:
                    log.readers_waiting.remove(waiter)
                raise

    def close(self) -> None:
        """Stops reading; a `take` that waits returns. May be called twice."""
        if self._open:
            self._open = False
            self._old = ()
            self._log.leave(self)
            self._log.wake()

    def lapse(self) -> None:
        """Marks the events at its position as lost."""
        self._open = False
        self._error = GapError(self.position)

    def break_off(self, limit: int, error: Exception) -> None:
        """Makes `take` raise `error` after the event of this number."""
        self._limit, self._error = limit, error

    async def _look_elsewhere(self) -> None:
        """Reads what is not in memory. Raises GapError if it is lost."""
        log = self._log
        wanted = self.position < log.last
        reports = log.reports
        found = await log.older(self.position)
        log.stale = log.reports != reports
        if found:
            self._old = found
            log.skip_to(self.position + len(found))
        elif wanted and self._open:
            raise GapError(self.position)


def _wake(waiters: list[Any]) -> list[Any]:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
    return waiters
