"""Workers serialize large tasks for the store. Meanwhile they are read, continued and evicted as others are."""

from __future__ import annotations

import asyncio
from threading import current_thread

import pytest

from a2a_bridge.bindings.offload import MUCH, run_in_worker
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, row_format
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, Author, found, made
from tests.patience import PATIENCE


def _large() -> hub.Task:
    task = made("t")
    task.history.add(message_id="m", role=hub.ROLE_USER).parts.add(text="x" * MUCH)
    return task


async def _at_rest(store: MemoryStore) -> None:
    async with asyncio.timeout(PATIENCE):
        while store._entries["t"].live is not None:
            await run_in_worker(bool)


async def test_memory_serializes_a_large_task_beside_the_loop() -> None:
    store = MemoryStore()
    author = Author(store).begin(_large())
    author.status(INPUT, text="and?")
    await author.release()
    entry = store._entries["t"]
    assert entry.live is not None
    assert (await found(store, "t")).task == author.task
    await _at_rest(store)
    assert (await found(store, "t")).task == author.task
    assert entry.size == len(entry.data) == author.task.ByteSize()
    assert store.memory.used == entry.size + store.log("t").bytes


async def test_a_new_writer_of_a_large_task_does_not_wait_and_loses_nothing() -> None:
    store = MemoryStore()
    author = Author(store).begin(_large())
    author.status(INPUT)
    await author.release()
    await author.reopen("t")
    assert store._entries["t"].live is not None  # a worker serializes the copy of the writer before
    author.chunk("more")
    author.status(COMPLETED)
    await _at_rest(store)
    assert (await found(store, "t")).task == author.task
    assert store.idle == store.memory.used > 2 * MUCH
    store.give_up(store.memory.used)
    assert store.memory.used == 0
    assert await store.get(HERE, "t") is None


async def test_a_large_task_is_evicted_while_it_is_serialized() -> None:
    store = MemoryStore()
    author = Author(store).begin(_large())
    author.status(COMPLETED)
    entry = store._entries["t"]
    store.give_up(store.memory.used)
    async with asyncio.timeout(PATIENCE):
        while entry.live is not None:
            await run_in_worker(bool)
    assert store.memory.used == 0


async def test_a_database_has_a_large_task_after_each_group(url: str) -> None:
    async with open_sql_store(url, StoreOptions()) as store:
        author = Author(store).begin(_large())
        author.chunk("with the first event")
        await author.sync()
        assert (await found(store, "t")).task == author.task
        author.chunk("alone")
        await author.sync()
        assert (await found(store, "t")).task == author.task
        author.status(INPUT, text="and?")
        author.amend("n")
        await author.release()
    async with open_sql_store(url, StoreOptions()) as store:
        author = await Author(store).reopen("t")
        author.status(COMPLETED)
        await author.sync()
        stored = await found(store, "t")
        assert (stored.task, stored.last) == (author.task, 5)
    async with open_sql_store(url, StoreOptions()) as store:
        assert (await found(store, "t")).task == author.task


async def test_a_message_that_joins_a_large_task_before_its_first_group_is_kept(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, StoreOptions()) as store:
        author = Author(store).begin(_large())
        author.amend("n")
        await author.sync()
        stored = await found(store, "t")
    assert [one.message_id for one in stored.task.history] == ["m", "n"]


async def test_large_events_of_a_database_are_parsed_beside_the_loop(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def parse(data: bytes) -> hub.StreamResponse:
        threads.append(current_thread())
        return hub.StreamResponse.FromString(data)

    async with open_sql_store(sqlite_url, StoreOptions()) as store:
        await Author(store).begin(_large()).release()
        monkeypatch.setattr(row_format, "_parse", parse)
        reader = store.subscribe("t", 0)
        async with asyncio.timeout(PATIENCE):
            assert [event.task for event in await reader.take()] == [_large()]
        reader.close()
    assert len(threads) == 1
    assert threads[0] is not current_thread()
