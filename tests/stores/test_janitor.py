"""Temporary data is deleted after its time, and no other data."""

import asyncio
import re
import time
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, func, select

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.ports import GapError, Registered, Sent, TaskQuery, unavailable
from a2a_bridge.stores.sql.expiry import _CLAIM
from a2a_bridge.stores.sql.schema import bodies, metadata, segments, task_counts
from a2a_bridge.stores.sql.store import SqlStore, open_sql_store
from a2a_bridge.stores.store_base import Janitor
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, PATIENCE, Author, found, pages, rest, take

HOUR = 3600.0


def janitor(store: SqlStore, options: StoreOptions, after: float) -> Janitor:
    """A janitor some seconds later."""
    kept = None if options.tasks_kept is None else options.tasks_kept - after
    shorter = replace(
        options,
        events_kept=options.events_kept - after,
        sends_kept=options.sends_kept - after,
        tasks_kept=kept,
    )
    return Janitor(store.delete_expired, shorter)


async def rows(store: SqlStore, name: str) -> int:
    query = select(func.count()).select_from(metadata.tables[name])
    return await store._database.read(lambda connection: int(connection.scalar(query) or 0))


async def _scene(store: SqlStore, many: int) -> None:
    """Ended tasks, one that waits and one that is working."""
    for number in range(many):
        author = Author(store).begin(f"ended{number}")
        author.chunk("x")
        author.status(COMPLETED)
    await author.sync()
    resting = Author(store).begin("rests", state=INPUT)
    resting.chunk("x")
    await resting.release()
    await Author(store).begin("works").sync()


async def test_logs_of_ended_tasks_go(url: str) -> None:
    options = StoreOptions(events_kept=HOUR)
    async with open_sql_store(url, options) as store:
        await _scene(store, 3)
        await janitor(store, options, HOUR / 2).round()
        assert await rest(store.subscribe("ended0", 1)) == ["x", COMPLETED]
        await janitor(store, options, 2 * HOUR).round()
        assert await rows(store, "segments") == 2
        for after in (0, 1, 2):
            reader = store.subscribe("ended0", after)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(GapError):
                    await reader.take()
        # A reader that has seen everything has missed nothing.
        assert await rest(store.subscribe("ended0", 3)) == []
        assert await take(store.subscribe("rests", 1), 1) == ["x"]
        stored = await found(store, "ended0")
        assert (stored.last, stored.task.status.state) == (3, COMPLETED)
        assert (await store.task_at(HERE, "ended0", 1)) == stored.task
        assert {page.total for page in await pages(store)} == {5}


async def test_a_round_costs_what_is_due(url: str) -> None:
    """Not what is kept: without anything due, it has as many statements at any number of logs and tasks."""
    options = StoreOptions(events_kept=HOUR, tasks_kept=HOUR, ack_timeout=PATIENCE)
    statements: list[tuple[str, Any]] = []
    costs: list[int] = []
    async with open_sql_store(url, options) as store:
        await janitor(store, options, 0).round()  # after the first look at the clock
        engine = store._database.engine
        for many in (10, 1000):
            ended = [Author(store).begin(f"{many}-{number}", state=COMPLETED) for number in range(many)]
            await asyncio.gather(*(author.sync() for author in ended))
            counts: list[int] = []
            for _ in range(3):  # a heartbeat may fall into one of them
                statements.clear()
                event.listen(
                    engine, "before_cursor_execute", listen := lambda *given: statements.append(given[2:4])
                )
                await janitor(store, options, HOUR / 2).round()
                event.remove(engine, "before_cursor_execute", listen)
                counts.append(len(statements))
            costs.append(min(counts))
        assert await rows(store, "segments") == 1010
        assert costs[0] == costs[1] <= 15
        reading = [one for one in statements if re.search(r"\.(ended|created) <", one[0])]
        plans = await store._database.read(lambda connection: [_plan(connection, *one) for one in reading])
        for index in ("tasks_ended", "segments_ended", "sends_by_age"):
            assert [plan for plan in plans if index in plan], plans
        await janitor(store, options, 2 * HOUR).round()
        assert (await rows(store, "segments"), await rows(store, "tasks")) == (0, 0)


def _plan(connection: Connection, text: str, parameters: Any) -> str:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # it scans small tables
        return str(connection.exec_driver_sql(f"EXPLAIN {text}", parameters).all())
    return str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters).all())


async def test_two_replicas_delete_one_after_the_other(postgres_url: str) -> None:
    options = StoreOptions(events_kept=HOUR, ack_timeout=PATIENCE)
    async with open_sql_store(postgres_url, options) as store, open_sql_store(postgres_url, options) as other:
        await _scene(store, 450)
        await store.wait_settled()
        with psycopg.connect(postgres_url) as connection:
            # Another one deletes: nobody waits for it in a transaction, and writes go on.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CLAIM,))
            both = asyncio.gather(*(janitor(one, options, 2 * HOUR).round() for one in (store, other)))
            await Author(store).begin("new").sync()
            await Author(other).begin("newer").sync()
            assert await rows(store, "segments") == 450 + 4
        async with asyncio.timeout(PATIENCE):
            await both
        assert await rows(store, "segments") == 4


async def test_many_logs_go_in_batches(sqlite_url: str) -> None:
    options = StoreOptions(events_kept=HOUR, cache_bytes=0)
    async with open_sql_store(sqlite_url, options) as store:
        await _scene(store, 450)
        await store.wait_settled()
        before = store.commits
        await janitor(store, options, 2 * HOUR).round()
        assert store.commits - before >= 3
        assert await rows(store, "segments") == 2
        assert await rows(store, "bodies") == 452


async def test_tasks_are_kept_unless_asked_otherwise(url: str) -> None:
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE, cache_bytes=0)) as store:
        await _scene(store, 3)
        await janitor(store, StoreOptions(ack_timeout=PATIENCE), 10**9).round()
        assert {page.total for page in await pages(store)} == {5}
        options = StoreOptions(tasks_kept=HOUR)
        config = hub.TaskPushNotificationConfig(task_id="ended1", id="p", url="https://hook.example/")
        await store.push_configs.put(HERE, Registered(config))
        await janitor(store, options, HOUR / 2).round()
        assert {page.total for page in await pages(store)} == {5}
        await janitor(store, options, 2 * HOUR).round()
        assert sorted(task.id for page in await pages(store) for task in page.tasks) == ["rests", "works"]
        assert (await store.list(HERE, TaskQuery())).total == 2
        assert (await store.list(HERE, TaskQuery(state=COMPLETED))).total == 0
        for number in range(3):
            assert await store.get(HERE, f"ended{number}") is None
        assert await store.push_configs.list(HERE, "ended1") == []
        for table in (bodies, segments):
            assert await rows(store, table.name) == 2
        empty = select(func.count()).select_from(task_counts).where(task_counts.c.number == 0)
        assert await store._database.read(lambda connection: connection.scalar(empty)) == 0


async def test_tasks_that_another_replica_throws_away_are_gone_here(postgres_url: str) -> None:
    options = StoreOptions(tasks_kept=HOUR)
    async with open_sql_store(postgres_url, options) as store, open_sql_store(postgres_url, options) as other:
        await _scene(store, 2)
        assert (await found(other, "ended1")).task.status.state == COMPLETED
        for one in (store, other):
            one._ended._wall = lambda: time.time() + 2 * HOUR
        await janitor(store, options, 2 * HOUR).round()
        assert await store.get(HERE, "ended1") is None
        assert await other.get(HERE, "ended1") is None
        assert (await found(other, "rests")).task.status.state == INPUT


async def test_messages_that_were_sent_are_forgotten(url: str) -> None:
    options = StoreOptions(sends_kept=HOUR)
    async with open_sql_store(url, options) as store:
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        await janitor(store, options, HOUR / 2).round()
        assert await store.sends.reserve(HERE, "m", b"1", "u") == Sent(b"1", "t")
        await janitor(store, options, 2 * HOUR).round()
        assert await store.sends.reserve(HERE, "m", b"1", "u") is None


async def test_a_log_that_goes_while_it_is_read_is_a_gap(sqlite_url: str) -> None:
    options = StoreOptions(events_kept=HOUR)
    async with open_sql_store(sqlite_url, options) as store:
        author = Author(store).begin("t")
        for _ in range(20):
            for number in range(100):
                author.chunk(f"{number}" * 300)
            await author.sync()
        author.status(COMPLETED)
        await author.sync()
        reader = store.subscribe("t", 0)
        assert await reader.take()
        await janitor(store, options, 2 * HOUR).round()

        async def read_on() -> None:
            while await reader.take():
                pass

        async with asyncio.timeout(PATIENCE):
            with pytest.raises(GapError):
                await read_on()
        assert reader.position < 2001


@pytest.mark.parametrize("failure", [unavailable(), ValueError("a defect of a driver")])
async def test_the_janitor_minds_no_failure(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    from a2a_bridge.stores import store_base as module

    rounds: list[int] = []
    done = asyncio.Event()

    async def failing(self: Janitor) -> None:
        rounds.append(len(rounds))
        if len(rounds) == 3:
            done.set()
        raise failure

    monkeypatch.setattr(module, "_ROUND", 0.001)
    monkeypatch.setattr(Janitor, "round", failing)
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        assert store.rejection() is None
    with pytest.raises(type(failure)):
        await janitor(store, StoreOptions(ack_timeout=PATIENCE), 0).round()


def test_nothing_is_left_out() -> None:
    """For every table there is an entry here: who deletes its rows."""
    of_tasks = {"tasks", "bodies", "segments", "joined", "push_configs", "outbox", "task_counts"}
    of_their_own = {"sends", "replicas", "messages", "locks", "settings"}
    assert set(metadata.tables) == of_tasks | of_their_own


@pytest.mark.parametrize("after", [0, 2, 3])
async def test_the_events_of_a_task_that_another_replica_has_deleted_are_a_gap(
    postgres_url: str, after: int
) -> None:
    """Also for a reader of all of them: the task is known here, and nothing will ever follow."""
    options = StoreOptions(tasks_kept=HOUR)
    async with open_sql_store(postgres_url, options) as store, open_sql_store(postgres_url, options) as other:
        await _scene(store, 1)
        known = await found(other, "ended0")
        assert known.last == 3
        await janitor(store, options, 2 * HOUR).round()
        reader = other.subscribe("ended0", after)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(GapError):
                await reader.take()
        reader.close()
