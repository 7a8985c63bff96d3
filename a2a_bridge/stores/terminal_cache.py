"""An LRU cache of ended tasks: they never change, so each is read from the database once, until it may be
deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import LRUCache

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Stored

#: overhead of a task beside its own bytes
_OVERHEAD = 400


class _Entry(NamedTuple):
    scope: Scope
    data: bytes
    version: int
    last: int
    written: float


def _size_of(entry: _Entry) -> int:
    return len(entry.data) + _OVERHEAD


class TerminalTaskCache:
    """The ended tasks that were read or written last.

    most: bytes. retention: seconds after which any replica may delete an ended task; None for never.
    wall: seconds since the epoch.
    """

    def __init__(
        self,
        most: int,
        retention: float | None = None,
        *,
        wall: Callable[[], float] = time.time,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._most = most
        self._retention = retention
        self._wall = wall
        self._entries: LRUCache[str, _Entry] = LRUCache(most, _size_of)
        self._memory = memory or MemoryAccount()
        self._memory.holds(self)

    @property
    def idle(self) -> int:
        """Bytes that can be evicted: all of them."""
        return int(self._entries.currsize)

    def give_up(self, wanted: int, /) -> None:
        """Evicts entries in LRU order."""
        until = max(0, self.idle - wanted)
        while self.idle > until:
            _, oldest = self._entries.popitem()
            self._memory.add(-_size_of(oldest))

    def __contains__(self, task_id: str) -> bool:
        """True if the task is cached, or was when it was read last."""
        return task_id in self._entries

    def get(self, scope: Scope, task_id: str) -> Stored | None:
        """A copy of a task; None if it is not cached or belongs to another scope."""
        entry = self._entries.get(task_id)
        if entry is None or entry.scope != scope:
            return None
        if self._retention is not None and entry.written < self._wall() - self._retention:
            self.drop(task_id)
            return None
        return Stored(hub.Task.FromString(entry.data), entry.version, entry.last)

    def put(
        self, scope: Scope, task_id: str, data: bytes, version: int, last: int, written: float = 0.0
    ) -> None:
        """Adds an ended task, serialized. written: time of its last write, in seconds since the epoch."""
        entry = _Entry(scope, data, version, last, written)
        if _size_of(entry) * 8 > self._most:
            return
        before = self.idle
        self._entries[task_id] = entry
        self._memory.add(self.idle - before)

    def drop(self, task_id: str) -> None:
        """Removes a task."""
        entry = self._entries.pop(task_id, None)
        if entry is not None:
            self._memory.add(-_size_of(entry))
