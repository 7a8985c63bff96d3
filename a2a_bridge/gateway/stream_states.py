"""The states of a gateway's streams, and which one may follow which. Docs and tests read the same tables."""

from enum import StrEnum


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
    #: the gateway needs the stream no more; its readers, if there are any, get an error
    GIVEN_UP = "given up"


#: state of a reading -> the states that may follow it
READINGS: dict[Reading, frozenset[Reading]] = {
    Reading.OPENING: frozenset({Reading.OPEN, Reading.ENDED, Reading.GIVEN_UP}),
    Reading.OPEN: frozenset({Reading.ENDED, Reading.FAILED, Reading.GIVEN_UP}),
    Reading.ENDED: frozenset(),
    Reading.FAILED: frozenset(),
    Reading.GIVEN_UP: frozenset(),
}

OPENING, OPEN, ENDED, FAILED, GIVEN_UP = Reading  # to read a member of an Enum takes Python 3.11 long
