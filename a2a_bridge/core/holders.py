"""Errors about the holder of a task: the process with the right to write it."""

from __future__ import annotations

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub


class OwnerLostError(A2AError):
    """The called replica is dead, or no longer holds the lease on the task.

    To callers: UNAVAILABLE.
    """

    def __init__(self) -> None:
        text = "the replica that worked on the task is gone; try again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)


class NotOwnerError(A2AError):
    """Another live replica works on the task, or on the message. To callers: UNAVAILABLE."""

    def __init__(self, holder: str, task: hub.Task | None = None) -> None:
        text = "the task is worked on by another replica"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
        #: the replica that works on it
        self.holder = holder
        #: the task as it was when this was found; None for a message that has not led to a task yet
        self.task = task


class ClosingError(A2AError):
    """The engine closes. To callers: UNAVAILABLE."""


def closing_error() -> A2AError:
    """The response to new work while the engine closes."""
    return ClosingError(Reason.UNAVAILABLE, "the agent is being stopped", blame=Blame.SELF)


def changed_hands_error() -> A2AError:
    """The response if another process has just taken the task."""
    text = "the task was changed meanwhile; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
