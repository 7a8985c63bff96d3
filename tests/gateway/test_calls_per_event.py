"""What one event of a stream costs in calls and resumptions. The limits are a little above the numbers of
today.
"""

import asyncio
from pathlib import Path

import pytest

from tests.calls_per_event import Count, engine, gateway
from tests.patience import PATIENCE


def check(count: Count, calls: float, resumptions: float) -> None:
    # Below these the counter itself would be broken.
    assert 5 < count.calls <= calls
    assert 2 < count.resumptions <= resumptions


@pytest.mark.parametrize(
    ("version", "resumes", "calls", "resumptions"),
    [("1.0", True, 18, 11), ("0.3", True, 23, 13.5), ("0.3", False, 23, 13)],
)
async def test_through_a_gateway(version: str, resumes: bool, calls: int, resumptions: int) -> None:
    async with asyncio.timeout(PATIENCE):
        check(await gateway(version, resumes=resumes), calls, resumptions)


async def test_on_an_engine() -> None:
    async with asyncio.timeout(PATIENCE):
        check(await engine("memory://"), 16, 5)


async def test_on_an_engine_with_a_database(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        check(await engine(f"sqlite:///{tmp_path}/tasks.db"), 26, 5.5)
