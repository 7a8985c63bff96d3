"""The memory that a hosted agent or a gateway takes, in one account. Holders count themselves; nothing is held here.

Rules:
1. Sizes are those of serialized messages, which are known anyway: an estimate, and somewhat less than the process takes.
   Large requests and answers that are in work count, too, in every account.
2. Above the limit idle things go first, from where most of them are: they are in the store, or not needed any more.
3. The rest is in use. New work is refused while it takes more than 7/8 of the limit, so that the work under way has room to
   end. Above the limit runs wait or end; see `pressure`.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from functools import cache
from typing import Any, Protocol

from a2a_bridge.core.errors import A2AError, Reason

#: bytes that have to become free before the allocator is asked to give memory back; seconds until then, and from one
#: time to the next
_MUCH, _SOON, _PAUSE = 32 << 20, 1.0, 5.0


class InWork:
    """Bytes of large documents that this process works on: requests until they are answered, answers until they are sent.

    Servers and clients count them; every account includes them.
    """

    def __init__(self) -> None:
        self.held = 0

    def add(self, size: int) -> None:
        """Notes that so many bytes more are in work; fewer where it is negative."""
        self.held += size


in_work = InWork()


class Idle(Protocol):
    """Something that holds what nobody uses at present."""

    @property
    def idle(self) -> int:
        """How many bytes that is."""
        ...

    def give_up(self, wanted: int, /) -> None:
        """Frees at least so many bytes of it, as far as there are so many, and says so to the account."""
        ...


class MemoryAccount:
    """The account of one store and the engine on it, or of one gateway. limit: bytes; 0 for none."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        #: bytes above which new work is refused
        self._admits = limit - limit // 8
        self.used = 0
        self._idle: list[Idle] = []
        #: bytes that became free since the allocator was asked last
        self._freed = 0
        self._trimmed = -_PAUSE
        self._trimming: asyncio.TimerHandle | None = None

    def holds(self, idle: Idle) -> None:
        """Asks `idle` to give up things when there is too much."""
        self._idle.append(idle)

    def add(self, size: int) -> None:
        """Notes that so many bytes more are held; fewer where it is negative."""
        self.used += size
        if size > 0:
            if self._taken > self.limit > 0:
                self._shrink(self.limit)
            return
        self._freed -= size
        if self._freed > _MUCH and self._trimming is None:
            self._trim_later()

    def refusal(self) -> A2AError | None:
        """Why no new work can be taken: RESOURCE_EXHAUSTED; None while it can."""
        if self._taken <= self._admits or not self.limit:
            return None
        self._shrink(self._admits)
        if self._taken <= self._admits:
            return None
        text = "the server holds as much as it may in memory; try again"
        return A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)

    @property
    def exceeded(self) -> bool:
        """Whether what is in use takes more than the limit."""
        if self._taken <= self.limit or not self.limit:
            return False
        self._shrink(self.limit)  # something may have become idle since
        return self._taken > self.limit

    @property
    def _taken(self) -> int:
        return self.used + in_work.held

    def _shrink(self, to: int) -> None:
        for one in sorted(self._idle, key=_idle_of, reverse=True):
            surplus = self._taken - to
            if surplus <= 0:
                return
            if one.idle:
                one.give_up(surplus)

    def _trim_later(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # whoever closes the store when the loop has ended
        wait = max(_SOON, self._trimmed + _PAUSE - loop.time())
        self._trimming = loop.call_later(wait, self._trim)

    def _trim(self) -> None:
        self._trimming = None
        self._freed = 0
        self._trimmed = asyncio.get_running_loop().time()
        trim = _trimmer()
        if trim is not None:
            asyncio.get_running_loop().run_in_executor(None, trim, 0)


def _idle_of(one: Idle) -> int:
    return one.idle


@cache
def _trimmer() -> Any:
    """What gives free memory back to the system, where the C library has that: glibc keeps it otherwise."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
