"""One account of the memory of a hosted agent or a gateway. Holders report their own sizes.

Rules:
1. Sizes are the lengths of serialized messages: an estimate, below the memory of the process. Large requests
   and responses in work count in every account.
2. Above the limit, idle data is freed first, from the largest holder: it is in the store, or no longer
   needed.
3. The rest is in use. New work is rejected above 7/8 of the limit, so that running work can finish. Above the
   limit runs wait or fail (see `hosting.run_registry`), and of the responses that arrive, the largest ends.

What a server remembers of tasks, contexts and messages is in tables on the account:
1. Agents and callers choose the keys and the values. A table has at most so many entries and so many bytes;
   beyond them the least recently used entries go.
2. All of it is idle data of the account: when memory is short, the table with the most bytes loses its least
   recently used entries first. Code that uses a table works without an entry, too.
3. The bytes are the sizes of the texts, and a fixed number for each entry.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from sys import getsizeof
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason

#: freed bytes after which the allocator returns memory to the system; delay and minimal interval in seconds
_MUCH, _SOON, _PAUSE = 32 << 20, 1.0, 5.0

_FULL = "the server has reached its memory limit, and this response of the agent held the most"


class InWork:
    """Bytes of large requests until they are answered, and of large responses until they are sent. Servers
    and clients count them; every account includes them.
    """

    def __init__(self) -> None:
        self.held = 0

    def add(self, size: int) -> None:
        """Adds a number of bytes, which may be negative."""
        self.held += size


in_work = InWork()


class HoldsInWork:
    """A request whose bytes are counted as in work until they are released; `__init__` sets `_held` to 0."""

    __slots__ = ("_held",)

    #: bytes that are counted as in work
    _held: int

    def hold(self, size: int) -> None:
        """Counts these bytes as in work, until `release`."""
        self._held += size
        in_work.add(size)

    def release(self) -> None:
        """Counts none of its bytes as in work any more."""
        if self._held:
            in_work.add(-self._held)
            self._held = 0


class Arriving(HoldsInWork):
    """The bytes of a response that has not arrived as a whole, which count as in work. account: may end
    the response; None: no account limits all responses together. end: ends the wait for more bytes with an
    error.
    """

    __slots__ = ("_account", "_end")

    def __init__(self, account: MemoryAccount | None, end: Callable[[A2AError], None]) -> None:
        self._held = 0
        self._account = account
        self._end = end

    @property
    def held(self) -> int:
        """Bytes that are counted."""
        return self._held

    def resize(self, size: int) -> None:
        """Sets the number of bytes. Raises RESOURCE_EXHAUSTED if the account is full and no other response
        that arrives is larger.
        """
        grown = size - self._held
        self.hold(grown)
        if self._account is not None and grown > 0:
            self._account.arrives(self)

    def release(self) -> None:
        super().release()
        if self._account is not None:
            self._account.arrived(self)

    def end(self, error: A2AError) -> None:
        """Ends the wait for more bytes; they count no more."""
        self.release()
        self._end(error)


class Idle(Protocol):
    """A holder of data that is not in use."""

    @property
    def idle(self) -> int:
        """Bytes of this data."""

    def give_up(self, wanted: int, /) -> None:
        """Frees at least `wanted` bytes, or all, and reports that to the account."""


class MemoryAccount:
    """The account of one store and the engine on it, or of one gateway. limit: bytes; 0 for none."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        #: bytes above which new work is rejected
        self._admits = limit - limit // 8
        self.used = 0
        #: True if the limit was exceeded when bytes were added, at any time until `exceeded` found otherwise
        self.pressed = False
        self._idle: list[Idle] = []
        self._arriving: set[Arriving] = set()
        #: bytes freed since the allocator was called last
        self._freed = 0
        self._trimmed = -_PAUSE
        self._trimming: asyncio.TimerHandle | None = None

    def holds(self, idle: Idle) -> None:
        """Registers a holder of idle data."""
        self._idle.append(idle)

    def holds_no_more(self, idle: Idle) -> None:
        """Removes a holder, if it is one."""
        if idle in self._idle:
            self._idle.remove(idle)

    def arrives(self, response: Arriving) -> None:
        """Notes that more of a response has arrived. While the limit is exceeded, the response that holds the
        most ends. Raises RESOURCE_EXHAUSTED if it is this one.
        """
        if not self.limit:
            return
        self._arriving.add(response)
        while self.exceeded and self._arriving:
            largest = max(self._arriving, key=attrgetter("held"))
            error = A2AError(Reason.RESOURCE_EXHAUSTED, _FULL, retry_after=1.0, blame=Blame.SELF)
            if largest is response:
                raise error
            largest.end(error)

    def arrived(self, response: Arriving) -> None:
        """Forgets a response, if it is known."""
        self._arriving.discard(response)

    def add(self, size: int) -> None:
        """Adds a number of bytes, which may be negative."""
        self.used += size
        if size > 0:
            if self.limit and self.used + in_work.held > self.limit:
                self._shrink(self.limit)
                self.pressed = True
            return
        self._freed -= size
        if self._freed > _MUCH and self._trimming is None:
            self._trim_later()

    def rejection(self) -> A2AError | None:
        """RESOURCE_EXHAUSTED while new work is rejected, else None."""
        if not self.limit or self.used + in_work.held <= self._admits:
            return None
        self._shrink(self._admits)
        if self.used + in_work.held <= self._admits:
            return None
        text = "the server has reached its memory limit; try again"
        return A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)

    @property
    def exceeded(self) -> bool:
        """Whether the data in use exceeds the limit."""
        if not self.limit or self.used + in_work.held <= self.limit:
            self.pressed = False
            return False
        self._shrink(self.limit)  # data may have become idle since
        self.pressed = self.used + in_work.held > self.limit
        return self.pressed

    def _shrink(self, to: int) -> None:
        for one in sorted(self._idle, key=attrgetter("idle"), reverse=True):
            surplus = self.used + in_work.held - to
            if surplus <= 0:
                return
            if one.idle:
                one.give_up(surplus)

    def _trim_later(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the store is closed after the end of the loop
        wait = max(_SOON, self._trimmed + _PAUSE - loop.time())
        self._trimming = loop.call_later(wait, self._trim)

    def _trim(self) -> None:
        self._trimming = None
        self._freed = 0
        self._trimmed = asyncio.get_running_loop().time()
        trim = _trimmer()
        if trim is not None:
            asyncio.get_running_loop().run_in_executor(None, trim, 0)


@cache
def _trimmer() -> Any:
    """The function of glibc that returns free memory to the system; None on other systems."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


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
            largest = max(self._tables, key=attrgetter("size"), default=None)
            if largest is None or not largest.size:
                return
            largest.drop_oldest()


_TABLES: WeakKeyDictionary[MemoryAccount, Tables] = WeakKeyDictionary()


class Table(Generic[K, V]):
    """Entries in LRU order. most: the limit of their number; most_bytes: of the bytes of all. on_drop: is
    called with the key and the value of each entry that goes because of a limit.
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
        """Removes the entry that goes first."""
        key = self._oldest()
        value = self.pop(key)
        if self._on_drop is not None and value is not None:
            self._on_drop(key, value)

    def _oldest(self) -> K:
        """The least recently used entry."""
        return next(iter(self._entries))

    def __del__(self) -> None:
        # Connections of an older card are dropped with their tables.
        if self.size:
            self._tables.add(-self.size)


def size_of(scope: Scope | str, *texts: str) -> int:
    """The bytes of an entry with these texts."""
    tenant, owner = (scope, "") if isinstance(scope, str) else scope
    return ENTRY + sum(map(getsizeof, (tenant, owner, *texts)))
