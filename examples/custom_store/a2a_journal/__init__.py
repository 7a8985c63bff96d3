"""A store whose database is a journal: one file, to which each group of changes is added as one line.

It is small on purpose. All rows are in memory; after a start they are read from the file.
"""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections import ChainMap
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from pathlib import Path
from time import time
from typing import Any

from a2a_bridge.ext import (
    CONFLICT,
    Expiry,
    Found,
    Place,
    Position,
    Scope,
    Segment,
    SentChange,
    SentRow,
    StoreBase,
    StoreOptions,
    TaskChange,
    TaskQuery,
    TaskRow,
)

Sent = tuple[SentRow, float]


class JournalStore(StoreBase):
    """A store in the file at `path`, which one process may use at a time."""

    def __init__(self, path: Path, options: StoreOptions | None = None) -> None:
        super().__init__(JournalRecords(path), options)


class JournalRecords:
    """The driver. Implements Records."""

    def __init__(self, path: Path) -> None:
        self._tasks: dict[str, TaskRow] = {}
        self._segments: dict[str, list[Segment]] = {}
        #: by tenant, owner and message, with the time of the change
        self._sent: dict[tuple[str, ...], Sent] = {}
        self._file = path.open("a+b")
        self._file.seek(0)
        self._size = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break  # a crash cut the last line: its changes were not acknowledged
            self._size += len(line)
            for entry in json.loads(line):
                self._replay(*entry)

    # ------------------------------------------------------------------ reading

    async def read_tasks(self, tasks: Sequence[tuple[Scope, str]]) -> Sequence[TaskRow | None]:
        rows = [(scope, self._tasks.get(task_id)) for scope, task_id in tasks]
        return [None if row is None or row.scope != scope else self._shown(row) for scope, row in rows]

    async def read_events(
        self,
        task_id: str,
        after: int,
        size: int,  # noqa: ARG002  all are in memory
    ) -> tuple[Position | None, Sequence[Segment]]:
        row = self._tasks.get(task_id)
        if row is None:
            return None, ()
        return Position(row.last, row.ended), self._after(task_id, after)

    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> Found:
        keys = sorted(
            (row.place.time, task_id)
            for task_id, row in self._tasks.items()
            if row.scope == scope
            and query.context_id in ("", row.place.context)
            and query.state in (0, row.place.state)
            and (query.since is None or row.place.time >= query.since)
        )[::-1]
        rest = [key for key in keys if after is None or key < after]
        rows = [self._shown(self._tasks[task_id]) for _, task_id in rest[: query.page_size]]
        return Found(rows, len(keys), len(rest) > query.page_size)

    async def held(self, limit: int) -> Sequence[tuple[Scope, str]]:
        held = [row for row in self._tasks.values() if row.holder]
        held.sort(key=lambda row: row.place.time, reverse=True)
        return [(row.scope, row.task_id) for row in held[:limit]]

    async def read_sent(self, scope: Scope, message_id: str) -> SentRow | None:
        known = self._sent.get((*scope, message_id))
        return None if known is None else known[0]._replace(holder="")

    # ------------------------------------------------------------------ writing

    async def write(self, changes: Sequence[TaskChange | SentChange]) -> Sequence[Any]:
        tasks, sent = ChainMap({}, self._tasks), ChainMap({}, self._sent)
        entries: list[list[Any]] = []
        results: list[Any] = []
        for change in changes:
            if isinstance(change, TaskChange):
                entry = _task_entry(tasks, change)
            else:
                entry = _sent_entry(sent, change)
            results.append(CONFLICT if entry is None else None)
            if entry is not None:
                entries.append(entry)
        if entries:
            await asyncio.to_thread(self._append, json.dumps(entries).encode() + b"\n")
            for entry in entries:
                self._replay(*entry)
        return results

    async def delete_expired(self, expiry: Expiry, _: Callable[[Any], Awaitable[Any]]) -> None:
        """Forgets what has expired. The lines stay in the file: a larger example would write it anew."""
        now = time()
        self._sent = {key: one for key, one in self._sent.items() if now - one[1] <= expiry.sends}
        for task_id, row in list(self._tasks.items()):
            gone = row.ended and expiry.tasks is not None and now - row.written > expiry.tasks
            if gone or (row.ended and now - row.written > expiry.events):
                self._segments.pop(task_id, None)
            if gone:
                del self._tasks[task_id]

    async def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------ internals

    def _append(self, line: bytes) -> None:
        self._file.truncate(self._size)  # what a failed attempt has left
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._size += len(line)

    def _replay(self, kind: str, key: list[str], row: Any, more: Any) -> None:
        if kind == "task":
            self._tasks[key[-1]] = task = _row(key, row, self._tasks.get(key[-1]))
            segments = [Segment(first, last, b64decode(data), check) for first, last, data, check in more]
            if task.version == 1:  # the lines of an earlier task of that name may still be there
                self._segments[task.task_id] = []
            self._segments.setdefault(task.task_id, []).extend(segments)
        elif row is None:
            self._sent.pop(tuple(key), None)
        else:
            digest, task_id, answer, holder, checksum = row
            sent = SentRow(b64decode(digest), task_id, b64decode(answer), holder, checksum)
            self._sent[tuple(key)] = sent, more

    def _shown(self, row: TaskRow) -> TaskRow:
        """A row as it is read: with its tail, and without the holder, because this is the only process."""
        return row._replace(holder="", tail=self._after(row.task_id, row.applied))

    def _after(self, task_id: str, number: int) -> list[Segment]:
        return [one for one in self._segments.get(task_id, ()) if one.last > number]


def _task_entry(tasks: MutableMapping[str, TaskRow], change: TaskChange) -> list[Any] | None:
    """The entry of a change; None if it does not fit to the rows, in which it is noted."""
    row = change.row
    known = tasks.get(row.task_id)
    if (0 if known is None else known.version) != row.version - 1:
        return None
    if known is not None and known.scope != row.scope:
        return None
    tasks[row.task_id] = row
    body = None if row.body is None else _text(row.body)
    values = [*row.place, row.version, row.last, row.applied, row.holder, body, row.checksum, row.written]
    segments = [[one.first, one.last, _text(one.data), one.checksum] for one in change.segments]
    return ["task", [*row.scope, row.task_id], values, segments]


def _sent_entry(sent: MutableMapping[tuple[str, ...], Sent], change: SentChange) -> list[Any] | None:
    key = (*change.scope, change.message_id)
    after = change.after
    if after is None:
        sent.pop(key, None)
        return ["sent", key, None, None]
    known = sent.get(key)
    if (None if known is None else known[0][:3]) != (change.before and change.before[:3]):
        return None
    sent[key] = after, time()
    row = [_text(after.digest), after.task_id, _text(after.answer), after.holder, after.checksum]
    return ["sent", key, row, sent[key][1]]


def _row(key: list[str], values: list[Any], known: TaskRow | None) -> TaskRow:
    *place, version, last, applied, holder, text, checksum, written = values
    body = None if text is None else b64decode(text)
    if body is None and known is not None:
        body, checksum = known.body, known.checksum  # a change without a body leaves it as it is
    scope = Scope(key[0], key[1])
    return TaskRow(scope, key[2], Place(*place), version, last, applied, holder, body, checksum, (), written)


def _text(data: bytes) -> str:
    return b64encode(data).decode()
