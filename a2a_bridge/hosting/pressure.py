"""Ends runs whose output does not fit into the memory of the process. It knows no limit of single tasks.

Rules:
1. A run that adds to a full memory account waits until its events are written, which frees memory.
2. If that is not enough, the running task that holds the most fails, then the next one. The other runs wait
   meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Protocol

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import A2AError, Blame, Reason

log = logging.getLogger("a2a_bridge.hosting")

#: seconds after which the measuring of tasks lets other work run
_TURN = 0.005

FULL = "the agent's process holds as much as it may, and this task held the most"


class MemoryUser(Protocol):
    """The part of a task run that memory pressure concerns."""

    task_id: str

    @property
    def running(self) -> bool:
        """True if a run is active and nothing ends it."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the task."""
        ...

    async def wait_settled(self) -> None:
        """Returns when everything is durable. Raises A2AError."""
        ...

    async def break_off(self, error: A2AError, /) -> None:
        """Ends the present run with an error. Raises A2AError UNAVAILABLE."""
        ...


class Pressure:
    """The memory pressure of one engine. live: its task runs."""

    def __init__(self, memory: MemoryAccount, live: Iterable[MemoryUser]) -> None:
        self.memory = memory
        self._live = live
        self._ending: asyncio.Task[None] | None = None

    async def relieve(self, user: MemoryUser) -> None:
        """Returns when a run may continue; may end it."""
        try:
            await user.wait_settled()
        except A2AError:
            return  # the store does not work, or the task is lost: the run finds out by itself
        while self.memory.exceeded:
            if self._ending is None:
                if not any(one.running for one in self._live):
                    return
                self._ending = asyncio.create_task(self._end_largest(), name="a2a memory pressure")
                self._ending.add_done_callback(self._on_end)
            await asyncio.wait({self._ending})

    async def _end_largest(self) -> None:
        largest: MemoryUser | None = None
        most = -1
        began = monotonic()
        for user in list(self._live):
            # To measure a task is to serialize it: hundreds of large ones would block the loop for seconds.
            if user.running and (size := user.size) > most:
                largest, most = user, size
            if monotonic() - began > _TURN:
                await asyncio.sleep(0)
                began = monotonic()
        if largest is None or not largest.running:
            return
        log.warning("task %s, of %d bytes: %s", largest.task_id, most, FULL)
        with suppress(A2AError):
            await largest.break_off(A2AError(Reason.RESOURCE_EXHAUSTED, FULL, blame=Blame.SELF))

    def _on_end(self, done: asyncio.Task[None]) -> None:
        self._ending = None
        if not done.cancelled() and done.exception() is not None:
            log.error("a run could not be ended", exc_info=done.exception())
