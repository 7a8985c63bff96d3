"""Stores in this process's memory: fast, bounded, and gone when the process ends. Not for more than one process.

Tasks are kept serialized: that is smaller than a live message, quicker than a copy, and nobody can change it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.paging import PageTokens
from a2a_bridge.hosting.ports import Scope, Stored, TaskPage, TaskQuery, VersionConflict
from a2a_bridge.pb import lf_a2a_v1 as hub

_parse = hub.Task.FromString


@dataclass(slots=True, eq=False)
class _Entry:
    data: bytes
    version: int
    time: int
    task_id: str
    context_id: str
    state: hub.TaskState


class _Shelf:
    """The tasks of one scope in the order of (time, id).

    A status is nearly always newer than all before it, so appending keeps the order; when it is not, the shelf
    is put in order again by the next listing.
    """

    __slots__ = ("entries", "newest", "ordered")

    def __init__(self) -> None:
        self.entries: dict[str, _Entry] = {}
        self.newest = (0, "")
        self.ordered = True

    def place(self, entry: _Entry) -> None:
        self.entries.pop(entry.task_id, None)
        self.entries[entry.task_id] = entry
        key = (entry.time, entry.task_id)
        if key < self.newest:
            self.ordered = False
        else:
            self.newest = key

    def newest_first(self) -> Iterator[_Entry]:
        if not self.ordered:
            in_order = sorted(self.entries.values(), key=lambda entry: (entry.time, entry.task_id))
            self.entries = {entry.task_id: entry for entry in in_order}
            self.ordered = True
        return reversed(self.entries.values())


class MemoryTaskStore:
    """Implements TaskStore.

    most: how many tasks are kept over all scopes. Beyond that the task that ended first is forgotten; when none
        has ended, new ones are refused with RESOURCE_EXHAUSTED.
    page_key: see PageTokens.
    """

    def __init__(self, most: int = 100_000, *, page_key: bytes = b"") -> None:
        self._most = most
        self._shelves: dict[Scope, _Shelf] = {}
        self._homes: dict[str, Scope] = {}
        self._ended: OrderedDict[str, Scope] = OrderedDict()
        self._tokens = PageTokens(page_key)

    def __len__(self) -> int:
        return len(self._homes)

    async def create(self, scope: Scope, task: hub.Task, /) -> int:
        task_id = task.id
        if task_id in self._homes:
            raise VersionConflict(task_id)
        if len(self._homes) >= self._most:
            self._forget_one()
        shelf = self._shelves.get(scope)
        if shelf is None:
            shelf = self._shelves[scope] = _Shelf()
        self._homes[task_id] = scope
        self._write(scope, shelf, task, 1)
        return 1

    async def update(self, scope: Scope, task: hub.Task, expected: int, /) -> int:
        shelf = self._shelves.get(scope)
        known = shelf.entries.get(task.id) if shelf is not None else None
        if shelf is None or known is None or known.version != expected:
            raise VersionConflict(task.id)
        self._write(scope, shelf, task, expected + 1)
        return expected + 1

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        shelf = self._shelves.get(scope)
        entry = shelf.entries.get(task_id) if shelf is not None else None
        return None if entry is None else Stored(_parse(entry.data), entry.version)

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        name = repr((*scope, query.context_id, int(query.state), query.since))
        after: tuple[int, str] | None = None
        if query.page_token:
            time, _, task_id = self._tokens.read(query.page_token, name).partition(" ")
            after = int(time), task_id
        # The commonest question, and the only one that need not look at every task.
        unfiltered = not query.context_id and not query.state and query.since is None
        page: list[_Entry] = []
        total = left = 0
        for entry in self._matching(scope, query):
            total += 1
            if after is not None and (entry.time, entry.task_id) >= after:
                continue
            if len(page) < query.page_size:
                page.append(entry)
                continue
            left += 1
            if unfiltered:
                total = len(self._shelves[scope].entries)
                break
        token = self._tokens.issue(f"{page[-1].time} {page[-1].task_id}", name) if left else ""
        return TaskPage([_read(entry, artifacts=query.artifacts) for entry in page], token, total)

    def _matching(self, scope: Scope, query: TaskQuery) -> Iterator[_Entry]:
        shelf = self._shelves.get(scope)
        if shelf is None:
            return
        for entry in shelf.newest_first():
            if query.since is not None and entry.time < query.since:
                return
            if query.context_id and entry.context_id != query.context_id:
                continue
            if query.state and entry.state != query.state:
                continue
            yield entry

    def _write(self, scope: Scope, shelf: _Shelf, task: hub.Task, version: int) -> None:
        status = task.status
        stamp = status.timestamp
        time = stamp.seconds * 1_000_000_000 + stamp.nanos
        shelf.place(_Entry(task.SerializeToString(), version, time, task.id, task.context_id, status.state))
        if status.state in TERMINAL:
            self._ended.setdefault(task.id, scope)

    def _forget_one(self) -> None:
        if not self._ended:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "the agent has too many unfinished tasks")
        task_id, scope = self._ended.popitem(last=False)
        shelf = self._shelves[scope]
        del shelf.entries[task_id], self._homes[task_id]
        if not shelf.entries:
            del self._shelves[scope]


def _read(entry: _Entry, *, artifacts: bool) -> hub.Task:
    task = _parse(entry.data)
    if not artifacts:
        task.ClearField("artifacts")
    return task


class MemoryPushConfigStore:
    """Implements PushConfigStore.

    most_tasks: for how many tasks configs are kept; beyond that, those of the task that got one first are
        forgotten. most_per_task: how many one task may have.
    """

    def __init__(self, most_tasks: int = 100_000, most_per_task: int = 100) -> None:
        self._most_tasks = most_tasks
        self._most_per_task = most_per_task
        self._tasks: OrderedDict[tuple[Scope, str], dict[str, bytes]] = OrderedDict()

    async def put(self, scope: Scope, config: hub.TaskPushNotificationConfig, /) -> None:
        key = (scope, config.task_id)
        configs = self._tasks.get(key, {})
        if config.id not in configs and len(configs) >= self._most_per_task:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "the task has too many push notification configs")
        if key not in self._tasks:
            if len(self._tasks) >= self._most_tasks:
                self._tasks.popitem(last=False)
            self._tasks[key] = configs
        configs[config.id] = config.SerializeToString()

    async def get(
        self, scope: Scope, task_id: str, config_id: str, /
    ) -> hub.TaskPushNotificationConfig | None:
        data = self._tasks.get((scope, task_id), {}).get(config_id)
        return None if data is None else hub.TaskPushNotificationConfig.FromString(data)

    async def list(self, scope: Scope, task_id: str, /) -> list[hub.TaskPushNotificationConfig]:
        found = self._tasks.get((scope, task_id), {})
        return [hub.TaskPushNotificationConfig.FromString(data) for data in found.values()]

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        configs = self._tasks.get((scope, task_id))
        if configs is not None and configs.pop(config_id, None) is not None and not configs:
            del self._tasks[(scope, task_id)]
