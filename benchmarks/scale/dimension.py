"""A quantity that can grow, such as the tasks of a store: the work for three sizes, and its expected growth.

The cost is CPU time of the process with the servers, never wall time; the load is another process. The
exponent is the slope of a line, by least squares, through the logarithms of numbers and costs: 0 for a cost
that does not grow, 1 for one that is proportional, 2 for a square.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.measured import Measured, Spent

#: by how much a measured exponent may be above the expected one
NOISE = 0.2
#: seconds in which a load or the start of a server ends
PATIENCE = 180.0


class Window(Protocol):
    """A context: the work inside is measured."""

    def __call__(self) -> AbstractAsyncContextManager[None]: ...


Server = Callable[[int], AbstractAsyncContextManager[Any]]
Load = Callable[[Any, int, Window], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One row.

    title: the quantity. work: the measured work. sizes: three sizes of the quantity. expected: the largest
    exponent of the cost. server: opens the servers for a size, and gives their addresses; a function of a
    module. load: does the work; None: the opening of the servers is the work. memory: the largest exponent of
    the memory of the work; None: the table does not have it. small: two sizes for which a test counts the
    work.
    """

    title: str
    work: str
    sizes: tuple[int, int, int]
    expected: float
    server: Server
    load: Load | None
    memory: float | None = None
    small: tuple[int, int] | None = (50, 200)


async def spent(dimension: Dimension, size: int) -> Spent:
    """The cost of the work for one size. Raises RuntimeError or TimeoutError if the work does not end."""
    process = await asyncio.to_thread(
        Measured, f"{dimension.title}: {size}", dimension.server, size, patience=PATIENCE
    )
    found = process.opening

    @asynccontextmanager
    async def window() -> AsyncIterator[None]:
        nonlocal found
        process.begin()
        yield
        found = process.end()

    try:
        if dimension.load is not None:
            async with asyncio.timeout(PATIENCE):
                await dimension.load(process.addresses, size, window)
    finally:
        await asyncio.to_thread(process.stop)
    return found


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of the logarithms of costs over those of sizes."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(cost, 1e-9)) for cost in costs]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)
