"""A table of what callers leave behind, in which no caller displaces another one.

Rules:
1. The caller is the first part of a key. Beyond the limit of entries, the least recently used one of the
   caller with the most entries goes; beyond that of bytes, and when the account is short, the one of the
   caller with the most bytes. So each of N callers has at least an N-th part of the table.
2. Everything else is that of `memory.Table`: its entries are idle data of the account.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

from a2a_bridge.bindings.memory import Table, Tables

V = TypeVar("V")

Key = tuple[str, str]


class _Share:
    """The entries of one caller in LRU order, and their bytes."""

    __slots__ = ("entries", "size")

    def __init__(self) -> None:
        self.entries: OrderedDict[Key, int] = OrderedDict()
        self.size = 0

    @property
    def count(self) -> int:
        return len(self.entries)


class SharedTable(Table[Key, V]):
    """See above; the arguments are those of `Table`."""

    def __init__(
        self,
        most: int,
        tables: Tables | None = None,
        *,
        most_bytes: int,
        on_drop: Callable[[Key, V], None] | None = None,
    ) -> None:
        super().__init__(most, tables, most_bytes=most_bytes, on_drop=on_drop)
        self._shares: dict[str, _Share] = {}

    def get(self, key: Key) -> V | None:
        found = super().get(key)
        if found is not None:
            self._shares[key[0]].entries.move_to_end(key)
        return found

    def put(self, key: Key, value: V, size: int) -> None:
        share = self._shares.setdefault(key[0], _Share())
        share.size += size - share.entries.get(key, 0)
        share.entries[key] = size
        share.entries.move_to_end(key)
        super().put(key, value, size)

    def pop(self, key: Key) -> V | None:
        share = self._shares.get(key[0])
        if share is not None and key in share.entries:
            share.size -= share.entries.pop(key)
            if not share.entries:
                del self._shares[key[0]]
        return super().pop(key)

    def _oldest(self) -> Key:
        """The entry that goes first (rule 1)."""
        measure = "count" if len(self) > self._most else "size"
        largest = max(self._shares.values(), key=attrgetter(measure))
        return next(iter(largest.entries))
