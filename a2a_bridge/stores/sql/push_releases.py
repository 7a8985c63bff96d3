"""Configs that this replica has released, for a later look: a notification that another replica was adding at
that moment is for nobody else (see `push`).

Each one is looked at soon after, when most transactions have ended, and once more. It reads no rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: seconds from the release to the first look, and from there to the second
SOON, LATER = 0.25, 5.0
#: the most configs that wait for either look
MOST = 500

#: task and config, as in rows
Line = tuple[str, str]


class Releases:
    """now: seconds on a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: with the time of the look
        self._first: deque[tuple[float, Line]] = deque()
        self._second: deque[tuple[float, Line]] = deque()

    def put(self, line: Line) -> bool:
        """A config is released. Returns False if too many wait: this one will not be looked at."""
        if len(self._first) >= MOST:
            return False
        self._first.append((self._now() + SOON, line))
        return True

    @property
    def next_look(self) -> float:
        """When the next first look is due; a second one may be late."""
        return self._first[0][0] if self._first else float("inf")

    def take(self) -> list[Line]:
        """The configs to look at now."""
        now = self._now()
        second = _take(self._second, now)
        first = _take(self._first, now)
        self._second += [(now + LATER, line) for line in first[: MOST - len(self._second)]]
        return first + second


def _take(looks: deque[tuple[float, Line]], now: float) -> list[Line]:
    found = []
    while looks and looks[0][0] <= now:
        found.append(looks.popleft()[1])
    return found
