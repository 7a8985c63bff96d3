"""Many tasks of a dead replica, taken over by the others at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.ports import Scope
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import HERE, INPUT, Author
from tests.agents import ScriptedAgent
from tests.hosting.scene import FAILED, Talk
from tests.patience import PATIENCE

#: it does not end in a test
OPTIONS = StoreOptions(lease=600.0, ack_timeout=PATIENCE)
COUNT = 300


@pytest.mark.parametrize("idle", [False, True])
async def test_each_replica_takes_its_share_of_the_orphans(postgres_url: str, idle: bool) -> None:
    """Few reads and writes, and none for tasks that another replica takes; an idle replica's share is taken by
    the others.
    """
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_sql_store(postgres_url, OPTIONS)) for _ in range(4)]
        dead, *others = stores
        authors = [Author(dead, Scope()).begin(f"t{number}") for number in range(COUNT)]
        await asyncio.gather(*(one.sync() for one in authors))
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM replicas WHERE id = %s", [dead.me()])
        for one in others:
            one.records._beside._directory.update_members(frozenset(other.me() for other in others), 0.0)
        talks = [Talk(ScriptedAgent(), store=one) for one in others]
        stack.push_async_callback(_closed, talks)
        read: list[list[str]] = [[] for _ in others]
        for ids, store in zip(read, others, strict=True):
            _note_reads(store, ids)
        working = talks[1:] if idle else talks
        rounds = await asyncio.gather(*(one.engine._recovery._round() for one in working))
        assert all(rounds)
        assert (await talks[0].list(status=FAILED)).total_size == COUNT
        if not idle:
            # Only at the end they help each other, with one batch at a time.
            assert sum(map(len, read)) < 1.5 * COUNT
            assert min(map(len, read)) > COUNT / 6
        # The lease comes with the failure.
        assert {(await store.get(Scope(), f"t{number}")).version for number in range(COUNT)} == {2}


async def test_a_task_that_nobody_can_take_over_hides_no_other(postgres_url: str) -> None:
    async with open_sql_store(postgres_url, OPTIONS) as store:
        for name in ("damaged", "given up"):
            await Author(store).begin(name, state=INPUT).release()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # The caller that opened it did not wait long enough to know.
            connection.execute("UPDATE tasks SET holder = %s WHERE id = 'given up'", [store.me()])
            assert await store.orphans(9) == [(HERE, "given up")]
            connection.execute("UPDATE tasks SET holder = 'dead' WHERE id = 'damaged'")
        assert await store.orphans(9) == [(HERE, "damaged"), (HERE, "given up")]


def _note_reads(store: Any, ids: list[str]) -> None:
    get_many = store.get_many

    async def noted(tasks: Sequence[tuple[Scope, str]], /) -> Any:
        ids.extend(task_id for _, task_id in tasks)
        return await get_many(tasks)

    store.get_many = noted


async def _closed(talks: list[Talk]) -> None:
    for one in talks:
        await one.close()
