"""How long the demo waits: each step has a limit, and what was begun together ends together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class TooSlow(Exception):  # noqa: N818  a plain word for the output
    """A step has reached its limit, in seconds."""

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(step)
        self.step = step
        self.seconds = seconds


@asynccontextmanager
async def within(seconds: float, step: str) -> AsyncIterator[None]:
    """Bounds a step. Raises TooSlow."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise TooSlow(step, seconds) from None
        raise


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of work at the same time.

    After an error the others are cancelled, and have ended when the error is raised: nothing is left open.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await ended(*tasks)


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks, and waits for their end."""
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
