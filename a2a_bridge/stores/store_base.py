"""StoreBase: everything of a store but reading and writing rows, which its `Records` do.

Rules:
1. Nothing is shown before it is durable, and a read of a task that is written here waits for pending writes:
   readers see every change that was reported to them.
2. The row of a task names the holder of its lease. The lease lasts as long as that process lives.
3. Bodies, segments and responses have checksums, which each read verifies; damaged content is never shown.
4. Push configs and waiting notifications are in memory, unless the store is given others.
5. Expired data is deleted now and then by each process (Janitor). Two processes delete the same rows once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import uuid4

from a2a_bridge.bindings.memory import MemoryAccount, Table
from a2a_bridge.bindings.offload import MUCH
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event_log import LogReader
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, add_message, fold
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.groups import GroupWriter, RecordedSends
from a2a_bridge.stores.lease import Pending, TaskLease, body_key
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.ports import (
    Outbox,
    PushConfigStore,
    Remote,
    Scope,
    SendRegister,
    Stored,
    TaskPage,
    TaskQuery,
    VersionConflictError,
    WriteTotals,
    ignore_loss,
    unavailable,
)
from a2a_bridge.stores.readers import StoredLogs, TerminalTaskCache
from a2a_bridge.stores.records import Expiry, Position, Records, SentChange, SentRow, SharedRecords, TaskRow
from a2a_bridge.stores.resting import RESTS, resting_tasks
from a2a_bridge.stores.row_format import DamagedError, Segment, joined_message, parse_checked, unpack

log = logging.getLogger("a2a_bridge.store")


Result = TypeVar("Result")

#: of a driver
_METHODS = [name for name in vars(Records) if not name.startswith("_")]

#: `list` is a method of the store
Segments = list[Segment]
Found = list[Stored | None]

#: seconds from the loss of a lease to a look for orphans: about as long as a lock lasts
_LOCKED = 1.0
#: seconds between two rounds of the janitor
_ROUND = 600.0
#: bytes of segments per fetch
_FETCH = 256 << 10
#: seconds for the last writes of a slow database before the store is closed anyway
_LAST_WRITES = 10.0
#: a change without an effect: no message has an empty id
_NOTHING = SentChange(Scope(), "", None, None)


class StoreBase:
    """Implements Store on the rows of a driver. Use it in one event loop, and close it there.

    page_key: the secret of page tokens; the same for all processes on one database, and after a restart. A
    random one by default. push_configs, outbox: parts of the driver; both or none.
    """

    durable = True

    def __init__(
        self,
        records: Records,
        options: StoreOptions | None = None,
        *,
        page_key: bytes = b"",
        push_configs: PushConfigStore | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        lacks = [name for name in _METHODS if not hasattr(records, name)]
        if lacks:
            raise TypeError(f"{type(records).__name__} is no driver: it lacks {', '.join(lacks)}")
        options = options or StoreOptions()
        self.records = records
        self.memory = MemoryAccount(options.max_memory)
        self._shared = records if isinstance(records, SharedRecords) else None
        self._on_orphans: list[Callable[[], None]] = []
        shared, name = self._shared, uuid4().hex
        #: the name of this process in leases
        self.me: Callable[[], str] = (lambda: name) if shared is None else (lambda: shared.me)
        self.remote: Remote | None = None if self._shared is None else self._shared.remote
        self.writer = GroupWriter(
            records,
            self.me,
            self._publish,
            self._on_takeover,
            commit_delay=options.commit_delay,
            ack_timeout=options.ack_timeout,
            memory=self.memory,
        )
        self._notifications: MemoryOutbox | None = None
        if push_configs is None or outbox is None:
            push_configs = in_memory = MemoryPushConfigStore()
            outbox = self._notifications = MemoryOutbox(in_memory)
        self.push_configs: PushConfigStore = push_configs
        self.outbox: Outbox = outbox
        self.sends: SendRegister = RecordedSends(self._read_sent, self.writer, self.me)
        self._logs = StoredLogs(
            self._read_events,
            self._shared,
            self._last_written,
            self.rejection,
            patience=options.ack_timeout,
            memory=self.memory,
        )
        self._ended = TerminalTaskCache(options.cache_bytes, options.tasks_kept, memory=self.memory)
        #: of tasks that this process has written and no one holds, with their scopes
        self._resting: Table[str, tuple[Scope, Stored]] = resting_tasks(self.memory)
        self._tokens = PageTokens(page_key)
        self.janitor = Janitor(self.delete_expired, options)
        with suppress(RuntimeError):  # there is no loop yet
            self.janitor.start()

    @property
    def commits(self) -> int:
        """The number of committed groups."""
        return self.writer.commits

    def writes(self) -> WriteTotals:
        """The totals of this process."""
        writer = self.writer
        return WriteTotals(writer.commits, writer.commit_seconds, writer.committed, writer.queued)

    def rejection(self) -> A2AError | None:
        return self.writer.rejection()

    # ------------------------------------------------------------------ writing

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskLease:
        return self.writer.lease(scope, task_id, on_lost, push=push)

    async def open(
        self,
        scope: Scope,
        stored: Stored,
        on_lost: Callable[[], None],
        /,
        *,
        push: bool = False,
        wait: bool = True,
    ) -> TaskLease:
        task_id = stored.task.id
        before = self.writer.leases.get(task_id)
        if before is not None:
            if not before.released:
                raise VersionConflictError(task_id)
            await before.sync()
            if before.released_version == stored.version:
                # Only a release has happened since.
                stored = stored._replace(version=before.version)
        if stored.holder or task_id in self.writer.leases:
            raise VersionConflictError(task_id)
        if not wait:
            return self.writer.lease(scope, task_id, on_lost, push=push, opened=stored)
        lease = self.writer.lease(scope, task_id, ignore_loss, push=push, opened=stored)
        lease.note()
        try:
            async with asyncio.timeout(self.writer.ack_timeout):
                await lease.sync()
        except BaseException as error:
            written = not lease.pending
            lease.expire(math.inf, unavailable())  # reads of the task wait with it
            # Not released: the task may be at work. It is an orphan, also if the lease is written later.
            self.writer.forget(lease)
            if written:
                self._tell_of_orphans()
            if isinstance(error, TimeoutError):
                raise unavailable() from None
            raise
        if lease.lost:  # since it was acquired
            raise VersionConflictError(task_id)
        lease.report_to(on_lost)
        return lease

    async def wait_settled(self) -> None:
        """Waits until all changes so far are durable."""
        await self.writer.wait_settled()

    async def delete_expired(self, expiry: Expiry, /) -> None:
        """Deletes expired data. Raises UNAVAILABLE if the store does not work."""
        await self._read(self.records.delete_expired(expiry, self.writer.write))

    async def close(self) -> None:
        """Writes pending changes, as far as the database allows, and closes. No other use may follow."""
        await self.janitor.close()
        with suppress(TimeoutError):
            if self.rejection() is None:
                async with asyncio.timeout(_LAST_WRITES):
                    await self.writer.wait_settled()
        self._logs.close()
        await self.writer.close()
        await self.records.close()

    # ------------------------------------------------------------------ reading

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        at_hand = self._ended.get(scope, task_id)
        if at_hand is not None:
            return at_hand
        await self._settle(scope, task_id)
        row = await self._row(scope, task_id)
        if row is None:
            return None
        task = await _parse_by_size([row], lambda: _fold(scope, task_id, row))
        if row.place.state in TERMINAL:
            # It is the body itself, unless an older version wrote the end without one.
            data = row.body
            if data is None or row.tail or row.joined_tail:
                data = task.SerializeToString()
            self._ended.put(scope, task_id, data, row.version, row.last, row.written)
        return _stored(task, row)

    async def working_copy(self, scope: Scope, task_id: str, /) -> Stored | None:
        await self._settle(scope, task_id)  # its last writer may be leaving it
        kept = self._resting.get(task_id)
        if kept is None or kept[0] != scope:
            return await self.get(scope, task_id)
        self._resting.pop(task_id)
        found = kept[1]
        if task_id in self.writer.leases or not await self._is_present(task_id, found):
            return await self.get(scope, task_id)
        return found

    async def get_many(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[Stored | None]:
        for scope, task_id in tasks:
            await self._settle(scope, task_id)
        found: Found = []
        while some := tasks[len(found) :]:
            rows = await self._read(self.records.read_tasks(some))
            present = [row for row in rows if row is not None]
            found += await _parse_by_size(present, partial(_parse_stored, some, rows))
        return found

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        filling = _Filling(scope, query, self._tokens.after(scope, query))
        total: int | None = None
        while True:
            found = await self._read(self.records.find(scope, filling.query, filling.end))
            total = found.total if total is None else total
            await _parse_by_size(found.rows, partial(filling.add, found.rows))
            if filling.full or not found.more or not filling.query.page_size:
                break
        token = ""
        if filling.end is not None and (filling.full or found.more):
            token = self._tokens.next_token(scope, query, filling.end)
        return TaskPage(filling.page.tasks, token, total, filling.left_out)

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        row = await self._row(scope, task_id)
        if row is None:
            return None
        if 0 < sequence < row.last:
            # A newer body is of no use: then the whole log up to the event is needed.
            if row.applied > sequence:
                row = row._replace(body=b"", checksum=None, applied=0, joined_tail=())
            segments = await self._segments(task_id, row.applied, sequence)
            if segments is not None:
                messages = [one for one in row.joined_tail if one.after < sequence]
                joined = row.joined_applied + len(messages)
                past = row._replace(tail=segments, last=sequence, joined=joined, joined_tail=messages)
                return await _parse_by_size([past], lambda: _fold(scope, task_id, past))
            row = await self._row(scope, task_id)
            if row is None:
                return None
        present = row
        return await _parse_by_size([present], lambda: _fold(scope, task_id, present))

    def subscribe(self, task_id: str, after: int, /) -> LogReader[hub.StreamResponse]:
        return self._logs.subscribe(task_id, after, exists=task_id in self._ended)

    def end(self, task_id: str, error: A2AError, /) -> None:
        self._logs.end(task_id, error)

    # ------------------------------------------------------------------ other processes

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        known = set(self.writer.leases)
        # A caller whose `open` timed out does not know that the lease was acquired.
        found = await self._read(self.records.held(limit + len(known)))
        leases = self.writer.leases
        return [one for one in found if one[1] not in known and one[1] not in leases][:limit]

    def on_orphans(self, callback: Callable[[], None], /) -> None:
        self.janitor.start()
        self._on_orphans.append(callback)
        if self._shared is None:
            callback()  # all holders before this process are dead
        else:
            self._shared.on_orphans(callback)

    def is_holder(self, task_id: str, /) -> bool:
        """True if this process holds the task."""
        return task_id in self.writer.leases

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool, /) -> None:
        """Another process has committed these events, serialized, of which the first has this number."""
        self._logs.heard(task_id, first, data, ended)

    def wake(self, task_ids: Sequence[str], /) -> None:
        """Other processes may have changed these tasks."""
        self._logs.wake(task_ids)

    def unreachable(self) -> None:
        """The database does not answer: `rejection` has to know it before the next write."""
        self.writer.probe(_NOTHING)

    def let_go(self) -> None:
        """All leases are lost: others have declared this process dead."""
        self.writer.lose_all()
        self._logs.wake(None)

    # ------------------------------------------------------------------ parts of the above

    async def _read(self, reading: Awaitable[Result]) -> Result:
        try:
            return await reading
        except OSError as error:
            log.warning("the store cannot be read: %s", error)
            raise unavailable() from error

    async def _settle(self, scope: Scope, task_id: str) -> None:
        """Waits for the writes of this process to a task, unless the store does not work."""
        lease = self.writer.leases.get(task_id)
        if lease is not None and lease.scope == scope and lease.pending and self.writer.rejection() is None:
            await lease.wait_settled()

    async def _is_present(self, _task_id: str, _known: Stored) -> bool:
        """Whether the database has a task as this process has left it, and no other process holds it."""
        return self._shared is None

    async def _row(self, scope: Scope, task_id: str) -> TaskRow | None:
        return (await self._read(self.records.read_tasks([(scope, task_id)])))[0]

    async def _read_sent(self, scope: Scope, message_id: str) -> SentRow | None:
        return await self._read(self.records.read_sent(scope, message_id))

    async def _read_events(self, task_id: str, after: int) -> tuple[Position | None, Sequence[Segment]]:
        return await self._read(self.records.read_events(task_id, after, _FETCH))

    async def _segments(self, task_id: str, after: int, until: int) -> Sequence[Segment] | None:
        """All segments of some events; None if the log does not have them all."""
        segments: Segments = []
        while after < until:
            _, some = await self._read_events(task_id, after)
            if not some or some[0].first > after + 1:
                return None
            segments.extend(some)
            after = some[-1].last
        return segments

    def _last_written(self, task_id: str) -> int | None:
        lease = self.writer.leases.get(task_id)
        return None if lease is None else lease.last

    def _on_takeover(self, task_ids: Sequence[str], conflict: bool) -> None:
        # Notifications about them were ignored while they were held here.
        self._logs.wake(task_ids)
        if conflict:
            # A task whose row another session had locked is lost, too: its row names this process, which has
            # left it.
            asyncio.get_running_loop().call_later(_LOCKED, self._tell_of_orphans)

    def _tell_of_orphans(self) -> None:
        for callback in self._on_orphans:
            callback()

    def _publish(self, committed: Sequence[Pending]) -> None:
        self._logs.add(committed)
        for one in committed:
            lease, row = one.lease, one.change.row
            if not lease.released and self.writer.leases.get(lease.task_id) is not lease:
                # Of an `open` that was given up: this process has the task, and nobody works on it.
                self._tell_of_orphans()
            left = lease.resting(one)
            if left is not None and left.size >= RESTS:
                self._resting.put(lease.task_id, (lease.scope, left), left.size)
            if one.ended and row.body is not None:
                self._ended.put(lease.scope, lease.task_id, row.body, row.version, row.last, row.written)
            if lease.push and self._notifications is not None:
                for number, event in enumerate(one.events, row.last - len(one.events) + 1):
                    self._notifications.deliver(lease.scope, lease.task_id, number, event)


class _Filling:
    """A page of a list, in the making. query: for the tasks that are missing. end: the position after it."""

    def __init__(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> None:
        self.page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        self.query = query
        self.end = after
        self.full = False
        self.left_out = 0
        self._scope = scope

    def add(self, rows: Iterable[TaskRow]) -> None:
        """Adds tasks, until the page is full."""
        for row in rows:
            try:
                task = _fold(self._scope, row.task_id, row)
            except DamagedError:
                log.error("task %s is damaged in the store, and left out of a list", row.task_id)  # noqa: TRY400  no trace
                self.left_out += 1
            else:
                if not self.page.add(task):
                    self.full = True
                    return
            self.end = row.place.time, row.task_id
            self.query = replace(self.query, page_size=self.query.page_size - 1)


async def _parse_by_size(rows: Sequence[TaskRow], parse: Callable[[], Result]) -> Result:
    return await asyncio.to_thread(parse) if _size_of(rows) >= MUCH else parse()


def _size_of(rows: Sequence[TaskRow]) -> int:
    """The bytes of the tasks of these rows, about."""
    return sum(len(row.body or b"") + _behind(row) for row in rows)


def _behind(row: TaskRow) -> int:
    """The bytes of the task that are not in the body."""
    return sum(len(one.data) for one in row.tail) + sum(len(one.data) for one in row.joined_tail)


def _stored(task: hub.Task, row: TaskRow) -> Stored:
    """A task that a row has."""
    joined = row.joined, row.joined_applied
    size = _size_of([row])
    return Stored(task, row.version, row.last, row.holder, row.applied, size, _behind(row), joined)


def _fold(scope: Scope, task_id: str, row: TaskRow) -> hub.Task:
    """The task of a row, as of event `row.last`. Scope and id: as asked for, because a damaged index may have
    led to another row. Raises DamagedError.
    """
    task = parse_checked(hub.Task.FromString, row.checksum, body_key(scope, task_id), row.body)
    number, index = row.applied, ArtifactIndex()
    messages = iter(row.joined_tail)
    message, joined = next(messages, None), row.joined_applied

    def join_until(event: int) -> None:
        nonlocal message, joined
        while message is not None and message.after <= event:
            add_message(task, joined_message(task_id, message))
            joined += 1
            if message.number != joined:
                raise DamagedError(task_id)
            message = next(messages, None)

    for segment in row.tail:
        for event in unpack(task_id, segment, number):
            if number == row.last:
                break
            if message is not None:
                join_until(number)
            number += 1
            try:
                task = fold(task, event, index)
            except IllegalTransitionError:
                # Events were checked when they were written, perhaps by weaker rules.
                task.status.CopyFrom(event.status_update.status)
    join_until(number)
    if (number, joined) != (row.last, row.joined):  # a row is missing
        raise DamagedError(task_id)
    return task


def _parse_stored(tasks: Sequence[tuple[Scope, str]], rows: Sequence[TaskRow | None]) -> list[Stored | None]:
    """The tasks of these rows; None for tasks that are missing or damaged."""
    found: list[Stored | None] = []
    for (scope, task_id), row in zip(tasks, rows, strict=False):
        stored = None
        if row is not None:
            try:
                task = _fold(scope, task_id, row)
                stored = _stored(task, row)
            except DamagedError:
                log.error("task %s is damaged in the store", task_id)  # noqa: TRY400  no trace
        found.append(stored)
    return found


class Janitor:
    """Has expired data deleted, every ten minutes. delete: deletes data that has expired."""

    def __init__(self, delete: Callable[[Expiry], Awaitable[None]], options: StoreOptions) -> None:
        self._delete = delete
        self._options = options
        self._task: asyncio.Task[None] | None = None

    async def round(self) -> None:
        """Deletes expired data. Raises UNAVAILABLE if the store does not work."""
        options = self._options
        await self._delete(Expiry(options.sends_kept, options.events_kept, options.tasks_kept))

    def start(self) -> None:
        """Starts, with a round at once, unless it has started. Raises RuntimeError without a loop."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._work(), name="a2a store janitor")

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while True:
            try:
                await self.round()
            except A2AError:
                log.debug("the clean-up is retried later: the store does not work")
            except Exception:
                log.exception("the clean-up has failed, and is retried later")
            await asyncio.sleep(_ROUND)
