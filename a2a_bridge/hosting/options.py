"""What can be chosen about an engine. Numbers only: what it works with are arguments of `Engine`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine treats its tasks. Times in seconds; 0 is off.

    patience: that a run may take to stop when it is told to; a deaf one goes on unheard. cancel_timeout: that the
    executor's `cancel` may take before that; then its run is ended without it.
    queue: how many messages may wait for a task's run to end. tasks: how many tasks of one scope may be worked on at
    once. history: how many messages a task may have before it takes no further one of its user. Each is 0 for no
    limit; more are RESOURCE_EXHAUSTED.
    run_timeout: that one run may work. silence_timeout: that a run may work without yielding anything. A run that
    takes longer is stopped, and its task fails.
    idempotent_sends: a message that is sent again, with the same id and content, is answered with what it led to the
    first time, and not worked on again. Off, because callers in the field use ids twice.
    """

    patience: float = 5.0
    cancel_timeout: float = 30.0
    queue: int = 16
    tasks: int = 10_000
    history: int = 10_000
    run_timeout: float = 0
    silence_timeout: float = 0
    idempotent_sends: bool = False


DEFAULT = EngineOptions()
