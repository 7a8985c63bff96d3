"""The lifetime of a server inside an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from a2a_bridge.app.runtime import Lifetime


class Failing:
    async def drain(self, _grace: float) -> None:
        raise OSError("the store is gone")


async def test_a_failed_drain_leaves_nothing_open() -> None:
    left = []

    @asynccontextmanager
    async def serve() -> AsyncIterator[Failing]:
        try:
            yield Failing()
        finally:
            left.append(True)

    lifetime = Lifetime(serve)
    await lifetime.start()
    with pytest.raises(OSError, match="the store is gone"):
        await lifetime.close(1)
    assert left == [True]
