"""What happens to a task while it is opened, between the commit of its lease and the return of `open`."""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.ports import VersionConflictError
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import HERE, INPUT, WORKING, Author, found
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


@pytest.mark.parametrize("state", [INPUT, WORKING])
async def test_a_task_that_is_opened_while_its_caller_leaves_is_an_orphan(
    sqlite_url: str, state: hub.TaskState
) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", state=state).release()
        opening = asyncio.ensure_future(store.open(HERE, await found(store, "t"), _unexpected))
        await asyncio.sleep(0)
        told: list[str] = []
        store.on_orphans(lambda: told.append("orphans"))
        told.clear()
        # Between the commit and the return of `open`.
        store.writer.leases["t"].when_synced(lambda _: opening.cancel())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(asyncio.CancelledError):
                await opening
            await store.wait_settled()
        assert told
        assert store.writer.leases == {}
        assert await store.orphans(9) == [(HERE, "t")]


def _unexpected() -> None:
    raise AssertionError("the lease was lost")
