"""Batches of a stream: events that are ready together are sent together. For the HTTP hosts.

`run_flushing` sends the written data at the moment when the writer has to wait, so that no event is delayed.
A writer that never waits keeps to the bounds of number, size and time here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

BATCH_EVENTS = 16
BATCH_BYTES = 16 * 1024
#: longest delay of events from a writer that never waits (seconds)
BATCH_TIME = 0.005


class Flushed(Protocol):
    """A writer of messages."""

    parts: list[bytes]

    async def flush(self) -> None:
        """Sends `parts` and empties it."""
        ...


@coroutine
def run_flushing(work: Coroutine[Any, Any, T], out: Flushed) -> Generator[Any, Any, T]:
    """Runs `work` in this task. Before it waits, the data that it has written to `out` is sent."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        value = error = None
        try:
            if out.parts:
                yield from out.flush().__await__()
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001  raised again inside `work`
            error = raised
            if isinstance(raised, asyncio.CancelledError) and asyncio.isfuture(waits_for):
                waits_for.cancel()  # as the task does with the future that it waits for
