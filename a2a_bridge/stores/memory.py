"""A store in this process's memory: fast, bounded, and lost when the process ends. For one process.

Rules:
1. Changes count as durable at once, so nothing is pending and nothing waits.
2. A task is serialized when its lease is released or it ends; a large task in a worker. Until then the store
   shares the working copy. That of a large task which has not ended stays for the next turn, until other ones
   have taken its place.
3. Memory is bounded: the number of tasks, the window of each event log, and the number and bytes of the logs
   without writers and readers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from a2a_bridge.bindings.memory import MemoryAccount, Table
from a2a_bridge.bindings.offload import MUCH, start_in_worker
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event_log import LogReader, LogRules, Pace
from a2a_bridge.core.lifecycle import ArtifactIndex, fold
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.paging import PageTokens
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.memory_tasks import Entry, MemoryLog, MemorySends, TaskTable
from a2a_bridge.stores.ports import (
    Clock,
    Outbox,
    PushConfigStore,
    Remote,
    Scope,
    SendRegister,
    Stored,
    Synced,
    TaskPage,
    TaskQuery,
    VersionConflictError,
)
from a2a_bridge.stores.resting import RESTS, resting_tasks


class MemoryStore:
    """Implements Store.

    most: maximum number of tasks over all scopes. Beyond that the task that ended first is evicted; if none
    has ended, new tasks are rejected with RESOURCE_EXHAUSTED. page_key: see PageTokens. window, window_bytes:
    events that the log of a task keeps. stall: seconds that a writer waits for its slowest reader. kept_logs,
    kept_bytes: bounds of the events of tasks without writers and readers, over all of them. max_memory: bytes
    of all tasks and events together; 0 for no limit. Above it the events of tasks without writers and readers
    are evicted first, then the tasks that ended first.
    """

    durable = False
    remote: Remote | None = None

    def __init__(
        self,
        most: int = 100_000,
        *,
        page_key: bytes = b"",
        window: int = 256,
        window_bytes: int = 1 << 20,
        stall: float = 30.0,
        kept_logs: int = 1000,
        kept_bytes: int = 32 << 20,
        max_memory: int = 0,
        clock: Clock | None = None,
        push_configs: MemoryPushConfigStore | None = None,
    ) -> None:
        self._most = most
        self.memory = MemoryAccount(max_memory)
        self.memory.holds(self)
        self._rules = LogRules(
            window,
            window_bytes,
            Pace.SLOWEST,
            waiter=asyncio.Future,
            stall=stall,
            call_later=(clock or Clock()).call_later,
        )
        self._kept_logs = kept_logs
        self._kept_bytes = kept_bytes
        self._entries: dict[str, Entry] = {}
        #: the tasks by scope
        self.tables: dict[Scope, TaskTable] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._ended_bytes = 0
        #: the tasks without a writer whose working copy is kept
        self._resting: Table[str, Entry] = resting_tasks(self.memory, lambda _, entry: self._serialize(entry))
        self._logs: dict[str, MemoryLog] = {}
        self._on_quiet = self._quiet  # one for all logs
        #: the logs without writers and readers, and their bytes
        self._idle_tasks: OrderedDict[str, int] = OrderedDict()
        self._idle_bytes = 0
        self._tokens = PageTokens(page_key)
        push_configs = push_configs or MemoryPushConfigStore()
        self.memory_outbox = MemoryOutbox(push_configs)
        self.push_configs: PushConfigStore = push_configs
        self.outbox: Outbox = self.memory_outbox
        self.sends: SendRegister = MemorySends(self.memory)

    def __len__(self) -> int:
        return len(self._entries)

    def rejection(self) -> A2AError | None:
        return None

    # ------------------------------------------------------------------ tasks

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> MemoryWriter:
        """Raises RESOURCE_EXHAUSTED if there is no room. The task counts from its first event on."""
        if len(self._entries) >= self._most:
            self._forget_one()
        return MemoryWriter(self, Entry(scope, task_id, ""), on_lost, push=push)

    async def open(
        self,
        scope: Scope,
        stored: Stored,
        on_lost: Callable[[], None],
        /,
        *,
        push: bool = False,
        wait: bool = True,  # noqa: ARG002  it never waits
    ) -> MemoryWriter:
        entry = self._entries.get(stored.task.id)
        if entry is None or entry.scope != scope or entry.held or entry.version != stored.version:
            raise VersionConflictError(stored.task.id)
        entry.held = True
        self._resting.pop(entry.task_id)
        return MemoryWriter(self, entry, on_lost, push=push)

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        entry = self._entries.get(task_id)
        if entry is None or entry.scope != scope:
            return None
        return Stored(entry.read(), entry.version, entry.last)

    async def working_copy(self, scope: Scope, task_id: str, /) -> Stored | None:
        entry = self._entries.get(task_id)
        if entry is None or entry.scope != scope or entry.live is None or entry.held:
            return await self.get(scope, task_id)
        return Stored(entry.live, entry.version, entry.last)

    async def get_many(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[Stored | None]:
        return [await self.get(scope, task_id) for scope, task_id in tasks]

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        return self.tables.get(scope, TaskTable()).page(scope, query, self._tokens)

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        entry = self._entries.get(task_id)
        if entry is None or entry.scope != scope:
            return None
        log = self._logs.get(task_id)
        if log is None or not log.base < sequence < log.last:
            return entry.read()
        start = log.start(sequence)
        if start is None:
            return entry.read()
        number, data = start
        task, index = hub.Task.FromString(data), ArtifactIndex()
        for event in log.after(number, sequence - number):
            task = fold(task, event, index)
        return task

    async def orphans(self, _limit: int, /) -> Sequence[tuple[Scope, str]]:
        return ()

    def on_orphans(self, callback: Callable[[], None], /) -> None:
        """Does nothing: the store ends with its only process, so there are no orphans."""

    # ------------------------------------------------------------------ events

    def subscribe(self, task_id: str, after: int, /) -> LogReader[hub.StreamResponse]:
        log = self.log(task_id)
        reader = log.reader(after)
        self._quiet(log)  # a lapsed reader does not count as one
        return reader

    def end(self, task_id: str, error: A2AError, /) -> None:
        log = self._logs.get(task_id)
        if log is not None:
            log.break_off(error)

    # ------------------------------------------------------------------ for writers

    def add(self, entry: Entry, task: hub.Task) -> MemoryLog | None:
        """Adds a new task and returns its log. None if its id is taken."""
        task_id = entry.task_id
        if task_id in self._entries:
            return None
        entry.context_id = task.context_id
        log = self.log(task_id)
        self._entries[task_id] = entry
        return log

    def leave(self, entry: Entry, log: MemoryLog) -> None:
        """Ends the lease on a task."""
        if entry.size < RESTS or entry.live is None:
            self.memory.add(entry.rest())
        else:
            entry.look()
            entry.held = False
            if entry.state in TERMINAL:
                self._serialize(entry)
            else:
                self.memory.add(entry.measure())
                self._resting.put(entry.task_id, entry, entry.size)
        if entry.state in TERMINAL:
            self._ended[entry.task_id] = None
            self._ended_bytes += entry.size
            log.end()
        if not log.readers:
            self._quiet(log)

    def _serialize(self, entry: Entry) -> None:
        """Serializes a task without a writer, which has a working copy; a large one in a worker."""
        task, version = entry.live, entry.version
        if task is None:
            return
        if entry.size < MUCH:
            self.memory.add(entry.rest())
            return

        def on_done(done: asyncio.Future[bytes]) -> None:
            if entry.held or entry.version != version or done.cancelled():
                return  # it has another writer, or had one
            entry.data, entry.live = done.result(), None
            if self._entries.get(entry.task_id) is entry:
                grown = len(entry.data) - entry.size
                entry.size += grown
                self.memory.add(grown)
                if entry.task_id in self._ended:
                    self._ended_bytes += grown

        write = partial(task.SerializeToString, deterministic=True)
        start_in_worker(write).add_done_callback(on_done)

    def log(self, task_id: str) -> MemoryLog:
        """The log of a task, created if there is none."""
        log = self._logs.get(task_id)
        if log is None:
            entry = self._entries.get(task_id)
            last = 0 if entry is None else entry.last
            log = self._logs[task_id] = MemoryLog(self._rules, task_id, last, self.memory, self._on_quiet)
            log.ended = entry is not None and entry.state in TERMINAL
        elif task_id in self._idle_tasks:
            self._idle_bytes -= self._idle_tasks.pop(task_id)
        return log

    # ------------------------------------------------------------------ bounds

    @property
    def idle(self) -> int:
        """Bytes that can be evicted."""
        return self._idle_bytes + self._ended_bytes

    def give_up(self, wanted: int, /) -> None:
        """Evicts events without readers, and then ended tasks, oldest first."""
        until = self.memory.used - wanted
        while self._idle_tasks and self.memory.used > until:
            self._forget_log()
        while self._ended and self.memory.used > until:
            self._forget_one()

    def _quiet(self, log: MemoryLog) -> None:
        """Parks a log without writers and readers; drops it if no reader could resume from it."""
        task_id = log.task_id
        if log.readers or self._logs.get(task_id) is not log:
            return
        entry = self._entries.get(task_id)
        if entry is not None and entry.held:
            return
        if log.base == log.last:
            log.forget()
            del self._logs[task_id]
            return
        size = log.bytes
        self._idle_tasks[task_id] = size
        self._idle_bytes += size
        while len(self._idle_tasks) > self._kept_logs or self._idle_bytes > self._kept_bytes:
            self._forget_log()

    def _forget_log(self) -> None:
        oldest, size = self._idle_tasks.popitem(last=False)
        self._idle_bytes -= size
        self._logs.pop(oldest)
        self.memory.add(-size)

    def _forget_one(self) -> None:
        if not self._ended:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "the agent has too many unfinished tasks")
        task_id, _ = self._ended.popitem(last=False)
        entry = self._entries.pop(task_id)
        self._resting.pop(task_id)
        self._ended_bytes -= entry.size
        self.memory.add(-entry.size)
        if self.tables[entry.scope].remove(task_id):
            del self.tables[entry.scope]
        self._idle_bytes -= self._idle_tasks.pop(task_id, 0)
        log = self._logs.pop(task_id, None)
        if log is not None:
            log.forget()


class MemoryWriter:
    """Implements TaskWriter."""

    __slots__ = ("_entry", "_log", "_lost", "_on_lost", "_push", "_store", "_table", "crowded", "last")

    #: see rule 1 of this module
    pending = False

    def __init__(self, store: MemoryStore, entry: Entry, on_lost: Callable[[], None], *, push: bool) -> None:
        self._store = store
        self._entry = entry
        self._on_lost = on_lost
        self._push = push
        self._lost = False
        self.crowded = False
        self.last = entry.last
        #: the table with the entry; it exists as long as the entry has a writer
        self._table: TaskTable | None = None
        self._log = store.log(entry.task_id) if entry.version else None

    @property
    def stored(self) -> int:
        return self.last

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        entry, log, store = self._entry, self._log, self._store
        if self._lost:
            return self.last
        if log is None:
            log = self._log = store.add(entry, task)
            if log is None:
                self.lose()
                return 0
        entry.live = task
        entry.version += 1
        size = len(event.SerializeToString())  # ByteSize costs more
        log.append(event, size)
        if size > log.rules.size and not log.readers:
            log.drop(len(log.events))  # nobody waits for it, and it is larger than the logs that are kept
        self.last = entry.last = log.last
        self.crowded = log.crowded
        entry.size += size
        store.memory.add(size + size)  # once for the log, once for the task
        if self._push:
            store.memory_outbox.deliver(entry.scope, entry.task_id, log.last, event)
        if not event.HasField("artifact_update"):
            table = self._table
            if table is None:
                tables = store.tables
                table = self._table = tables.get(entry.scope) or tables.setdefault(entry.scope, TaskTable())
            table.moved.pop(entry.task_id, None)  # the newest change comes last
            table.moved[entry.task_id] = entry
            if task.status.state in TERMINAL:
                store.leave(entry, log)
        return log.last

    def amend(self, task: hub.Task, joined: hub.Message | None = None, /) -> None:
        if not self._lost:
            entry = self._entry
            entry.live = task
            entry.version += 1
            size = 0 if joined is None else joined.ByteSize()
            entry.size += size
            self._store.memory.add(size)
            if self._push and self._log is not None:
                self._note(task, self._log)

    def _note(self, task: hub.Task, log: MemoryLog) -> None:
        if self._store.memory_outbox.awaits(self._entry.scope, self._entry.task_id):
            log.note(task)
        else:
            log.skip_note()

    def when_synced(self, callback: Synced, /) -> None:
        callback(VersionConflictError(self._entry.task_id) if self._lost else None)

    async def sync(self) -> None:
        if self._lost:
            raise VersionConflictError(self._entry.task_id)

    async def room(self) -> None:
        if self._log is not None:
            await self._log.room()

    def release(self) -> None:
        if not self._lost and self._entry.held and self._log is not None:
            self._entry.version += 1
            self._store.leave(self._entry, self._log)

    def lose(self) -> None:
        """Revokes the lease: another writer owns the task."""
        self._lost = True
        self._on_lost()
