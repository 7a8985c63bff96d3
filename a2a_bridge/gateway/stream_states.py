"""The states of a gateway's streams, and which one may follow which. Docs and tests read the same tables."""

from enum import StrEnum


class Life(StrEnum):
    """The state of a stream that a gateway keeps. The values are for error messages."""

    #: it has readers, and callers may join it
    READ = "read"
    #: it has readers, and no caller may join it: a newer stream replaces it, or it has events of another task
    DETACHED = "detached"
    #: it has no readers, and the agent's stream stays open for a while, because the agent cannot resume it
    LINGERING = "lingering"
    #: it has no readers, and only its log is kept
    PARKED = "parked"
    #: it is not kept any more
    GONE = "gone"


#: life of a stream -> the lives that may follow it
LIVES: dict[Life, frozenset[Life]] = {
    Life.READ: frozenset({Life.DETACHED, Life.LINGERING, Life.PARKED, Life.GONE}),
    Life.DETACHED: frozenset({Life.GONE}),
    Life.LINGERING: frozenset({Life.READ, Life.PARKED, Life.GONE}),
    Life.PARKED: frozenset({Life.READ, Life.GONE}),
    Life.GONE: frozenset(),
}

READ, DETACHED, LINGERING, PARKED, GONE = Life  # to read a member of an Enum takes Python 3.11 long


class Reading(StrEnum):
    """The state of one run of reading from the agent. The values are for error messages."""

    #: its asyncio task has not taken its first step
    OPENING = "opening"
    #: events are read, or the agent is subscribed to again after a break
    OPEN = "open"
    #: the agent ended the stream, or its task is over
    ENDED = "ended"
    #: readers got an error of the agent, or all attempts to subscribe again failed
    FAILED = "failed"
    #: the gateway needs the agent's stream no more; readers, if there are any, get an error
    GIVEN_UP = "given up"


#: state of a reading -> the states that may follow it
READINGS: dict[Reading, frozenset[Reading]] = {
    Reading.OPENING: frozenset({Reading.OPEN, Reading.GIVEN_UP}),
    Reading.OPEN: frozenset({Reading.ENDED, Reading.FAILED, Reading.GIVEN_UP}),
    Reading.ENDED: frozenset(),
    Reading.FAILED: frozenset(),
    Reading.GIVEN_UP: frozenset(),
}

OPENING, OPEN, ENDED, FAILED, GIVEN_UP = Reading  # see above
