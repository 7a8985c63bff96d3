"""Large requests and answers count in the memory account while they are processed, over every binding, and no
longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge import Run
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.stores import StoreOptions
from a2a_bridge.memory import in_work
from a2a_bridge.runtime import ServeOptions
from tests.limits.scene import BINDINGS, agent, peers, served
from tests.patience import PATIENCE

MIB = 1 << 20


class Echo:
    """Repeats its message, once a test allows it."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.reached.set()
        await self.go.wait()
        yield run.reply(run.text)


@pytest.mark.parametrize("kind", BINDINGS)
async def test_requests_count_in_memory_until_they_are_answered(kind: str) -> None:
    echo = Echo()
    options = ServeOptions(store_options=StoreOptions(max_memory=2 * MIB))
    async with served(agent(echo), options) as server, peers(server) as callers, asyncio.timeout(PATIENCE):
        answer = asyncio.create_task(callers[kind].send("x" * MIB))
        await echo.reached.wait()
        assert MIB <= in_work.held < 2 * MIB
        with pytest.raises(A2AError) as caught:
            await callers[kind].send("y" * MIB)
        assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
        echo.go.set()
        assert (await callers[kind].send("small")).text == "small"
        assert (await answer).text == "x" * MIB
    assert in_work.held == 0
