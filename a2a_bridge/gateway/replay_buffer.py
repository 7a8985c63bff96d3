"""A bounded buffer of the events of an agent's stream, with readers at their own positions. It calls no
agent.

Rules:
1. An event is stored once for all readers. It is shared and never changed.
2. Events that no longer fit are folded into the task as it was before the buffer begins, so that buffer and
   task together are complete. A task that grows beyond its bound is dropped; the buffer stays.
3. The fastest reader sets the pace: a buffer with readers takes no more than a window beyond it. A reader
   that is behind by more than the buffer holds is dropped with an error and may subscribe again.
4. Ids are the agent's own where it resumes after them, so that they mean the same through any gateway; else
   ours.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event import Event
from a2a_bridge.core.lifecycle import IllegalTransitionError, advance
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import RESUME_URI, event_id, number_of
from a2a_bridge.dialects.annotation import SYNTHESISED
from a2a_bridge.pb import lf_a2a_v1 as hub

#: approximate overhead of an event in memory, in bytes
_OVERHEAD = 512
#: maximum events a reader gets at once
_BATCH = 32
#: bytes after which the bounds are checked again: some events, or a large one
_LOOK = 16 * _OVERHEAD


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How much a gateway keeps of streams, and for how long. Sizes in bytes, times in seconds."""

    #: streams that are kept; 0 turns sharing and resuming off
    tasks: int = 1000
    #: events of one stream that are kept for readers that resume
    events: int = 1024
    #: bytes of these events
    size: int = 1 << 20
    #: largest task of which a copy is kept
    task_size: int = 4 << 20
    #: bytes of all streams together
    total: int = 64 << 20
    #: events by which the agent may be ahead of the fastest reader
    window: int = 64
    #: bytes by which the agent may be ahead of the fastest reader
    window_size: int = 256 << 10
    #: how long the stream of an agent that cannot resume goes on without readers
    linger: float = 30.0
    #: how long an accepted request of a caller counts; after that the agent is asked again before the caller
    #: joins a stream or gets a replay. 0 asks each time
    revalidate: float = 60.0
    #: attempts in a row to subscribe again after a break
    attempts: int = 8
    #: pause before the second attempt, doubled before each further one
    pause: float = 0.1
    #: longest pause between attempts
    longest_pause: float = 5.0


class ReplayBuffer:
    """The events of one task from one stream, numbered from `base` + 1.

    epoch: prefix of the ids; empty for numbers alone. task: the task as of `base`; None if unknown. whole:
    True if it is the task that a subscriber would get. live: the stream is being read. ended_cleanly: the
    agent closed the stream. regular: all events are of this task. crowded: enough events arrived since the
    last check of `full`. writer_waiter: the future of a writing side that waits.
    """

    __slots__ = (
        "_end",
        "_ends",
        "_options",
        "_owned",
        "_start",
        "_unchecked_bytes",
        "_waiters",
        "base",
        "crowded",
        "ended_cleanly",
        "epoch",
        "events",
        "live",
        "prefix",
        "readers",
        "regular",
        "state",
        "task",
        "task_id",
        "task_size",
        "whole",
        "writer_waiter",
    )

    def __init__(
        self,
        task_id: str,
        task: hub.Task | None,
        options: ReplayOptions,
        *,
        epoch: str,
        base: int = 0,
        whole: bool = True,
    ) -> None:
        self.task_id = task_id
        self.task = task
        self.task_size = 0 if task is None else task.ByteSize()
        self.epoch = epoch
        self.prefix = f"{epoch}-" if epoch else ""
        self.base = base
        self.whole = whole and task is not None
        self.state = hub.TASK_STATE_UNSPECIFIED if task is None else task.status.state
        self.live = False
        self.ended_cleanly = False
        self.regular = True
        self.crowded = False
        self.events: list[Event] = []
        self.readers: set[BufferReader] = set()
        self._options = options
        #: False while `task` is shared with a reader; it is copied before the first change
        self._owned = False
        #: total bytes up to the end of each event, and before the first
        self._ends: list[int] = []
        self._start = self._end = 0
        #: bytes that arrived since the bounds were last checked
        self._unchecked_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.writer_waiter: asyncio.Future[None] | None = None

    # ------------------------------------------------------------------ state

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self.base + len(self.events)

    @property
    def ended(self) -> bool:
        """True if the task has ended, so that no event follows."""
        return self.state in TERMINAL

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        return self._held() + self.task_size

    def id(self, number: int) -> str:
        """The id of an event, or of a snapshot that contains all events up to it."""
        return event_id(number, self.epoch)

    def next_id(self) -> str:
        """The id of the next event."""
        return f"{self.prefix}{self.base + len(self.events) + 1}"

    def last_id(self) -> str:
        """The id of the newest event; empty if no id precedes the first."""
        last = self.base + len(self.events)
        return f"{self.prefix}{last}" if last >= 0 else ""

    def place(self, id_: str) -> int | None:
        """The number of an id if its successors are in the buffer; else None."""
        number = number_of(id_, self.epoch)
        return number if number is not None and self.base <= number <= self.last else None

    def snapshot(self) -> hub.Task | None:
        """The task with all events applied, a copy; None if it is unknown."""
        if self.task is None:
            return None
        task = hub.Task()
        task.CopyFrom(self.task)
        try:
            for event in self.events:
                _fold(task, event)
        except IllegalTransitionError:
            self._forget_task()
            return None
        return task

    # ------------------------------------------------------------------ the writing side

    def append(self, event: Event) -> bool:
        """Adds the next event and wakes waiting readers. Returns True if the sizes need a check."""
        message = event.message
        which = message.WhichOneof("payload")
        if which == "artifact_update":
            task_id = message.artifact_update.task_id
        elif which == "status_update":
            update = message.status_update
            task_id = update.task_id
            self.state = update.status.state
        elif which == "task":
            task_id = message.task.id
            self.state = message.task.status.state
        else:
            task_id = ""
        if task_id != self.task_id:
            self.regular = False
            self._forget_task()
        self.events.append(event)
        size = message.ByteSize() + _OVERHEAD
        self._end += size
        self._ends.append(self._end)
        self._unchecked_bytes += size
        if self._waiters:
            self.wake()
        if self._unchecked_bytes < _LOOK:
            self.crowded = False
            return False
        self._unchecked_bytes = 0
        self.crowded = True
        if len(self.events) > self._options.events or self._end - self._start > self._options.size:
            self._trim()
        return True

    @property
    def full(self) -> bool:
        """True if the agent is too far ahead of the fastest reader."""
        if not self.readers:
            return False
        place = max(reader.position for reader in self.readers) - self.base
        ahead = len(self.events) - place
        if ahead < self._options.window and ahead <= 1:
            return False
        before = self._start if place <= 0 else self._ends[place - 1]
        return ahead >= self._options.window or self._end - before > self._options.window_size

    async def room(self) -> None:
        """Waits until the buffer is not full."""
        while self.full:
            self.writer_waiter = asyncio.get_running_loop().create_future()
            await self.writer_waiter

    def stop(self, error: A2AError | None = None) -> None:
        """Ends the stream. Readers end, or get the error, after the last event."""
        self.live = False
        self.ended_cleanly = error is None
        for reader in self.readers:
            reader.error = error
        self.wake()

    def wake(self) -> None:
        """Makes readers check for events."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def shrink(self) -> None:
        """Drops all events that its readers do not need."""
        self._forget_task()
        self._drop(self._droppable())

    # ------------------------------------------------------------------ the reading side

    def reader(self, position: int) -> BufferReader:
        """A reader of the events after a number."""
        reader = BufferReader(self, position)
        self.readers.add(reader)
        return reader

    def leave(self, reader: BufferReader) -> None:
        """Removes a reader. Another reader may have to read the agent's stream now."""
        self.readers.discard(reader)
        self.moved()
        self.wake()

    def moved(self) -> None:
        """Called after a reader has advanced or left."""
        if self.writer_waiter is not None:
            if not self.writer_waiter.done():
                self.writer_waiter.set_result(None)
            self.writer_waiter = None

    def next_change(self) -> asyncio.Future[None]:
        """Done when there may be events to read. One that is cancelled is dropped with the next event, or
        when its reader leaves.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    # ------------------------------------------------------------------ internals

    def _held(self) -> int:
        return self._end - self._start

    def _droppable(self) -> int:
        """The number of events that the fastest reader has read; all if there is no reader."""
        if not self.readers:
            return len(self.events)
        return max(reader.position for reader in self.readers) - self.base

    def _trim(self) -> None:
        """Folds the oldest events into the task: a quarter of the limit at a time, so that it is not done per
        event.
        """
        options = self._options
        events, size = options.events * 3 // 4, options.size * 3 // 4
        total = self._end
        count = 0
        for count, end in enumerate(self._ends, 1):
            if len(self._ends) - count <= events and total - end <= size:
                break
        self._drop(min(count, self._droppable()))

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        if self.task is not None:
            if not self._owned:
                own = hub.Task()
                own.CopyFrom(self.task)
                self.task = own
                self._owned = True
            try:
                for event in self.events[:count]:
                    _fold(self.task, event)
            except IllegalTransitionError:
                self._forget_task()
            else:
                self.task_size += self._ends[count - 1] - self._start
                if self.task_size > self._options.task_size:
                    # The sum also counts replaced content.
                    self.task_size = self.task.ByteSize()
                if self.task_size > self._options.task_size:
                    self._forget_task()
        self._start = self._ends[count - 1]
        del self.events[:count]
        del self._ends[:count]
        self.base += count

    def _forget_task(self) -> None:
        self.task = None
        self.task_size = 0
        self.whole = False


class BufferReader:
    """One position in a buffer. position: the number of the event read last. error: raised at the end."""

    __slots__ = ("buffer", "error", "position")

    def __init__(self, buffer: ReplayBuffer, position: int) -> None:
        self.buffer = buffer
        self.position = position
        self.error: A2AError | None = None

    def ready(self) -> list[Event]:
        """The available next events. The reader advances `position`.

        Raises UNAVAILABLE if the reader is too far behind, and the error of the stream after the last event.
        """
        buffer = self.buffer
        if buffer.writer_waiter is not None:
            buffer.moved()
        start = self.position - buffer.base
        if start < 0:
            text = "the events of the task were read too slowly; subscribe again"
            raise A2AError(Reason.UNAVAILABLE, text, retry_after=0.0)
        batch = buffer.events[start : start + _BATCH]
        if not batch and self.error is not None:
            raise self.error
        return batch


def unmark(task: hub.Task) -> None:
    """Removes the marks of a snapshot in place; they are valid for the readers of one event only."""
    if not task.HasField("metadata"):
        return
    for mark in (RESUME_URI, SYNTHESISED):
        task.metadata.fields.pop(mark, None)
    if not task.metadata.fields:
        task.ClearField("metadata")


def _fold(task: hub.Task, event: Event) -> None:
    """Applies an event to a task in place. Raises IllegalTransitionError."""
    message = event.message
    which = message.WhichOneof("payload")
    if which == "task":
        task.CopyFrom(message.task)
        unmark(task)
    elif which in ("status_update", "artifact_update"):
        update = getattr(message, which)
        advance(task, update)
        # Only the agent counts: if this event has no number, the task has none either.
        task.generation = update.generation
