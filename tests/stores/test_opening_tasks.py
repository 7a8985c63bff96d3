"""What happens to a task while it is opened, between the commit of its lease and the return of `open`."""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.hosting.ports import VersionConflictError
from a2a_bridge.hosting.stores import StoreOptions
from a2a_bridge.hosting.stores.sql.opened import open_sql_store
from a2a_bridge.testing.store_scene import HERE, INPUT, Author, found
from tests.patience import PATIENCE


async def test_a_lease_that_is_lost_as_soon_as_it_is_durable_is_not_given(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", state=INPUT).release()
        waiting = await found(store, "t")
        told: list[str] = []
        opening = asyncio.ensure_future(store.open(HERE, waiting, lambda: told.append("lost")))
        await asyncio.sleep(0)
        # Between the commit and the return of `open`.
        store.writer.leases["t"].when_synced(lambda _: store.let_go())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(VersionConflictError):
                await opening
        assert told == []


async def test_a_task_that_is_opened_while_its_caller_leaves_has_no_holder(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", state=INPUT).release()
        opening = asyncio.ensure_future(store.open(HERE, await found(store, "t"), _unexpected))
        await asyncio.sleep(0)
        # Between the commit and the return of `open`.
        store.writer.leases["t"].when_synced(lambda _: opening.cancel())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(asyncio.CancelledError):
                await opening
            await store.wait_settled()
        assert store.writer.leases == {}
        query = "SELECT holder FROM tasks"
        assert await store._database.read(lambda connection: connection.exec_driver_sql(query).scalar()) == ""


def _unexpected() -> None:
    raise AssertionError("the lease was lost")
