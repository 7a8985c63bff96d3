"""Runs that take too long, or say nothing for too long: they are stopped, and their tasks fail. Not a scheduler.

Rules:
1. Off unless asked for; then each run has its own times, which begin anew with the next message.
2. Silence counts only while the run is being waited for: not while the store or its readers are slow, and not while
   the task waits for somebody's input.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.hosting.clock import Timer

if TYPE_CHECKING:
    from a2a_bridge.hosting.execution import Execution
    from a2a_bridge.hosting.pending_send import PendingSend

log = logging.getLogger("a2a_bridge.hosting")

TOO_LONG = "the agent did not finish within {:g} seconds"
SILENT = "the agent said nothing for {:g} seconds"


class Watch:
    """Watches one run."""

    def __init__(self, execution: Execution, ticket: PendingSend) -> None:
        self._execution = execution
        self._ticket = ticket
        options = execution.engine.options
        self._silence = options.silence_timeout
        self._clock = execution.engine.clock
        self._silent: Timer | None = None
        self._whole: Timer | None = None
        self._over = False
        if options.run_timeout > 0:
            text = TOO_LONG.format(options.run_timeout)
            self._whole = self._clock.call_later(options.run_timeout, lambda: self._expire(text))

    def ask(self) -> None:
        """The run is waited for."""
        task = self._execution.task
        if self._silence > 0 and (task is None or task.status.state not in INTERRUPTED):
            text = SILENT.format(self._silence)
            silent = self._clock.call_later(self._silence, lambda: self._expire(text, lambda: silent))
            self._silent = silent

    def hear(self) -> None:
        """It has said something."""
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def close(self) -> None:
        """It is over."""
        self._over = True
        self.hear()
        if self._whole is not None:
            self._whole.cancel()
            self._whole = None

    def _expire(self, text: str, silent: Callable[[], Timer | None] = lambda: None) -> None:
        execution = self._execution
        if self._over or execution.stopping or silent() not in (None, self._silent):
            return  # it is over, or has said something meanwhile
        if execution.ending is not None:
            # A cancellation, which the executor may yet refuse.
            execution.ending.add_done_callback(lambda _: self._expire(text, silent))
            return
        self.close()
        log.warning("task %s: %s", execution.task_id, text)
        execution.end(broken_off(execution, self._ticket, too_late(text)))


def watch(execution: Execution, ticket: PendingSend) -> Watch | None:
    """What watches a run; None where nothing is timed."""
    options = execution.engine.options
    if options.run_timeout <= 0 and options.silence_timeout <= 0:
        return None
    return Watch(execution, ticket)


def too_late(text: str) -> A2AError:
    """The answer where there is no task yet that could fail."""
    return A2AError(Reason.DEADLINE_EXCEEDED, text, blame=Blame.SELF)


async def broken_off(execution: Execution, ticket: PendingSend, error: A2AError) -> None:
    """Stops a run. Its task fails with the error's text; where there is no task yet, the callers get the error."""
    ticket.run.cancel()
    execution.stopping = True
    await execution.halt()
    if execution.task is None:
        execution.copy.shut()
        ticket.said = None
        execution.give_up(error)
        ticket.end()  # a deaf run goes on, but whoever sends the message again need not wait for it
    else:
        execution.fail(error.message)
