"""Heartbeats: which replicas are alive."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from tests.postgres import Postgres
from tests.replicas.conftest import LEASE, PATIENCE, Fleet, fleet_on, make_tables, until


def _alive(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM replicas")}


def _frozen(one) -> None:
    """Stops a replica like a suspended process: no heartbeat, no reads, no messages."""
    one._thread._loop.call_soon_threadsafe(one._replicas._beating.cancel)


async def test_a_replica_is_there_once_it_has_joined_and_gone_once_it_has_left(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    assert _alive(fleet.url) == {one.me}
    two, _ = await fleet.join()
    assert _alive(fleet.url) == {one.me, two.me}
    await two.close()
    assert _alive(fleet.url) == {one.me}


async def test_replicas_look_for_orphans_at_start_and_after_a_departure(fleet: Fleet) -> None:
    one, heard = await fleet.join()
    await heard.until(lambda: heard.orphans == 1)
    two, other = await fleet.join()
    await other.until(lambda: other.orphans == 1)
    await two.close()
    await heard.until(lambda: heard.orphans > 1)
    assert one.me in _alive(fleet.url)


async def test_one_that_no_longer_beats_is_declared_dead_by_the_others(fleet: Fleet) -> None:
    one, heard = await fleet.join()
    two, _ = await fleet.join()
    await heard.until(lambda: heard.orphans == 1)
    _frozen(two)
    await heard.until(lambda: heard.orphans > 1)
    assert _alive(fleet.url) == {one.me}


async def test_a_replica_declared_dead_releases_its_tasks_and_continues_under_a_new_name(
    fleet: Fleet,
) -> None:
    one, heard = await fleet.join()
    before = one.me
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
    await heard.until(lambda: heard.lost == 1)
    assert one.me != before
    assert _alive(fleet.url) == {one.me}


async def test_a_busy_loop_is_not_death(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    before = one.me
    dead = threading.Event()
    watching = threading.Event()

    async def watch() -> None:
        async with fleet_on(fleet.url) as others:
            _, heard = await others.join()
            await heard.until(lambda: heard.orphans == 1)
            watching.set()
            try:
                async with asyncio.timeout(2 * LEASE):
                    await heard.until(lambda: heard.orphans > 1)
                dead.set()
            except TimeoutError:
                pass

    watcher = threading.Thread(target=asyncio.run, args=(watch(),))
    watcher.start()
    watcher.join(PATIENCE)  # which keeps the loop of `one` from doing anything
    assert watching.is_set()
    assert not dead.is_set()
    assert _alive(fleet.url) == {before} == {one.me}


async def test_an_outage_of_the_database_declares_no_replica_dead(
    own_postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_postgres.create()
    make_tables(url)
    async with fleet_on(url) as fleet:
        one, heard = await fleet.join()
        two, other = await fleet.join()
        names = {one.me, two.me}
        await asyncio.to_thread(own_postgres.stop)
        # So it was away for longer than the lease.
        await until(lambda: caplog.text.count("may have declared this one dead") == 2)
        await asyncio.to_thread(own_postgres.start)
        lag = len(heard.tasks), len(other.tasks)
        await heard.until(lambda: None in heard.tasks[lag[0] :])
        await other.until(lambda: None in other.tasks[lag[1] :])
        # Both beat again, each seen by the other for more than a lease.
        await until(lambda: min(_beats(url)) >= 12)
        assert _alive(url) == names
        assert not heard.lost
        assert not other.lost


def _beats(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [beat for (beat,) in connection.execute("SELECT beat FROM replicas")]
