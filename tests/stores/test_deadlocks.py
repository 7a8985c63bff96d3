"""Transactions of several replicas lock rows in one order. PostgreSQL reports deadlocks."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Registered
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, VersionConflictError
from a2a_bridge.stores.sql import commit
from a2a_bridge.stores.sql.store import SqlStore, open_sql_store
from a2a_bridge.testing.store_scene import Author, take
from tests.hosting.scene import request
from tests.limits.scene import BINDINGS, Waiting, agent, peers, served
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.stores.impatience import PATIENT, impatient

SCOPE = Scope("", "")
OPTIONS = StoreOptions(ack_timeout=PATIENCE)
#: seconds that a transaction waits for the other one
MEETING = 2.0

Steps = Callable[[SqlStore, str], Coroutine[Any, Any, Any]]


async def _opens(store: SqlStore, name: str) -> None:
    stored = await store.get(SCOPE, name)
    assert stored is not None
    with suppress(VersionConflictError):
        await store.open(SCOPE, stored, lambda: None)


async def _reserves(store: SqlStore, name: str) -> None:
    await store.sends.reserve(SCOPE, name, b"digest", f"task of {name}")


async def _configures(store: SqlStore, name: str) -> None:
    config = hub.TaskPushNotificationConfig(id="c", task_id=name, url="https://a.example/hook")
    await store.push_configs.put(SCOPE, Registered(config))


@pytest.mark.parametrize("step", [_opens, _reserves, _configures])
async def test_two_replicas_do_the_same_in_opposite_orders(
    postgres_url: str, caplog: pytest.LogCaptureFixture, step: Steps
) -> None:
    caplog.set_level(logging.INFO, "a2a_bridge.store")
    names = ["task-a", "task-b"]
    async with open_store(postgres_url, OPTIONS) as one, open_store(postgres_url, OPTIONS) as two:
        assert isinstance(one, SqlStore)
        assert isinstance(two, SqlStore)
        for name in names:
            author = Author(one, SCOPE).begin(name)
            await author.writer.sync()
            author.writer.release()
        await one.wait_settled()
        go, meeting = threading.Event(), threading.Barrier(2)

        def wait(_: Connection) -> None:
            go.wait()

        def meet(_: Connection) -> None:
            with suppress(threading.BrokenBarrierError):
                meeting.wait(MEETING)

        # One transaction for each replica: a row, a pause until the other one has its row, the other row.
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for store, (first, second) in ((one, names), (two, names[::-1])):
                tasks.create_task(store.write(wait))
                await _until(partial(_is_under_way, store, wait))
                for work in (step(store, first), store.write(meet), step(store, second)):
                    before = _queued(store)
                    tasks.create_task(work)
                    await _until(partial(_has_more, store, before))
            go.set()
    assert caplog.messages == []


def _is_under_way(store: SqlStore, work: object) -> bool:
    group = store.writer.group
    return group is not None and any(change.work is work for change in group.changes)


def _queued(store: SqlStore) -> int:
    return len(store.writer._jobs) + len(store.writer._dirty)


def _has_more(store: SqlStore, before: int) -> bool:
    return _queued(store) > before


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  there is no notification
        await asyncio.sleep(0)


# --- Streams of a store that is gone for good end with UNAVAILABLE, like other calls; they are not silent ---
def remove(url: str) -> None:
    Path(url.removeprefix("sqlite:///")).unlink()


def move(path: Path, there: Path) -> None:
    path.rename(there)


async def ended(events: AsyncIterator[Any]) -> Reason:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError) as caught:
            async for _ in events:
                pass
    return caught.value.reason


async def test_a_reader_ends_with_its_store(sqlite_url: str) -> None:
    async with open_store(sqlite_url, PATIENT) as store:
        author = Author(store).begin("task")
        await author.writer.sync()
        subscription = store.subscribe("task", 0)
        async with asyncio.timeout(PATIENCE):
            assert len(await subscription.take()) == author.writer.last
            remove(sqlite_url)
            with pytest.raises(A2AError) as caught, impatient(store):
                await subscription.take()
        assert caught.value.reason is Reason.UNAVAILABLE
        subscription.close()


async def test_readers_stay_while_an_outage_is_short(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    away = path.with_name("away")
    async with open_store(sqlite_url, PATIENT) as store:
        author = Author(store).begin("task")
        await author.writer.sync()
        subscription = store.subscribe("task", author.writer.last)
        move(path, away)
        async with asyncio.timeout(PATIENCE):
            while store.rejection() is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0.01)
            author.chunk("x")
            move(away, path)
            assert len(await subscription.take()) == 1
        subscription.close()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_streams_end_over_every_binding(sqlite_url: str, version: str) -> None:
    options = ServeOptions(store=sqlite_url, store_options=StoreOptions(ack_timeout=0.5))
    waiting = Waiting()
    async with served(agent(waiting), options, version=version) as server:
        async with peers(server, version=version) as callers:
            streams = {}
            for kind in BINDINGS:
                events = callers[kind].send_streaming_message(request("wait"))
                async with asyncio.timeout(PATIENCE):
                    first = await anext(events)
                    task_id = first.task.id or first.status_update.task_id
                    other = callers[kind].subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id))
                    await anext(other)
                streams[kind] = (events, other)
            remove(sqlite_url)
            for kind, both in streams.items():
                for events in both:
                    assert await ended(events) is Reason.UNAVAILABLE, kind
        waiting.go.set()


# --- A PostgreSQL that has no transaction ids left: it reports the error of a value that is too large ---
@contextmanager
def numbers(store: Any, none_left: str, *before: str) -> Iterator[Connection]:
    """A connection after a function that writes call for numbers: it fails while a condition holds."""
    engine = create_engine(store._database.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as other:
        for statement in before:
            other.execute(text(statement))
        other.execute(
            text(
                f"CREATE FUNCTION numbers() RETURNS xid8 LANGUAGE plpgsql AS $$ BEGIN IF {none_left} THEN"
                " RAISE 'wraparound' USING ERRCODE = '54000'; END IF; RETURN pg_current_xact_id(); END $$"
            )
        )
        yield other
    engine.dispose()


async def test_a_server_that_has_no_numbers_for_transactions_left_loses_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_NUMBER", "numbers()")
    async with open_sql_store(postgres_url, PATIENT) as store:
        with numbers(store, "EXISTS (SELECT FROM settings WHERE name = 'none left')") as other:
            author = await Author(store).begin("t").sync()
            other.execute(text("INSERT INTO settings VALUES ('none left', '')"))
            author.chunk("x")
            with rejected(Reason.UNAVAILABLE), impatient(store):
                await author.sync()
            other.execute(text("DELETE FROM settings WHERE name = 'none left'"))
        assert await take(store.subscribe("t", 1), 1) == ["x"]
        assert author.lost == 0


async def test_a_server_that_gets_numbers_during_the_search_for_bad_changes_loses_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_NUMBER", "numbers()")
    async with open_sql_store(postgres_url, StoreOptions()) as store:
        # The group fails, then its change alone. A sequence counts in transactions that are rolled back, too.
        with numbers(store, "nextval('calls') < 3", "CREATE SEQUENCE calls START 3") as other:
            author = await Author(store).begin("t").sync()
            other.execute(text("ALTER SEQUENCE calls MINVALUE 1 RESTART WITH 1"))
            author.chunk("x")
            await author.sync()
        assert await take(store.subscribe("t", 1), 1) == ["x"]
        assert author.lost == 0
