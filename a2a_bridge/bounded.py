"""Waiting for a service no longer than a limit: for an answer, and for each event of a stream. It sets no
limit.

Rules:
1. Of a stream only the waits for events are bounded, so that the time of its reader does not count.
2. A timeout that is the service's own is passed on as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from a2a_bridge.core.errors import A2AError

T = TypeVar("T")


async def answered(answer: Awaitable[T], bound: asyncio.Timeout, late: Callable[[], A2AError]) -> T:
    """The result of an awaitable. Raises `late()` if the bound passes first."""
    try:
        async with bound:
            return await answer
    except TimeoutError:
        if bound.expired():
            raise late() from None
        raise


async def streamed(
    events: AsyncGenerator[T, None], bound: Callable[[], asyncio.Timeout], late: Callable[[], A2AError]
) -> AsyncGenerator[T, None]:
    """The events of a stream, each awaited within a new `bound()`. Raises `late()` when one has passed."""
    async with aclosing(events):
        while True:
            # A timeout around the yield would cancel the reader.
            limit = bound()
            try:
                async with limit:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if limit.expired():
                    raise late() from None
                raise
            yield event
