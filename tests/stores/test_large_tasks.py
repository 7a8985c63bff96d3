"""Workers serialize large tasks for the store. Meanwhile they are read, continued and evicted as others are."""

import asyncio
import sys
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from a2a_bridge.bindings.offload import MUCH, run_in_worker
from a2a_bridge.codec import decoder, encoder
from a2a_bridge.codec.unknown import KEPT
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.operations import GET_TASK, SEND_MESSAGE
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store, row_format
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, Author, found, made, rest
from tests.hosting.test_follow_ups import Busy
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
    store._resting.drop_oldest()
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


# --- The memory after many writes into SQLite: neither statements nor threads keep arguments ---

#: writes 30 tasks of 8 MB side by side, and prints by how many MB the process has grown
PROGRAM = """
import asyncio, ctypes, gc, os, sys

import psutil

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.store_scene import COMPLETED, Author

async def main():
    async with open_store(sys.argv[1], StoreOptions(ack_timeout=600)) as store:
        before = psutil.Process().memory_info().rss
        authors = [Author(store).begin(f"t{number}") for number in range(30)]
        for _ in range(80):
            for author in authors:
                author.chunk("x" * 100_000)
            await authors[0].writer.room()
        for author in authors:
            author.status(COMPLETED)
        await asyncio.gather(*(author.writer.sync() for author in authors))
        del author, authors
        gc.collect()
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
        print((psutil.Process().memory_info().rss - before) // 1_000_000)

asyncio.run(main())
"""


async def test_large_and_small_rows_share_a_transaction(url: str) -> None:
    sizes = [1, 5000, 10, 4096, 4097, 300_000, 20, 2_000_000]
    async with open_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        authors = [Author(store).begin(f"t{number}") for number in range(len(sizes))]
        for author, size in zip(authors, sizes, strict=True):
            author.chunk("x" * size)
            author.chunk("y")
        await asyncio.gather(*(author.sync() for author in authors))
        for author in authors:
            author.status(COMPLETED)
        await asyncio.gather(*(author.sync() for author in authors))
    async with open_store(url) as store:
        for author, size in zip(authors, sizes, strict=True):
            assert (await found(store, author.task.id)).task == author.task
            events = ["x" * size, "y", COMPLETED]
            assert (await rest(store.subscribe(author.task.id, 1))) == events


async def test_written_data_is_not_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(tmp_path / "writes.py"),
        f"sqlite:///{tmp_path / 'tasks.db'}",
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    # 240 MB were written. The page cache of SQLite is at most 64 MB for the writing connection.
    assert int(out) < 160


# --- Unknown members of JSON in tasks that another process has stored ---

SENT: dict[str, Any] = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "later": [1]}
}


async def _send(url: str) -> str:
    request = decoder(hub.SendMessageRequest, keeps=True)(SENT)
    async with open_store(url) as store:
        engine = Engine(Agent(Busy(0), name="busy", description=""), store=store)
        await engine.start()
        answer = await engine.service.unary(Call(SEND_MESSAGE, request, CallContext()))
        await engine.close()
    return answer.task.id


async def test_a_stored_task_still_has_its_unknown_members(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await _send(sqlite_url)
    monkeypatch.setattr(KEPT, "count", 0)  # as in a new process
    async with open_store(sqlite_url) as store:
        engine = Engine(Agent(Busy(0), name="busy", description=""), store=store)
        await engine.start()
        task = await engine.service.unary(Call(GET_TASK, hub.GetTaskRequest(id=task_id), CallContext()))
        await engine.close()
    tree = encoder(hub.Task, keeps=True)(task)
    assert tree["history"][0]["later"] == [1]


def test_tasks_in_memory_come_from_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "count", 0)
    Engine(Agent(Busy(0), name="busy", description=""))
    assert KEPT.count == 0
