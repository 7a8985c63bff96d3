"""The states of the writer of groups, and which one may follow which. Docs and tests read the same table."""

import asyncio
from dataclasses import dataclass, field

from a2a_bridge.stores.lease import Group


class Idle:
    """Nothing waits to be written."""


@dataclass(slots=True)
class Gathering:
    """Changes wait for others, at most for `commit_delay`, and no caller waits. timer: at the end of that."""

    timer: asyncio.Handle


@dataclass(slots=True)
class Due:
    """A caller waits: all that is queued in this turn of the loop is written in the next. timer: for that."""

    timer: asyncio.Handle


@dataclass(slots=True)
class _OfGroup:
    """A state with a group. group: its changes. failures: attempts to write it that have failed. next_is_due:
    True if a caller waits for the group after this one.
    """

    group: Group
    failures: int
    next_is_due: bool


@dataclass(slots=True)
class Writing(_OfGroup):
    """The driver writes a group. sent: since when, on the clock of the loop. looks: seconds since then that a
    busy loop has seen, which may learn late of the end. task: writes the group.
    """

    sent: float
    looks: int = 0
    task: asyncio.Task[None] = field(init=False)


@dataclass(slots=True)
class Pausing(_OfGroup):
    """A group could not be written, and is written again after a pause. timer: at the end of that."""

    timer: asyncio.Handle


WriterState = Idle | Gathering | Due | Writing | Pausing

#: state -> the states that may follow it
TRANSITIONS: dict[type[WriterState], frozenset[type[WriterState]]] = {
    Idle: frozenset({Gathering, Due, Writing}),
    Gathering: frozenset({Due, Writing, Idle}),
    Due: frozenset({Writing, Idle}),
    Writing: frozenset({Idle, Pausing}),
    Pausing: frozenset({Writing}),
}
