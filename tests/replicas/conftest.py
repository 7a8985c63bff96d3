"""Replicas of one database in one process."""

import asyncio
from collections.abc import Callable

from tests.patience import PATIENCE
from tests.stores.conftest import _postgres_template, postgres_url

__all__ = ["PATIENCE", "_postgres_template", "postgres_url"]

#: seconds: short enough for a test, long enough for a machine with other work
LEASE = 1.5


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition that only the database shows. The condition may block."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0.02)
