"""When expired data is deleted: what has expired, and a task that has it deleted now and then.

With several processes each does this. Two that delete the same rows delete them once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from a2a_bridge.core.errors import A2AError
from a2a_bridge.stores.options import StoreOptions
from a2a_bridge.stores.records import Expiry

log = logging.getLogger("a2a_bridge.store")

#: seconds between two rounds
_ROUND = 600.0


class Janitor:
    """Runs every ten minutes. delete: deletes what has expired."""

    def __init__(self, delete: Callable[[Expiry], Awaitable[None]], options: StoreOptions) -> None:
        self._delete = delete
        self._options = options
        self._task: asyncio.Task[None] | None = None

    async def round(self) -> None:
        """Deletes what has expired. Raises UNAVAILABLE if the store does not work."""
        options = self._options
        await self._delete(Expiry(options.sends_kept, options.events_kept, options.tasks_kept))

    def start(self) -> None:
        """Starts, with a round at once, unless it has started. Raises RuntimeError without a loop."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._work(), name="a2a store janitor")

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while True:
            try:
                await self.round()
            except A2AError:
                log.debug("the clean-up is retried later: the store does not work")
            except Exception:
                log.exception("the clean-up has failed, and is retried later")
            await asyncio.sleep(_ROUND)
