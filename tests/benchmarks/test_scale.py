"""The work of each dimension at two small sizes: lines of our code that are run, not time.

Client and servers are in one process here, so the lines of both count.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchmarks.scale.dimension import Dimension, exponent
from benchmarks.scale.rows import ROWS
from tests.lines import counted_lines
from tests.patience import PATIENCE
from tests.postgres import need_postgres

#: by how much an exponent may be above the expected one: a square is 1 above
NOISE = 0.25


class Window:
    """Counts what is done inside."""

    def __init__(self) -> None:
        self.count = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        with counted_lines() as lines:
            yield
        self.count = lines.count


async def work(dimension: Dimension, size: int) -> int:
    """The lines of the work of a dimension."""
    window = Window()
    if dimension.load is None:
        async with window(), dimension.server(size):
            pass
        return window.count
    async with dimension.server(size) as addresses:
        await dimension.load(addresses, size, window)
    return window.count


@pytest.mark.parametrize(
    "row", [one for one in ROWS if one.small], ids=lambda one: f"{one.title}: {one.work}"
)
async def test_work_grows_as_expected(row: Dimension) -> None:
    assert row.small is not None
    if "PostgreSQL" in row.title:
        need_postgres()
    async with asyncio.timeout(PATIENCE):
        counts = [await work(row, size) for size in row.small]
    assert min(counts) > 0
    assert exponent(row.small, counts) <= row.expected + NOISE, dict(zip(row.small, counts, strict=True))


def test_the_exponent_is_the_power() -> None:
    for power in (0.0, 0.5, 1.0, 2.0):
        assert math.isclose(
            exponent((10, 100, 1_000), [7 * size**power for size in (10, 100, 1_000)]), power, abs_tol=1e-9
        )
