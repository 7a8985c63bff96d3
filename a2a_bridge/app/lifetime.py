"""A context that is entered and left in a task of its own, from `start` to `close`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any


class Lifetime:
    """Keeps the context of a server open from `start` to `close`. serve: opens something that drains, such as
    a `Server`. An ASGI server may start and stop an application in different tasks, and a context is left in
    the task that entered it: so one task enters it, waits for the end, and leaves it.
    """

    def __init__(self, serve: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._serve = serve
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None
        self._end: asyncio.Event | None = None

    async def start(self) -> Any:
        """Opens the context unless it is open, and returns what it gives. Raises its errors; a further call
        tries again.
        """
        if self._ready is None or self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._end = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._ready, self._end))
        # Shielded, because the first request may be cancelled while others wait, too.
        return await asyncio.shield(self._ready)

    async def close(self, grace: float) -> None:
        """Drains the server within `grace` seconds and leaves the context. May be called without a start."""
        task, ready, end = self._task, self._ready, self._end
        if task is None or ready is None or end is None:
            return
        try:
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                await ready.result().drain(grace)
        finally:  # also after a failed drain
            end.set()
            await asyncio.wait([task])

    async def _run(self, ready: asyncio.Future[Any], end: asyncio.Event) -> None:
        try:
            async with self._serve() as server:
                ready.set_result(server)
                await end.wait()
        except BaseException as error:
            if ready.done():
                raise
            if isinstance(error, asyncio.CancelledError):
                ready.cancel()
                raise
            ready.set_exception(error)
