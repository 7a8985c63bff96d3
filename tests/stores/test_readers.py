"""Many readers of one task: the cost of one event for all of them together."""

import asyncio
from typing import Any

import pytest

from a2a_bridge.core.event_log import EventLog
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import COMPLETED, PATIENCE, WORKING, Author, rest, take


@pytest.mark.parametrize("after", [0, 5])
async def test_readers_that_begin_together_each_read_the_database(sqlite_url: str, after: int) -> None:
    """After a restart the task is not in memory yet."""
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        author = Author(store).begin("t")
        for number in range(8):
            author.chunk(str(number))
        await author.sync()
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        readers = [store.subscribe("t", after) for _ in range(3)]
        told = await asyncio.gather(*(take(reader, 9 - after) for reader in readers))
        assert told == [[("task", WORKING), *"01234567"][after:]] * 3


async def test_a_reader_that_saw_a_commit_before_its_report_gets_its_events_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has a group before the loop learns of it, and a reader may look in between."""
    async with open_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        author = await Author(store).begin("t").sync()
        writer: Any = store.writer  # type: ignore[attr-defined]
        report, held = writer._on_committed, []
        monkeypatch.setattr(writer, "_on_committed", held.append)
        author.chunk("a")
        await author.sync()
        reader = store.subscribe("t", 0)
        assert await take(reader, 2) == [("task", WORKING), "a"]
        monkeypatch.setattr(writer, "_on_committed", report)
        for committed in held:
            report(committed)
        author.chunk("b")
        author.status(COMPLETED)
        assert await rest(reader) == ["b", COMPLETED]
        assert reader.position == 4


async def test_readers_are_woken_once_for_all_their_events(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    drop_read = EventLog.drop_read

    def counted(log: EventLog[Any]) -> None:
        looks.append(len(log.readers or ()))
        drop_read(log)

    monkeypatch.setattr(EventLog, "drop_read", counted)
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        author = await Author(store).begin("t").sync()
        readers = [store.subscribe("t", 0) for _ in range(100)]
        for reader in readers:
            assert await take(reader, 1) == [("task", WORKING)]
        looks.clear()
        for text in "xy":
            reading = [asyncio.ensure_future(take(reader, 1)) for reader in readers]
            author.chunk(text)
            async with asyncio.timeout(PATIENCE):
                assert await asyncio.gather(*reading) == [[text]] * 100
        assert looks == [100, 100]
        # And events that all have read are not kept here.
        (log,) = store._logs._logs.values()
        assert len(log.events) == 1
        author.status(COMPLETED)
        assert await rest(readers[0]) == [COMPLETED]


async def test_a_reader_may_know_later_events_than_the_readers_before_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a look at the task, or at another replica, while the events are still on their way here."""
    async with (
        open_sql_store(postgres_url, StoreOptions(lease=600.0)) as store,
        open_sql_store(postgres_url, StoreOptions(lease=600.0)) as other,
    ):
        author = await Author(store).begin("t").sync()
        early = other.subscribe("t", 0)
        await take(early, 1)
        with monkeypatch.context() as patch:
            patch.setattr(other, "wake", lambda _: None)
            for text in "xyz":
                author.chunk(text)
            await author.sync()
            late = other.subscribe("t", 3)
            assert await take(late, 1) == ["z"]
            late.close()
            late = other.subscribe("t", 4)
            waiting = asyncio.create_task(take(late, 1))
            for _ in range(3):
                await other.get(Scope(), "none")  # long enough for a look
            assert not waiting.done()
        author.status(COMPLETED)
        await author.sync()
        assert await waiting == [COMPLETED]
        assert await rest(early) == ["x", "y", "z", COMPLETED]
