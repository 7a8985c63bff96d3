"""A fair share of the event loop for runs that begin. It knows no run.

Rules:
1. A run begins in a turn of the loop in which those before it have left time. Otherwise it waits for its
   place in a queue, which one run leaves in each turn: hundreds that begin together, each with long work
   before its first wait, would delay probes, signals and all other calls by the sum of it.
2. A run that has begun is not held up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic

#: a share: seconds of one turn in which further runs may begin
_SHARE = 0.005


class Turns:
    """The turns of the running loop, as one engine uses them."""

    __slots__ = ("_began", "_ending", "_queue")

    def __init__(self) -> None:
        #: when the present share began
        self._began = 0.0
        #: True until the end of the turn in which it began
        self._ending = False
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def spent(self) -> bool:
        """True if the next run has to wait in `next`. To be asked at the begin of each run.

        The end of a turn is watched once for each share, and not for each run, which would cost seven frames.
        So a share that began in an earlier turn can pass, and a turn has two shares at most.
        """
        if monotonic() - self._began > _SHARE:
            if self._ending:
                return True
            self._begin()
        return bool(self._queue)

    async def next(self) -> None:
        """Waits for a turn in which the caller may begin."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        if not self._ending:
            self._begin()
        await place

    def _begin(self) -> None:
        self._ending = True
        self._began = monotonic()
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._ending = False
        queue = self._queue
        while queue:
            place = queue.popleft()
            if not place.done():  # else its caller has left
                place.set_result(None)
                break
        if queue:
            self._begin()  # and so its end comes after the run that leaves now
