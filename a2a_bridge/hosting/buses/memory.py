"""An event bus within one event loop: a bounded log per task, shared by all its readers. Nothing is kept on disk.

Rules:
1. An event is stored once, whoever reads it; a reader is a position in the log.
2. The log holds what the slowest reader has not had. When it is full, `drained` makes the producer wait.
3. A reader that keeps the log full for `stall` seconds is dropped with an error, and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.clock import Clock, SystemClock
from a2a_bridge.pb import lf_a2a_v1 as hub

#: events a reader gets at once: fewer wake-ups for it, and still a fine-grained position
_BATCH = 32


class MemoryEventBus:
    """Implements EventBus.

    window: most events in a task's log. window_bytes: most bytes of them; a single event may exceed it.
    stall: seconds that a full log may wait for its slowest reader.
    """

    def __init__(
        self,
        *,
        window: int = 256,
        window_bytes: int = 1 << 20,
        stall: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        self._window = window
        self._window_bytes = window_bytes
        self._stall = stall
        self._clock = clock or SystemClock()
        self._logs: dict[str, _Log] = {}

    def heard(self, task_id: str, /) -> bool:
        return task_id in self._logs

    async def publish(self, task_id: str, event: hub.StreamResponse, /) -> None:
        log = self._logs.get(task_id)
        if log is not None:
            log.append(event)

    async def drained(self, task_id: str, /) -> None:
        while True:
            log = self._logs.get(task_id)
            if log is None or (len(log.events) < self._window and log.bytes < self._window_bytes):
                return
            timer = self._clock.call_later(self._stall, log.drop_slowest)
            try:
                await log.moved()
            finally:
                timer.cancel()

    def subscribe(self, task_id: str, /) -> _Reader:
        log = self._logs.get(task_id)
        if log is None:
            log = self._logs[task_id] = _Log(self._logs, task_id)
        return log.reader()

    def position(self, task_id: str, /) -> int:
        log = self._logs.get(task_id)
        return 0 if log is None else log.last

    def end(self, task_id: str, error: A2AError | None = None, /) -> None:
        log = self._logs.pop(task_id, None)
        if log is not None:
            log.end(error)


class _Log:
    """The events of one task that some reader still has to read."""

    __slots__ = (
        "_home",
        "_movers",
        "_name",
        "base",
        "bytes",
        "ended",
        "error",
        "events",
        "marks",
        "sleepers",
    )

    def __init__(self, home: dict[str, _Log], name: str) -> None:
        self._home = home
        self._name = name
        self.base = 0
        self.events: list[tuple[hub.StreamResponse, int]] = []
        self.bytes = 0
        #: position -> the readers that have read up to there
        self.marks: dict[int, set[_Reader]] = {}
        self.sleepers: list[asyncio.Future[None]] = []
        self._movers: list[asyncio.Future[None]] = []
        self.ended = False
        self.error: A2AError | None = None

    @property
    def last(self) -> int:
        return self.base + len(self.events)

    def append(self, event: hub.StreamResponse) -> None:
        size = event.ByteSize()
        self.events.append((event, size))
        self.bytes += size
        self.wake()

    def wake(self) -> None:
        _wake(self.sleepers)

    def moved(self) -> asyncio.Future[None]:
        """Done when the slowest reader has moved on, or is gone."""
        future = asyncio.get_running_loop().create_future()
        self._movers.append(future)
        return future

    def reader(self) -> _Reader:
        reader = _Reader(self, self.last)
        self.marks.setdefault(reader.position, set()).add(reader)
        return reader

    def move(self, reader: _Reader, old: int, new: int | None) -> None:
        """Notes that a reader has read up to `new`, or has gone."""
        here = self.marks[old]
        here.discard(reader)
        if new is not None:
            self.marks.setdefault(new, set()).add(reader)
        if here:
            return
        del self.marks[old]
        if not self.marks:
            if self._home.get(self._name) is self:
                del self._home[self._name]
            _wake(self._movers)
        elif old == self.base:
            self._trim(min(self.marks))

    def _trim(self, base: int) -> None:
        count = base - self.base
        self.bytes -= sum(size for _, size in self.events[:count])
        del self.events[:count]
        self.base = base
        _wake(self._movers)

    def drop_slowest(self) -> None:
        text = "the events of the task were read too slowly; subscribe again"
        for reader in tuple(self.marks.get(self.base, ())):
            reader.drop(A2AError(Reason.UNAVAILABLE, text))

    def end(self, error: A2AError | None) -> None:
        self.ended = True
        self.error = error
        self.wake()
        _wake(self._movers)


class _Reader:
    """Implements Subscription."""

    __slots__ = ("_error", "_given", "_log", "_open", "position")

    def __init__(self, log: _Log, position: int) -> None:
        self._log = log
        self.position = position
        #: up to where events were handed out; they count as read when the next ones are asked for
        self._given = position
        self._open = True
        self._error: A2AError | None = None

    async def take(self) -> Sequence[hub.StreamResponse]:
        log = self._log
        self._settle(self._given)
        while True:
            if self._error is not None:
                raise self._error
            start = self.position - log.base
            batch = [event for event, _ in log.events[start : start + _BATCH]] if self._open else []
            if batch:
                self._given = self.position + len(batch)
                return batch
            if log.error is not None:
                raise log.error
            if log.ended or not self._open:
                return []
            sleeper = asyncio.get_running_loop().create_future()
            log.sleepers.append(sleeper)
            try:
                await sleeper
            finally:
                if sleeper.cancelled() and sleeper in log.sleepers:
                    log.sleepers.remove(sleeper)

    def skip(self) -> bool:
        last = self._log.last
        passed = last != self._given
        self._given = last
        self._settle(last)
        return passed

    def close(self) -> None:
        if self._open:
            self._open = False
            self._log.move(self, self.position, None)

    def drop(self, error: A2AError) -> None:
        """Closes the reader; its next `take` raises `error`."""
        self.close()
        self._error = error
        self._log.wake()

    def _settle(self, position: int) -> None:
        if self._open and position != self.position:
            old, self.position = self.position, position
            self._log.move(self, old, position)


def _wake(sleepers: list[asyncio.Future[None]]) -> None:
    for sleeper in sleepers:
        if not sleeper.done():
            sleeper.set_result(None)
    sleepers.clear()
