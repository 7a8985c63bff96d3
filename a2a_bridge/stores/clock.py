"""The clock of hosting, which tests replace. Not a scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from a2a_bridge.core.event_log import Timer


class Clock(Protocol):
    """Wall clock and timers."""

    def now(self) -> int:
        """Nanoseconds since the epoch. Timestamps are cut to microseconds where they are made."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Calls `callback` on the running loop after that many seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.time_ns)

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
