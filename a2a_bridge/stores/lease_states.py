"""The states of a lease in a store, and which one may follow which. Docs and tests read the same table."""

from enum import StrEnum


class LeaseState(StrEnum):
    """What becomes of a lease in the store. The values are for error messages."""

    #: this process holds the task, or gets it with the first write
    HELD = "held"
    #: the last change releases it
    RELEASED = "released"
    #: the task has ended, and the write of its end releases it
    ENDED = "ended"
    #: another lease of this process has the task; the owner is told in a moment
    TAKEN = "taken"
    #: another process owns the task, and the owner of the lease knows it: there are no changes any more
    LOST = "lost"


#: state -> the states that may follow it
TRANSITIONS: dict[LeaseState, frozenset[LeaseState]] = {
    LeaseState.HELD: frozenset({LeaseState.RELEASED, LeaseState.ENDED, LeaseState.TAKEN, LeaseState.LOST}),
    LeaseState.RELEASED: frozenset({LeaseState.LOST}),
    LeaseState.ENDED: frozenset({LeaseState.RELEASED, LeaseState.LOST}),
    LeaseState.TAKEN: frozenset({LeaseState.LOST}),
    LeaseState.LOST: frozenset(),
}

HELD, RELEASED, ENDED, TAKEN, LOST = LeaseState  # to read a member of an Enum takes Python 3.11 long
#: states in which another lease has the task, so that there are no changes any more
GONE = frozenset({TAKEN, LOST})
