"""A store in files. It is small on purpose; SQLite is faster."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from a2a_bridge.ext import Found, Scope, Sent, StoreBase, TaskChange, TaskQuery, TaskRecord, hub


class FileStore(StoreBase):
    """Keeps tasks below a folder, which one process may use at a time.

    A task is two files: `events`, to which events are appended, and `task`, which is replaced. `task` has
    the number of valid octets in `events`, so a write that a crash interrupts has no effect.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        (folder / "sent").mkdir(parents=True, exist_ok=True)
        #: the record of each task, and the octets of its events
        self._index: dict[str, tuple[TaskRecord, int]] = {}
        for path in folder.glob("tasks/*/task"):
            record, octets = _read(path)
            self._index[record.task.id] = record, octets

    async def read_task(self, task_id: str) -> TaskRecord | None:
        if task_id not in self._index:
            return None
        record, _ = self._index[task_id]
        return record._replace(task=_copy(record.task))

    async def read_events(self, task_id: str, after: int, limit: int) -> Sequence[bytes]:
        record, octets = self._index[task_id]
        with (self._path(task_id) / "events").open("rb") as file:
            lines = file.read(octets).splitlines()
        return [b64decode(line) for line in lines[after : min(record.last, after + limit)]]

    async def write(self, changes: Sequence[TaskChange]) -> Sequence[str]:
        refused = []
        for change in changes:
            task_id = change.record.task.id
            known, octets = self._index.get(task_id, (None, 0))
            if (0 if known is None else known.version) != change.before:
                refused.append(task_id)
                continue
            octets = await asyncio.to_thread(_write, self._path(task_id), change, octets)
            self._index[task_id] = change.record, octets
        return refused

    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> Found:
        keys = sorted(
            (_time(task), task.id)
            for record, _ in self._index.values()
            if record.scope == scope
            and (task := record.task)
            and query.context_id in ("", task.context_id)
            and query.state in (hub.TASK_STATE_UNSPECIFIED, task.status.state)
            and (query.since is None or _time(task) >= query.since)
        )[::-1]
        rest = [key for key in keys if after is None or key < after]
        page = [_copy(self._index[task_id][0].task) for _, task_id in rest[: query.page_size]]
        return Found(page, len(keys), len(rest) > query.page_size)

    async def held(self, limit: int) -> Sequence[tuple[Scope, str]]:
        held = [record for record, _ in self._index.values() if record.held]
        held.sort(key=lambda record: _time(record.task), reverse=True)
        return [(record.scope, record.task.id) for record in held[:limit]]

    async def read_sent(self, scope: Scope, message_id: str) -> Sent | None:
        path = self._folder / "sent" / _name(*scope, message_id)
        if not path.exists():
            return None
        digest, task_id, answer = json.loads(path.read_bytes())
        return Sent(b64decode(digest), task_id, b64decode(answer))

    async def write_sent(self, scope: Scope, message_id: str, sent: Sent | None) -> None:
        path = self._folder / "sent" / _name(*scope, message_id)
        if sent is None:
            path.unlink(missing_ok=True)
        else:
            known = [b64encode(sent.digest).decode(), sent.task_id, b64encode(sent.answer).decode()]
            await asyncio.to_thread(_replace, path, json.dumps(known).encode())

    def _path(self, task_id: str) -> Path:
        return self._folder / "tasks" / _name(task_id)


def _write(folder: Path, change: TaskChange, octets: int) -> int:
    """Writes one change. Returns the octets of the task's events."""
    record = change.record
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(b64encode(event) + b"\n" for event in change.events)
    if lines:
        with (folder / "events").open("ab") as file:
            file.truncate(octets)
            file.write(lines)
            _sync(file)
        octets += len(lines)
    head = [*record.scope, record.version, record.last, record.held, record.amended, octets]
    _replace(folder / "task", json.dumps(head).encode() + b"\n" + record.task.SerializeToString())
    return octets


def _read(path: Path) -> tuple[TaskRecord, int]:
    head, _, body = path.read_bytes().partition(b"\n")
    tenant, owner, version, last, held, amended, octets = json.loads(head)
    task = hub.Task.FromString(body)
    return TaskRecord(Scope(tenant, owner), task, version, last, held, amended), octets


def _replace(path: Path, data: bytes) -> None:
    """Replaces a file, so that a crash leaves the old or the new one."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        _sync(file)
    new.replace(path)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _name(*words: str) -> str:
    """A file name for a name that a caller chose, which may contain any character."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _time(task: hub.Task) -> int:
    stamp = task.status.timestamp
    return stamp.seconds * 10**9 + stamp.nanos


def _copy(task: hub.Task) -> hub.Task:
    return hub.Task.FromString(task.SerializeToString())
