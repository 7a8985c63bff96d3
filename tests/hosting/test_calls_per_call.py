"""What one call costs a server in frames of our own functions. The limits are a little above the numbers of
today on Python 3.11, which has the most.
"""

import asyncio

import pytest

from tests.calls_per_call import EVENTS, rows
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("row", "frames", "tasks"),
    [
        ("message", 80, 1),
        ("message, 0.3, blocking", 86, 1),
        ("task", 176, 2),
        ("GetTask", 78, 1),
        ("gateway to gRPC", 105, 2),
        (f"SSE, {EVENTS} events", 24 * EVENTS, 2),
    ],
)
async def test_the_frames_of_a_call(row: str, frames: int, tasks: int) -> None:
    async with asyncio.timeout(PATIENCE):
        count = await rows()[row]()
    # Below these the counter itself would be broken.
    assert 40 < count.ours <= frames
    assert count.tasks <= tasks
