"""Heartbeats: which replicas are alive."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import VersionConflictError
from a2a_bridge.testing.store_scene import COMPLETED, Author, found
from tests.postgres import Postgres
from tests.replicas.conftest import LEASE, PATIENCE, until
from tests.stores.conftest import filled


class Fleet:
    """Replicas of one database, in one process."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url, self._stack = url, stack

    async def join(self, *, lease: float = LEASE) -> tuple[Any, list[str]]:
        """The store of a replica, and what happens to it."""
        store: Any = await self._stack.enter_async_context(open_store(self.url, StoreOptions(lease=lease)))
        happened: list[str] = []
        store._beside.on_death(lambda: happened.append("orphans"))
        let_go = store.let_go

        def lost() -> None:
            happened.append("lost")
            let_go()

        store.let_go = lost
        return store, happened


@asynccontextmanager
async def fleet_on(url: str) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(url, stack)


@pytest.fixture
async def fleet(postgres_url: str) -> AsyncIterator[Fleet]:
    async with fleet_on(postgres_url) as fleet:
        yield fleet


def _alive(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM replicas")}


async def test_a_replica_is_there_once_it_has_joined_and_gone_once_it_has_left(fleet: Fleet) -> None:
    one, happened = await fleet.join()
    me = one._beside.me
    assert _alive(fleet.url) == {me}
    async with fleet_on(fleet.url) as others:
        two, _ = await others.join()
        assert _alive(fleet.url) == {me, two._beside.me}
        await until(lambda: not one._beside._directory.alone)
        before = len(happened)
    assert _alive(fleet.url) == {me}
    await until(lambda: len(happened) > before)


async def test_one_that_no_longer_beats_is_declared_dead_by_the_others(fleet: Fleet) -> None:
    one, happened = await fleet.join()
    two, _ = await fleet.join()
    await until(lambda: not one._beside._directory.alone)
    before = len(happened)
    two._beside._living.cancel()
    await until(lambda: _alive(fleet.url) == {one._beside.me})
    await until(lambda: len(happened) > before)


async def test_a_replica_declared_dead_releases_its_tasks_and_continues_under_a_new_name(
    fleet: Fleet,
) -> None:
    one, happened = await fleet.join()
    before = one._beside.me
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
    await until(lambda: "lost" in happened)
    assert one._beside.me != before
    assert _alive(fleet.url) == {one._beside.me}


async def test_one_that_was_declared_dead_begins_with_no_task_under_its_old_name(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    one._beside._living.cancel()  # so it does not learn of it
    await Author(one).begin("t").release()
    author = await Author(one).begin("u").sync()
    await Author(one).begin("v").release()
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
        with pytest.raises(VersionConflictError):
            await Author(one).reopen("t")
        for end in (False, True):
            late = Author(one).begin(f"late {end}")
            if end:
                late.status(COMPLETED)
            with pytest.raises(VersionConflictError):
                await late.sync()
            assert (late.lost, late.writer.last) == (1, 0)  # of the events that are stored
        # It keeps its leases until another replica takes the tasks over, and may release them.
        author.chunk("more")
        await author.release()
        ((holder, version),) = connection.execute("SELECT holder, version FROM tasks WHERE id = 't'")
        assert (holder, version) == ("", (await found(one, "t")).version)
        assert connection.execute("SELECT id FROM tasks WHERE id LIKE 'late%'").fetchall() == []
        connection.execute("INSERT INTO replicas (id, beat) VALUES (%s, 0)", [one._beside.me])
    await (await Author(one).reopen("v")).release()
    assert author.lost == 0


async def test_an_unexpected_error_does_not_end_the_heartbeat(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = await fleet.join()
    membership = one._beside._membership
    with monkeypatch.context() as patch:

        async def fails() -> None:
            raise ValueError("surprise")

        patch.setattr(membership, "beat", fails)
        await until(lambda: "cannot send its heartbeat: surprise" in caplog.text)
    assert "Traceback" in caplog.text
    (before,) = _beats(fleet.url)
    await until(lambda: _beats(fleet.url)[0] > before)


async def test_a_busy_loop_is_not_death(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    before = one._beside.me
    watching, dead = threading.Event(), threading.Event()

    async def watch() -> None:
        async with fleet_on(fleet.url) as others:
            two, happened = await others.join()
            await until(lambda: not two._beside._directory.alone)
            first = len(happened)
            watching.set()
            with psycopg.connect(fleet.url, autocommit=True) as connection:
                ((beat,),) = connection.execute("SELECT beat FROM replicas WHERE id = %s", [before])
                # More than a lease.
                await until(
                    lambda: (
                        connection.execute(
                            "SELECT 1 FROM replicas WHERE id = %s AND beat < %s", [before, beat + 8]
                        ).fetchone()
                        is None
                    )
                )
            if len(happened) > first:
                dead.set()

    watcher = threading.Thread(target=asyncio.run, args=(watch(),))
    watcher.start()
    watcher.join(PATIENCE)  # which keeps the loop of `one` from doing anything
    assert watching.is_set()
    assert not dead.is_set()
    assert _alive(fleet.url) == {before} == {one._beside.me}


async def test_an_outage_of_the_database_declares_no_replica_dead(
    own_postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_postgres.create()
    filled(url)
    async with fleet_on(url) as fleet:
        one, happened = await fleet.join()
        two, other = await fleet.join()
        names = {one._beside.me, two._beside.me}
        await asyncio.to_thread(own_postgres.stop)
        # So it was away for longer than the lease.
        await until(lambda: caplog.text.count("may have declared this one dead") == 2)
        await asyncio.to_thread(own_postgres.start)
        # Both beat again, each seen by the other for more than a lease.
        await until(lambda: min(_beats(url)) >= 12)
        assert _alive(url) == names
        assert "lost" not in happened + other
        await until(lambda: one.rejection() is None and two.rejection() is None)


def _beats(url: str) -> list[int]:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            return [beat for (beat,) in connection.execute("SELECT beat FROM replicas")]
    except psycopg.OperationalError:
        return [0]
