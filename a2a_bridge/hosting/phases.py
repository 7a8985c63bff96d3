"""The phases of a task's run: which phase may follow which.

Rules:
1. All transitions are in TRANSITIONS; docs and tests read the same table.
2. LOST and OVER are final for the executor: it never runs again in this process.
3. A phase is the present work of the task run, independent of the state of the A2A task (`core.lifecycle`).
"""

from enum import StrEnum

from a2a_bridge.core.errors import IllegalStateError


class Phase(StrEnum):
    """The present work of a task run. The values are for logs and error messages."""

    #: no run is active; the next message starts one
    IDLE = "idle"
    #: the executor works on a message
    WORKING = "working"
    #: the same, while the push config that came with the message is stored; the sender cannot abandon it now
    REGISTERING = "registering"
    #: the executor's `cancel` runs, beside its `execute` or alone; it may reject
    CANCELING = "canceling"
    #: the run was stopped for good, by a cancellation, a timeout, the engine's close, or a lack of senders
    ENDING = "ending"
    #: the task is left at work, with its lease, for another process to resume
    HANDED_OVER = "handed over"
    #: another process owns the task; the waiting senders get what it makes of the task
    LOST = "lost"
    #: the lease is released and nothing happens any more
    OVER = "over"


#: phase -> the phases that may follow it
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.WORKING, Phase.CANCELING, Phase.ENDING, Phase.LOST, Phase.OVER}),
    Phase.WORKING: frozenset({Phase.IDLE, Phase.REGISTERING, Phase.CANCELING, Phase.ENDING, Phase.LOST}),
    Phase.REGISTERING: frozenset({Phase.WORKING, Phase.ENDING, Phase.LOST}),
    Phase.CANCELING: frozenset({Phase.IDLE, Phase.WORKING, Phase.ENDING, Phase.LOST}),
    Phase.ENDING: frozenset({Phase.HANDED_OVER, Phase.LOST, Phase.OVER}),
    Phase.HANDED_OVER: frozenset({Phase.LOST, Phase.OVER}),
    Phase.LOST: frozenset({Phase.OVER}),
    Phase.OVER: frozenset(),
}

#: the phases of each run: to read a member of an Enum takes Python 3.11 as long as three calls
IDLE, WORKING, HANDED_OVER, OVER = Phase.IDLE, Phase.WORKING, Phase.HANDED_OVER, Phase.OVER

#: phases in which no run starts any more
STOPPED = frozenset({Phase.ENDING, Phase.HANDED_OVER, Phase.LOST, Phase.OVER})


class RunPhase:
    """The phase of one task run."""

    #: the present phase: read by the parts of a task run, changed by `to` only
    now: Phase = Phase.IDLE
    #: True if no run starts any more; changed by `to` only
    stopped = False

    def to(self, phase: Phase) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if phase not in TRANSITIONS[self.now]:
            raise IllegalStateError("a task run", self.now, phase)
        self.now = phase
        self.stopped = phase in STOPPED

    def to_ending(self) -> None:
        """No run starts any more, unless that is so already."""
        if not self.stopped:
            self.to(Phase.ENDING)
