"""Readers of task events: their position, the snapshot that replaces lost events, and the end of a stream.

Rules:
1. Each event goes with its id, a snapshot with the id of its last event (see `core.resume`).
2. Lost events are reported as a gap with a snapshot; then the events continue.
3. A subscription ends with the event that ends the task, or with a request for input that is the task's last
   event. The stream of a message ends with the first request for input of its run.
4. A caller may ask for less history; stored tasks and shared events stay whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import AT_REST, TERMINAL, shortened, state_of
from a2a_bridge.core.resume import event_id, mark_gap
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import GapError, Scope, Store, Subscription

#: True if the run of a message had begun before the event of this number
BegunBefore = Callable[[int], bool]


class TaskSnapshot(NamedTuple):
    """A copy of a task for callers, and the number of the last event that it contains."""

    task: hub.Task
    last: int


def rests(event: hub.StreamResponse, number: int, begun_before: BegunBefore | None) -> bool:
    """True if a stream ends with an event: it ends the task, or asks for input after this caller's run had
    begun.
    """
    state = state_of(event)
    if state in TERMINAL:
        return True
    return state == hub.TASK_STATE_INPUT_REQUIRED and (begun_before is None or begun_before(number))


async def histories_cut(events: Events, limit: int) -> Events:
    """A stream with less history: in copies, because subscribers share events."""
    async with aclosing(events):
        async for event in events:
            if not event.message.HasField("task"):
                yield event
                continue
            shown = shortened(event.message.task, limit)
            yield (
                event
                if shown is event.message.task
                else Event(hub.StreamResponse(task=shown), event.id, event.gap)
            )


class EventReaders:
    """All readers of an engine. snapshot_of: returns a durable copy of a task, or raises TASK_NOT_FOUND."""

    def __init__(self, store: Store, snapshot_of: Callable[[Scope, str], Awaitable[TaskSnapshot]]) -> None:
        self.store = store
        self.snapshot_of = snapshot_of
        self._tasks: Counter[str] = Counter()
        self._error: A2AError | None = None

    def __len__(self) -> int:
        return self._tasks.total()

    def read(self, task_id: str) -> bool:
        """True if the events of a task have a reader."""
        return task_id in self._tasks

    def begin(self, scope: Scope, task_id: str, after: int | None, last_id: str = "") -> EventReader:
        """A reader of the events after a number; the caller closes it. after: None for an unknown event.
        last_id: the caller's id of that event.
        """
        return EventReader(self, scope, task_id, after, last_id)

    def from_snapshot(self, scope: Scope, snapshot: TaskSnapshot, begun_before: BegunBefore | None) -> Events:
        """A task, and the following events unless it is at rest. The caller begins to read at once, which
        closes the reader in the end. begun_before: see `EventReader.events`.
        """
        reading = self.begin(scope, snapshot.task.id, snapshot.last)
        return reading.events(begun_before, snapshot, alone=snapshot.task.status.state in AT_REST)

    async def outcome(self, scope: Scope, snapshot: TaskSnapshot) -> TaskSnapshot:
        """Waits until the task has ended or waits for its user, and returns it."""
        while snapshot.task.status.state not in AT_REST:
            reading = self.begin(scope, snapshot.task.id, snapshot.last)
            try:
                await reading.wait_rested()
            finally:
                reading.close()
            snapshot = await self.snapshot_of(scope, snapshot.task.id)
        return snapshot

    def end(self, error: A2AError) -> None:
        """Ends all readers with an error, after the events so far; also readers that calls begin later."""
        self._error = error
        for task_id in list(self._tasks):
            self.store.end(task_id, error)

    def listen(self, task_id: str, after: int) -> Subscription:
        self._tasks[task_id] += 1
        subscription = self.store.subscribe(task_id, after)
        if self._error is not None:
            self.store.end(task_id, self._error)
        return subscription

    def unlisten(self, task_id: str, subscription: Subscription) -> None:
        subscription.close()
        self._tasks[task_id] -= 1
        if not self._tasks[task_id]:
            del self._tasks[task_id]


class EventReader:
    """One caller's position in the events of a task."""

    def __init__(
        self, readers: EventReaders, scope: Scope, task_id: str, after: int | None, last_id: str
    ) -> None:
        self._readers = readers
        self._scope = scope
        self._task_id = task_id
        self._last_id = last_id
        self._subscription = None if after is None else readers.listen(task_id, after)

    async def events(
        self, begun_before: BegunBefore | None, snapshot: TaskSnapshot | None = None, *, alone: bool = False
    ) -> Events:
        """The following events, up to the event that ends the task or asks for input. Then it is closed.

        begun_before: for the message of the run that is followed, if any. snapshot: the task at the position
        of the reader, to be given first. alone: True if no event is to follow it.
        """
        try:
            if snapshot is not None:
                yield Event(hub.StreamResponse(task=snapshot.task), event_id(snapshot.last))
                if alone:
                    return
            while True:
                subscription = self._subscription
                try:
                    while subscription is not None and (events := await subscription.take()):
                        number = subscription.position
                        for event in events:
                            number += 1
                            yield Event(event, str(number))
                            if (
                                not event.HasField("artifact_update")
                                and rests(event, number, begun_before)
                                and (begun_before is not None or await self._is_last(event, number))
                            ):
                                return
                        self._last_id = str(number)
                    if subscription is not None:
                        return
                except GapError:
                    self.close()
                task, last = await self._readers.snapshot_of(self._scope, self._task_id)
                mark_gap(task, self._last_id, event_id(last))
                ended = task.status.state in TERMINAL
                yield Event(hub.StreamResponse(task=task), event_id(last), gap=True)
                if ended:
                    return
                self._last_id = event_id(last)
                self._subscription = self._readers.listen(self._task_id, last)
        finally:
            self.close()

    async def _is_last(self, event: hub.StreamResponse, number: int) -> bool:
        """True if an event at rest is the task's last event. A question that was answered since is not."""
        if state_of(event) in TERMINAL:
            return True
        _, last = await self._readers.snapshot_of(self._scope, self._task_id)
        return last <= number

    async def wait_rested(self) -> None:
        """Waits until the task has, or may have, come to rest since."""
        try:
            while self._subscription is not None and (events := await self._subscription.take()):
                if any(state_of(event) in AT_REST for event in events):
                    return
        except GapError:
            return

    def close(self) -> None:
        """Stops reading. May be called twice."""
        if self._subscription is not None:
            self._readers.unlisten(self._task_id, self._subscription)
            self._subscription = None
