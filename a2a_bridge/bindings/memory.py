"""One account of the memory of a hosted agent or a gateway. Holders report their own sizes.

Rules:
1. Sizes are those of serialized messages: an estimate, below the memory of the process. Large requests and
   responses in work count in every account.
2. Above the limit, idle data is freed first, from the largest holder: it is in the store, or no longer
   needed.
3. The rest is in use. New work is rejected above 7/8 of the limit, so that running work can finish. Above the
   limit runs wait or fail (see `pressure`), and of the responses that arrive, the largest ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from a2a_bridge.core.errors import A2AError, Blame, Reason

#: freed bytes after which the allocator returns memory to the system; delay and minimal interval in seconds
_MUCH, _SOON, _PAUSE = 32 << 20, 1.0, 5.0

_FULL = "the server has reached its memory limit, and this response of the agent held the most"


class InWork:
    """Bytes of large documents in work: requests until they are answered, responses until they are sent.

    Servers and clients count them; every account includes them.
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
    """The bytes of a response that has not arrived as a whole. They count as in work.

    account: may have a response ended; None: nothing limits them together. end: ends the wait for more bytes
    with an error.
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
        """Sets the number of bytes. Raises RESOURCE_EXHAUSTED if the account is full and this response holds
        the most of those that arrive.
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
        ...

    def give_up(self, wanted: int, /) -> None:
        """Frees at least `wanted` bytes, or all, and reports that to the account."""
        ...


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
            largest = max(self._arriving, key=_held_of)
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
        for one in sorted(self._idle, key=_idle_of, reverse=True):
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


def _held_of(one: Arriving) -> int:
    return one.held


def _idle_of(one: Idle) -> int:
    return one.idle


@cache
def _trimmer() -> Any:
    """The function of glibc that returns free memory to the system; None on other systems."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
