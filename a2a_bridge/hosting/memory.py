"""What a hosted agent holds in memory, in one account: what is held counts itself. Nothing here is held.

Rules:
1. Sizes are those of serialized messages, which are known anyway: an estimate, and somewhat less than the process takes.
2. Above the limit whoever holds the most of what is idle gives up idle things first: they are in the store, or may go.
3. What is still above it then is in use. No new work is taken until less is; what is under way goes on.
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
    """The account of one store, and of the engine on it. limit: bytes; 0 for none."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
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
            if self.used > self.limit > 0:
                self._shrink()
            return
        self._freed -= size
        if self._freed > _MUCH and self._trimming is None:
            self._trim_later()

    def refusal(self) -> A2AError | None:
        """Why no new work can be taken: RESOURCE_EXHAUSTED; None while it can."""
        if self.used <= self.limit or not self.limit:
            return None
        self._shrink()  # something may have become idle since
        if self.used <= self.limit:
            return None
        text = "the agent's process holds as much as it may; try again"
        return A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)

    def _shrink(self) -> None:
        for one in sorted(self._idle, key=_idle_of, reverse=True):
            surplus = self.used - self.limit
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
