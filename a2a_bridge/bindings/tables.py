"""What a server remembers of tasks, contexts and messages: tables whose bytes count in its memory account.

Rules:
1. Agents and callers choose the keys and the values. A table has at most so many entries and so many bytes;
   beyond them the least recently used entries go.
2. All of it is idle data of the account: when memory is short, the table with the most bytes loses its least
   recently used entries first. Every user of a table goes on without an entry.
3. The bytes are those of the texts, and a fixed number for each entry.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from sys import getsizeof
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.callers import Scope

K = TypeVar("K")
V = TypeVar("V")

#: bytes of one entry beside its texts: its place in the table, its tuples and objects
ENTRY = 300
#: bytes of one table
MOST_BYTES = 64 << 20


class Tables:
    """The tables of one account. It is registered there with the first entry."""

    def __init__(self, memory: MemoryAccount) -> None:
        self._memory = memory
        self._tables: WeakSet[Table[object, object]] = WeakSet()
        self._is_registered = False
        #: bytes of all tables
        self.idle = 0

    @classmethod
    def of(cls, memory: MemoryAccount | None) -> Tables:
        """The tables of an account; new ones, which count nowhere, for None."""
        if memory is None:
            return cls(MemoryAccount())
        found = _TABLES.get(memory)
        if found is None:
            found = _TABLES[memory] = cls(memory)
        return found

    def adopt(self, table: Table[object, object]) -> None:
        """Counts the entries of a table from now on."""
        self._tables.add(table)

    def discard(self, table: Table[object, object]) -> None:
        """Counts the entries of a table no more."""
        self._tables.discard(table)

    def add(self, size: int) -> None:
        """Adds a number of bytes, which may be negative."""
        if not self._is_registered:
            self._is_registered = True
            self._memory.holds(self)
        self.idle += size
        self._memory.add(size)

    def give_up(self, wanted: int) -> None:
        """Frees at least `wanted` bytes, or all."""
        end = self.idle - wanted
        while self.idle > max(end, 0):
            largest = max(self._tables, key=_size_of, default=None)
            if largest is None or not largest.size:
                return
            largest.drop_oldest()


_TABLES: WeakKeyDictionary[MemoryAccount, Tables] = WeakKeyDictionary()


class Table(Generic[K, V]):
    """Entries in LRU order. most: of them; most_bytes: of all. on_drop: is called with the key and the value
    of an entry that goes because of a limit.
    """

    def __init__(
        self,
        most: int,
        tables: Tables | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        on_drop: Callable[[K, V], None] | None = None,
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._tables = tables or Tables.of(None)
        self._on_drop = on_drop
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        #: bytes of its entries
        self.size = 0
        self._tables.adopt(self)  # type: ignore[arg-type]  # it uses no key and no value

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """The value of an entry, which is used now; None without one."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Makes or replaces an entry. size: its bytes, see `size_of`."""
        known = self._entries.get(key)
        grown = size if known is None else size - known[1]
        self._entries[key] = value, size
        if known is not None:
            self._entries.move_to_end(key)
        self.size += grown
        self._tables.add(grown)
        while len(self._entries) > self._most or (self.size > self._most_bytes and len(self._entries) > 1):
            self.drop_oldest()

    def pop(self, key: K) -> V | None:
        """Removes an entry. Returns its value; None without one."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self.size -= found[1]
        self._tables.add(-found[1])
        return found[0]

    def move_to(self, tables: Tables) -> None:
        """Counts its entries in another account from now on."""
        self._tables.add(-self.size)
        self._tables.discard(self)  # type: ignore[arg-type]  # as above
        self._tables = tables
        tables.adopt(self)  # type: ignore[arg-type]
        tables.add(self.size)

    def drop_oldest(self) -> None:
        """Removes the least recently used entry."""
        key = next(iter(self._entries))
        value = self.pop(key)
        if self._on_drop is not None and value is not None:
            self._on_drop(key, value)

    def __del__(self) -> None:
        # Connections of an older card are dropped with their tables.
        if self.size:
            self._tables.add(-self.size)


def size_of(scope: Scope | str, *texts: str) -> int:
    """The bytes of an entry with these texts."""
    tenant, owner = (scope, "") if isinstance(scope, str) else scope
    return ENTRY + sum(map(getsizeof, (tenant, owner, *texts)))


def _size_of(table: Table[object, object]) -> int:
    return table.size
