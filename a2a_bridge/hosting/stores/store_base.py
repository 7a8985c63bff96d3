"""StoreBase: everything of a store but reading and writing records. For stores of one process.

Rules:
1. A subclass implements the seven abstract methods, or cannot be instantiated. The base class calls `write`
   and `write_sent` one at a time, and never calls `write` again for changes that it has accepted or refused.
2. Changes of all tasks in one loop iteration are one call of `write`. A call that raises is repeated until it
   succeeds; meanwhile the store refuses new work.
3. Push configs and waiting notifications are kept in memory. A subclass that needs more sets `push_configs`
   and `outbox`, and overrides `notify`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.lifecycle import fold
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.hosting.ports import (
    GapError,
    Outbox,
    PushConfigStore,
    Remote,
    Scope,
    SendRegister,
    Sent,
    Stored,
    Synced,
    TaskPage,
    TaskQuery,
    VersionConflictError,
)
from a2a_bridge.hosting.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.store")

#: events that a reader gets at once
_BATCH = 64
#: events of one task that may wait for a commit
_MOST = 1024
#: seconds between two attempts of a write that fails: of the first two, and at most
_SOON, _LATE = 0.05, 1.0


class TaskRecord(NamedTuple):
    """A task as the store keeps it."""

    #: the owner of the task; a task id exists in one scope only
    scope: Scope
    #: the task after its last event
    task: hub.Task
    #: goes up with each change
    version: int
    #: the number of the task's last event
    last: int
    #: True while a process works on the task; after a restart such a task is an orphan
    held: bool
    #: True if the task has content that is not in its events: messages that joined its history
    amended: bool = False


class TaskChange(NamedTuple):
    """One change of one task, to be stored whole or not at all."""

    #: the task after the change
    record: TaskRecord
    #: the version that has to be in the store; 0 for a task that must not exist
    before: int
    #: the serialized events that follow those in the store; the last of them has the number `record.last`
    events: Sequence[bytes]


class Found(NamedTuple):
    """One page of a list."""

    #: in the order of the list, with their artifacts
    tasks: Sequence[hub.Task]
    #: the number of matching tasks on all pages
    total: int
    #: True if further pages follow
    more: bool


class StoreBase(ABC):
    """Implements Store. Make it in the event loop that uses it."""

    #: False for a store that does not outlive its process
    durable = True
    remote: Remote | None = None

    def __init__(self, *, page_key: bytes = b"", ack_timeout: float = 10.0) -> None:
        """page_key: see PageTokens.

        ack_timeout: seconds after which a caller gets UNAVAILABLE from a failing store.
        """
        self.memory = MemoryAccount()
        configs = MemoryPushConfigStore()
        self._notifications = MemoryOutbox(configs)
        self.push_configs: PushConfigStore = configs
        self.outbox: Outbox = self._notifications
        self.sends: SendRegister = _Sends(self)
        self.ack_timeout = ack_timeout
        self._tokens = PageTokens(page_key)
        self._leases: dict[str, _Lease] = {}
        self._dirty: dict[_Lease, None] = {}
        self._readers: defaultdict[str, set[_Reader]] = defaultdict(set)
        self._flusher: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._failing = False

    # ------------------------------------------------------------------ what a subclass implements

    @abstractmethod
    async def read_task(self, task_id: str) -> TaskRecord | None:
        """The task, whatever its scope; None if it does not exist. The caller may change the message."""

    @abstractmethod
    async def read_events(self, task_id: str, after: int, limit: int) -> Sequence[bytes]:
        """The serialized events after a number that exists, in their order; at least one of them."""

    @abstractmethod
    async def write(self, changes: Sequence[TaskChange]) -> Sequence[str]:
        """Stores changes of different tasks, durably, each of them whole.

        Returns the ids of the tasks whose version in the store is another than `before`; these are not
        changed. Raises OSError or A2AError if nothing was stored.
        """

    @abstractmethod
    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> Found:
        """Tasks of a scope by the time of their status (nanoseconds since the epoch) and their id, the
        highest first.

        after: the (time, id) of the last task of the page before; None for the first page.
        """

    @abstractmethod
    async def held(self, limit: int) -> Sequence[tuple[Scope, str]]:
        """The tasks whose record says `held`, those with the newest status first."""

    @abstractmethod
    async def read_sent(self, scope: Scope, message_id: str) -> Sent | None:
        """What `write_sent` stored for a message; None if it stored nothing, or only long ago."""

    @abstractmethod
    async def write_sent(self, scope: Scope, message_id: str, sent: Sent | None) -> None:
        """Stores what a message led to, durably; None deletes it. Raises OSError or A2AError."""

    def notify(self, scope: Scope, task_id: str, number: int, event: hub.StreamResponse) -> None:
        """Puts a committed event into the outbox."""
        self._notifications.deliver(scope, task_id, number, event)

    # ------------------------------------------------------------------ Store

    def refusal(self) -> A2AError | None:
        return _unavailable() if self._failing else None

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> _Lease:
        lease = _Lease(self, scope, task_id, on_lost, push=push)
        if task_id in self._leases:
            lease.conflict()
        else:
            self._leases[task_id] = lease
        return lease

    async def open(
        self, scope: Scope, stored: Stored, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> _Lease:
        task_id = stored.task.id
        before = self._leases.get(task_id)
        if before is not None and before.released:
            await before.synced()
        if task_id in self._leases:
            raise VersionConflictError(task_id)
        lease = self._leases[task_id] = _Lease(self, scope, task_id, on_lost, push=push)
        try:
            lease.take(await self._acquired(scope, stored))
        except BaseException:
            self.drop(lease)
            raise
        return lease

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        lease = self._leases.get(task_id)
        if lease is not None and lease.scope == scope and lease.pending and not self._failing:
            with suppress(VersionConflictError):
                await lease.synced()
        record = await self.read_task(task_id)
        if record is None or record.scope != scope:
            return None
        return Stored(record.task, record.version, record.last)

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        name = repr((*scope, query.context_id, int(query.state), query.since))
        after: tuple[int, str] | None = None
        if query.page_token:
            time, _, task_id = self._tokens.read(query.page_token, name).partition(" ")
            after = int(time), task_id
        found = await self.find(scope, query, after)
        page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        full = not all(page.add(task) for task in found.tasks)
        token = ""
        if found.more or full:
            last = page.tasks[-1]
            stamp = last.status.timestamp
            token = self._tokens.issue(f"{stamp.seconds * 10**9 + stamp.nanos} {last.id}", name)
        return TaskPage(page.tasks, token, found.total)

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        record = await self.read_task(task_id)
        if record is None or record.scope != scope:
            return None
        if sequence >= record.last or record.amended:
            return record.task
        events: list[hub.StreamResponse] = []
        while len(events) < sequence:
            limit = min(_BATCH, sequence - len(events))
            events += map(hub.StreamResponse.FromString, await self.read_events(task_id, len(events), limit))
        task = hub.Task()
        for event in events:
            fold(task, event)
        return task

    def subscribe(self, task_id: str, after: int, /) -> _Reader:
        reader = _Reader(self, task_id, after)
        self._readers[task_id].add(reader)
        return reader

    def end(self, task_id: str, error: A2AError, /) -> None:
        for reader in self._readers.get(task_id, ()):
            reader.end(error)

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        found = await self.held(limit + len(self._leases))
        return [one for one in found if one[1] not in self._leases][:limit]

    def on_orphans(self, callback: Callable[[], None], /) -> None:  # noqa: B027  nothing to register
        """Tasks become orphans only with this process."""

    async def close(self) -> None:
        """Writes pending changes, for `ack_timeout` seconds at most."""
        if self._flusher is not None:
            await asyncio.wait({self._flusher}, timeout=self.ack_timeout)
        if self._flusher is not None:
            log.error("the store does not work; the last changes are lost")
            self._flusher.cancel()

    # ------------------------------------------------------------------ for leases, readers and sends

    @property
    def writing(self) -> asyncio.Lock:
        """Held during each write."""
        return self._writing

    def note(self, lease: _Lease) -> None:
        """A lease has changes."""
        self._dirty[lease] = None
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush(), name="a2a store flush")

    def given(self, task_id: str) -> int:
        """The number of the last event that a lease here was given; 0 without a lease."""
        lease = self._leases.get(task_id)
        return 0 if lease is None else lease.last

    def drop(self, lease: _Lease) -> None:
        """A lease is over."""
        if self._leases.get(lease.task_id) is lease:
            del self._leases[lease.task_id]

    def forget(self, task_id: str, reader: _Reader) -> None:
        """A reader is closed."""
        readers = self._readers.get(task_id)
        if readers is not None:
            readers.discard(reader)
            if not readers:
                del self._readers[task_id]

    async def _acquired(self, scope: Scope, stored: Stored) -> TaskRecord:
        """The record of a task once it says `held`. Raises VersionConflictError, A2AError UNAVAILABLE."""
        task_id = stored.task.id
        record = await self.read_task(task_id)
        if record is None or record.scope != scope or record.version != stored.version:
            raise VersionConflictError(task_id)
        record = record._replace(version=record.version + 1, held=True)
        async with self._writing:
            try:
                refused = await self.write([TaskChange(record, record.version - 1, ())])
            except OSError as error:
                log.warning("task %s cannot be opened: %s", task_id, error)
                raise _unavailable() from None
        if refused:
            raise VersionConflictError(task_id)
        return record

    async def _flush(self) -> None:
        while self._dirty:
            await asyncio.sleep(0)  # the other changes of this loop iteration belong to the group
            dirty, self._dirty = self._dirty, {}
            group = [(lease, lease.collect()) for lease in dirty]
            refused = await self._write_group([change for _, change in group])
            for lease, change in group:
                if lease.task_id in refused:
                    self.drop(lease)
                    lease.conflict()
                else:
                    lease.committed(change)
                for reader in self._readers.get(lease.task_id, ()):
                    reader.wake()
        self._flusher = None

    async def _write_group(self, changes: Sequence[TaskChange]) -> set[str]:
        wait = _SOON
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                async with self._writing:
                    refused = set(await self.write(changes))
            except Exception as error:
                level, trace = (logging.WARNING, None) if _is_outage(error) else (logging.ERROR, error)
                log.log(
                    level,
                    "the store cannot be written, and tries again in %.2f s: %s",
                    wait,
                    error,
                    exc_info=trace,
                )
                self._failing = True
                if loop.time() - begun >= self.ack_timeout:
                    for task_id in tuple(self._readers):
                        self.end(task_id, _unavailable())
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LATE)
            else:
                self._failing = False
                return refused


class _Lease:
    """Implements TaskWriter."""

    def __init__(
        self,
        store: StoreBase,
        scope: Scope,
        task_id: str,
        on_lost: Callable[[], None],
        *,
        push: bool,
    ) -> None:
        self.scope = scope
        self.task_id = task_id
        self.last = 0
        self.released = False
        self._store = store
        self._on_lost = on_lost
        self._push = push
        self._lost = self._loss_reported = False
        self._version = 0
        self._amended = False
        self._task: hub.Task | None = None
        self._events: list[hub.StreamResponse] = []
        self._in_flight: list[hub.StreamResponse] = []
        #: the numbers of calls that changed something: of all, of those being written, and of those committed
        self._submitted = self._sent = self._synced = 0
        self._waiters: list[tuple[int, Synced, asyncio.TimerHandle]] = []

    def take(self, record: TaskRecord) -> None:
        """Continues a stored task."""
        self._task, self._version, self.last = record.task, record.version, record.last
        self._amended = record.amended

    @property
    def pending(self) -> bool:
        return self._submitted != self._synced and not self._lost

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        self.last += 1
        if not self._lost:
            self._events.append(event)
            self._change(task)
        return self.last

    def amend(self, task: hub.Task, /) -> None:
        if not self._lost:
            self._amended = True
            self._change(task)

    def when_synced(self, callback: Synced, /) -> None:
        if self._lost:
            self._notify_lost()
            callback(VersionConflictError(self.task_id))
        elif not self.pending:
            callback(None)
        else:
            timer = asyncio.get_running_loop().call_later(self._store.ack_timeout, self._expire, callback)
            self._waiters.append((self._submitted, callback, timer))

    async def synced(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def callback(error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.when_synced(callback)
        await future

    @property
    def crowded(self) -> bool:
        return len(self._events) > _MOST

    async def room(self) -> None:
        if self.crowded:
            with suppress(VersionConflictError):
                await self.synced()

    def release(self) -> None:
        if self.released or self._lost:
            return
        self.released = True
        if self._task is None:
            self._store.drop(self)  # no change was ever given
        elif not self._ends():
            self._change(self._task)

    def collect(self) -> TaskChange:
        """All changes that are not written."""
        task = self._task
        if task is None:
            raise RuntimeError("a task begins with an event")
        events, self._events = self._events, []
        self._in_flight, self._sent = events, self._submitted
        before, self._version = self._version, self._version + 1
        copy = hub.Task.FromString(task.SerializeToString())
        held = not (self.released or self._ends())
        record = TaskRecord(self.scope, copy, self._version, self.last, held, self._amended)
        return TaskChange(record, before, [event.SerializeToString() for event in events])

    def committed(self, change: TaskChange) -> None:
        """A change is durable."""
        self._synced = self._sent
        if not change.record.held:
            self._store.drop(self)
        if self._push:
            first = change.record.last - len(self._in_flight) + 1
            for number, event in enumerate(self._in_flight, first):
                self._store.notify(self.scope, self.task_id, number, event)
        waiters, self._waiters = self._waiters, []
        for given, callback, timer in waiters:
            if given <= self._synced:
                timer.cancel()
                callback(None)
            else:
                self._waiters.append((given, callback, timer))

    def conflict(self) -> None:
        """Another writer owns the task."""
        self._lost = True
        self._events.clear()
        # Not at once: `create` has to return first.
        asyncio.get_running_loop().call_soon(self._notify_lost)

    def _notify_lost(self) -> None:
        if self._loss_reported:
            return
        self._loss_reported = True
        if not self.released:
            self._on_lost()
        waiters, self._waiters = self._waiters, []
        for _, callback, timer in waiters:
            timer.cancel()
            callback(VersionConflictError(self.task_id))

    def _change(self, task: hub.Task) -> None:
        self._task = task
        self._submitted += 1
        self._store.note(self)

    def _ends(self) -> bool:
        return self._task is not None and self._task.status.state in TERMINAL

    def _expire(self, callback: Synced) -> None:
        self._waiters = [waiter for waiter in self._waiters if waiter[1] is not callback]
        callback(_unavailable())


class _Reader:
    """Implements Subscription."""

    def __init__(self, store: StoreBase, task_id: str, position: int) -> None:
        self.position = position
        self._store = store
        self._task_id = task_id
        self._next = position
        self._closed = False
        self._error: A2AError | None = None
        self._changed = asyncio.Event()

    async def take(self) -> Sequence[hub.StreamResponse]:
        self.position = self._next
        while not self._closed:
            self._changed.clear()
            record = await self._store.read_task(self._task_id)
            last = 0 if record is None else record.last
            if self.position > max(last, self._store.given(self._task_id)):
                raise GapError(self.position)
            if self.position < last:
                data = await self._store.read_events(self._task_id, self.position, _BATCH)
                self._next = self.position + len(data)
                return [hub.StreamResponse.FromString(one) for one in data]
            if record is not None and record.task.status.state in TERMINAL:
                break
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return []

    def wake(self) -> None:
        """There may be new events."""
        self._changed.set()

    def end(self, error: A2AError) -> None:
        """Raises an error after the existing events."""
        self._error = error
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()
        self._store.forget(self._task_id, self)


class _Sends:
    """Implements SendRegister."""

    def __init__(self, store: StoreBase) -> None:
        self._store = store

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        async with self._store.writing:
            known = await self._store.read_sent(scope, message_id)
            if known is not None and known != instead:
                return known
            await self._write(scope, message_id, Sent(digest, task_id))
        return None

    async def answered(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        async with self._store.writing:
            known = await self._store.read_sent(scope, message_id)
            if known is not None:
                await self._write(scope, message_id, known._replace(answer=answer))

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        async with self._store.writing:
            await self._write(scope, message_id, None)

    async def _write(self, scope: Scope, message_id: str, sent: Sent | None) -> None:
        try:
            await self._store.write_sent(scope, message_id, sent)
        except OSError as error:
            log.warning("a message cannot be stored as sent: %s", error)
            raise _unavailable() from None


def _is_outage(error: Exception) -> bool:
    """False for a defect of the store, which the log shows with its trace."""
    return isinstance(error, OSError | A2AError)


def _unavailable() -> A2AError:
    text = "the store does not work at present; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
