from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from sqlalchemy import create_engine

from a2a_bridge.hosting.stores.sql.cluster import Cluster
from a2a_bridge.hosting.stores.sql.schema import metadata
from tests.patience import PATIENCE
from tests.stores.conftest import _postgres_template, postgres_url

__all__ = ["_postgres_template", "postgres_url"]

#: seconds: short enough for a test, long enough for a machine with other work
LEASE = 1.5


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition that only the database shows. The condition may block."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0.02)


class Heard:
    """A store that only records its calls."""

    def __init__(self) -> None:
        self.tasks: list[Collection[str] | None] = []
        self.deliveries = 0
        self.lost = 0
        self.orphans = 0
        self._changed = asyncio.Condition()

    def woken(self, task_ids: Collection[str] | None, /) -> None:
        self.tasks.append(task_ids)
        self._tell()

    def outbox_changed(self) -> None:
        self.deliveries += 1
        self._tell()

    def let_go(self) -> None:
        self.lost += 1
        self._tell()

    def orphaned(self) -> None:
        self.orphans += 1
        self._tell()

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    def _tell(self) -> None:
        self._telling = asyncio.ensure_future(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Fleet:
    """Replicas of one database, in one process."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._stack = stack

    async def join(self, *, lease: float = LEASE, poll: float = 60.0) -> tuple[Cluster, Heard]:
        heard = Heard()
        one = Cluster(self.url, lease=lease, poll=poll)
        self._stack.push_async_callback(one.close)
        one.on_death(heard.orphaned)
        await one.start(heard)
        return one, heard


@asynccontextmanager
async def fleet_on(url: str) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(url, stack)


@pytest.fixture
def tables(database: str) -> str:
    """A database with tables, but without a store."""
    make_tables(database)
    return database


def make_tables(url: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    metadata.create_all(engine)
    engine.dispose()


@pytest.fixture
async def fleet(tables: str) -> AsyncIterator[Fleet]:
    async with fleet_on(tables) as fleet:
        yield fleet
