"""Time limits of one run: its whole duration, and silence between two events. It stops nothing itself.

Rules:
1. Both limits are off by default. Each run has its own, and they start anew with the next message.
2. Silence counts only while the engine waits for the executor: not while the store is slow, nor while the
   task waits for input.
"""

from __future__ import annotations

from collections.abc import Callable

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.event_log import Timer
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock

TOO_LONG = "the agent did not finish within {:g} seconds"
SILENT = "the agent said nothing for {:g} seconds"


class RunTimer:
    """Measures one run. on_expired: called when a limit has passed."""

    _silent: Timer | None = None
    _whole: Timer | None = None
    _is_silent = _is_late = False

    def __init__(self, clock: Clock, options: EngineOptions, on_expired: Callable[[RunTimer], None]) -> None:
        self._clock = clock
        self._options = options
        self._on_expired = on_expired
        if options.run_timeout > 0:
            self._whole = clock.call_later(options.run_timeout, self._expire_whole)

    @property
    def expired(self) -> str:
        """The text for the caller if a limit has passed and the run has not gone on since; else empty."""
        if self._is_late:
            return TOO_LONG.format(self._options.run_timeout)
        return SILENT.format(self._options.silence_timeout) if self._is_silent else ""

    def ask(self, task: hub.Task | None) -> None:
        """The engine waits for the next event of the executor."""
        limit = self._options.silence_timeout
        if limit > 0 and (task is None or task.status.state not in INTERRUPTED):
            self._silent = self._clock.call_later(limit, self._expire_silent)

    def on_event(self) -> None:
        """The executor has yielded an event."""
        self._is_silent = False
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def close(self) -> None:
        """The run is over."""
        self.on_event()
        self._is_late = False
        if self._whole is not None:
            self._whole.cancel()
            self._whole = None

    def _expire_whole(self) -> None:
        self._is_late = True
        self._on_expired(self)

    def _expire_silent(self) -> None:
        self._is_silent = True
        self._on_expired(self)


def too_late(text: str) -> A2AError:
    """The response if there is no task that could fail."""
    return A2AError(Reason.DEADLINE_EXCEEDED, text, blame=Blame.SELF)
