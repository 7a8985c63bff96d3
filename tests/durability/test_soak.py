"""Callers that come, go, are slow or break off leave no resources in a server: `make soak`."""

from pathlib import Path

import pytest

from tests.durability.serving import Stage
from tests.durability.soak import soak
from tests.durability.waves import Size

SIZE = Size(streams=40, tasks=100, churn=40)


@pytest.mark.sdk
async def test_nothing_is_left(tmp_path: Path) -> None:
    # The loop of asyncio logs writes to broken connections; `make soak` takes uvloop.
    stage = Stage(f"sqlite:///{tmp_path / 'soak.db'}", ("--loop", "asyncio"))
    wrong, done, holdings = await soak(stage, SIZE, waves=1, seed=1, still=1.0)
    # So small a load does not fill the caches; the long form measures memory.
    assert [line for line in wrong if "memory" not in line] == []
    assert (done[0]["streams at once"], done[0]["tasks"]) == (SIZE.streams, SIZE.tasks)
    # It would have been seen: each stream is a task and a connection or a call while it lasts.
    assert holdings[0]["tasks"] > 0
