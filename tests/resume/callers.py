"""Callers that read in the background, and reconnect when the network works. No test."""

import asyncio
from contextlib import aclosing
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.resume.cutting import Cutter
from tests.resume.scene import Seen, numbered, read, read_until_cut, subscribing


class Caller:
    """Reads a stream; seen: its events so far."""

    def __init__(self, service: Service, call: Call[Any, Any]) -> None:
        self.seen: list[Seen] = []
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read(service, call))

    async def _read(self, service: Service, call: Call[Any, Any]) -> None:
        try:
            async with aclosing(numbered(service, call)) as events:
                async for one in events:
                    self.seen.append(one)
                    self._more.set()
        finally:
            self._more.set()

    async def has(self, number: int) -> None:
        """Waits until it has seen so many events. Raises the error of its stream if that ends before."""
        while len(self.seen) < number:
            if self._reading.done():
                await self._reading
                raise AssertionError(f"the stream ended after {len(self.seen)} events")
            self._more.clear()
            await self._more.wait()

    async def end(self) -> list[Seen]:
        """All events. Raises the error of its stream."""
        await self._reading
        return self.seen


async def found(service: Service, call: Call[Any, Any]) -> None:
    """Repeats a call until it is answered: after a cut, clients take a moment to notice it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await service.unary(call)
            except A2AError as error:
                if error.reason is not Reason.UNAVAILABLE:
                    raise
            else:
                return


async def resumed(
    service: Service, task_id: str, after: str, *, most: int = 0, cutter: Cutter | None = None
) -> list[Seen]:
    """The rest of a stream after the reconnection; after so many events it is cut again."""
    await found(service, Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), CallContext()))
    if cutter is not None:
        return await read_until_cut(service, subscribing(task_id, after), cutter, most)
    async with asyncio.timeout(PATIENCE):
        return await read(service, subscribing(task_id, after))
