"""Ends runs whose output does not fit into the memory of the process. It knows no limit of single tasks.

Rules:
1. A run that adds to a full account waits until its events are written, which frees them.
2. If that is not enough, the running task that holds the most fails, then the next one. The other runs wait meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.hosting.timeouts import broken_off
from a2a_bridge.hosting.working_copy import OwnershipLostError
from a2a_bridge.memory import MemoryAccount

if TYPE_CHECKING:
    from a2a_bridge.hosting.execution import Execution

log = logging.getLogger("a2a_bridge.hosting")

FULL = "the agent's process holds as much as it may, and this task held the most"


class Pressure:
    """Of one engine. live: its executions."""

    def __init__(self, memory: MemoryAccount, live: Iterable[Execution]) -> None:
        self.memory = memory
        self._live = live
        self._ending: asyncio.Task[None] | None = None

    async def relieved(self, execution: Execution) -> None:
        """Returns when a run may go on; may end it. Raises OwnershipLostError."""
        try:
            await execution.copy.settled()
        except A2AError:
            return  # the store does not work; the run waits for it elsewhere
        while self.memory.exceeded:
            if self._ending is None:
                largest = max(filter(_runs, self._live), key=_size, default=None)
                if largest is None:
                    return
                self._ending = asyncio.create_task(_end(largest), name=f"a2a full {largest.task_id}")
                self._ending.add_done_callback(self._ended)
            await asyncio.wait({self._ending})

    def _ended(self, done: asyncio.Task[None]) -> None:
        self._ending = None
        if not done.cancelled() and done.exception() is not None:
            log.error("a run could not be ended", exc_info=done.exception())


def _runs(execution: Execution) -> bool:
    return (
        execution.current is not None
        and execution.ending is None
        and not (execution.stopping or execution.ended)
    )


def _size(execution: Execution) -> int:
    return 0 if execution.task is None else execution.task.ByteSize()


async def _end(execution: Execution) -> None:
    ticket = execution.current
    if ticket is None:
        return
    log.warning("task %s, of %d bytes: %s", execution.task_id, _size(execution), FULL)
    error = A2AError(Reason.RESOURCE_EXHAUSTED, FULL, blame=Blame.SELF)
    await asyncio.shield(execution.end(broken_off(execution, ticket, error)))
    with suppress(A2AError, OwnershipLostError):
        await execution.copy.settled()
