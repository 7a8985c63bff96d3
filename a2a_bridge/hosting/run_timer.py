"""Time limits of one run: its whole duration, and silence between two events. It stops nothing itself.

Rules:
1. Both limits are off by default. Each run has its own, and they start anew with the next message.
2. Silence counts only while the engine waits for the executor: not while the store is slow, nor while the
   task waits for input.
"""

from __future__ import annotations

from collections.abc import Callable

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.hosting.clock import Clock, Timer
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.pb import lf_a2a_v1 as hub

TOO_LONG = "the agent did not finish within {:g} seconds"
SILENT = "the agent said nothing for {:g} seconds"

#: called with the text for the caller and with a function that is False once the run went on or ended
Expired = Callable[[str, Callable[[], bool]], None]


class RunTimer:
    """Measures one run."""

    def __init__(self, clock: Clock, options: EngineOptions, expired: Expired) -> None:
        self._clock = clock
        self._expired = expired
        self._silence = options.silence_timeout
        self._silent: Timer | None = None
        self._whole: Timer | None = None
        self._over = False
        if options.run_timeout > 0:
            text = TOO_LONG.format(options.run_timeout)
            self._whole = clock.call_later(options.run_timeout, lambda: expired(text, lambda: not self._over))

    def ask(self, task: hub.Task | None) -> None:
        """The engine waits for the next event of the executor."""
        if self._silence > 0 and (task is None or task.status.state not in INTERRUPTED):
            text = SILENT.format(self._silence)

            def expire() -> None:
                self._expired(text, lambda: not self._over and self._silent is silent)

            silent = self._silent = self._clock.call_later(self._silence, expire)

    def hear(self) -> None:
        """The executor has yielded an event."""
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def close(self) -> None:
        """The run is over."""
        self._over = True
        self.hear()
        if self._whole is not None:
            self._whole.cancel()
            self._whole = None


def too_late(text: str) -> A2AError:
    """The answer if there is no task that could fail."""
    return A2AError(Reason.DEADLINE_EXCEEDED, text, blame=Blame.SELF)
