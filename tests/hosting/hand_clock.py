"""A clock that a test advances by hand."""

import asyncio
from collections.abc import Callable

from a2a_bridge.core.event_log import Timer


class HandClock:
    """Implements Clock. timers: the callbacks, each with its delay in seconds."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.asked = asyncio.Event()

    def now(self) -> int:
        return 1_700_000_000_000_000_000

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        self.timers.append((seconds, callback))
        self.asked.set()
        return _HandTimer(self, callback)

    def strike(self, seconds: float | None = None) -> None:
        """Runs the callbacks with this delay in seconds; all if None."""
        for each, callback in self.timers[:]:
            if seconds is None or each == seconds:
                callback()


class _HandTimer:
    def __init__(self, clock: HandClock, callback: Callable[[], None]) -> None:
        self._clock, self._callback = clock, callback

    def cancel(self) -> None:
        self._clock.timers = [one for one in self._clock.timers if one[1] is not self._callback]
