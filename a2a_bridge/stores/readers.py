"""The events of tasks that are read here: the newest from this process's memory, older ones from the records.

Rules:
1. Readers get durable events only.
2. A log holds the newest durable events of a task with readers here, at most a window of the events that some
   readers have not read. Readers further behind read from the records, and no reader waits for another.
3. Events of other processes are in a log if they follow it without a jump. Otherwise, and when a change by
   another process is known, the readers read from the records.
4. While the store does not work, no reader gets an event. After the time for which callers wait for a write,
   the readers get the same error; they can resume later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.offload import MUCH
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event_log import EventLog, GapError, LogReader, LogRules, Pace
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.lease import Pending
from a2a_bridge.stores.records import Position, SharedRecords
from a2a_bridge.stores.row_format import Segment, unpack

#: events, and bytes of them, that a log keeps for readers that are behind
_WINDOW, _WINDOW_BYTES = 256, 96 << 10
#: seconds between two looks at the state of the store while there are readers
_LOOK = 1.0

#: reads the end of a task's log, and segments after a number
Read = Callable[[str, int], Awaitable[tuple[Position | None, Sequence[Segment]]]]


class StoredLogs:
    """The logs of all tasks with readers here.

    read: reads segments after a number. elsewhere: the other processes; None where there are none.
    last_written: returns the number of the last event that a writer of this process got; None without a
    writer. rejection: returns the error for callers while the store does not work. patience: seconds until
    readers get it.
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
