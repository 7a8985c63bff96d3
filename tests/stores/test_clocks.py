"""Clocks that are wrong: data that others need is kept."""

import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Sent
from a2a_bridge.stores.sql.schema import metadata
from a2a_bridge.testing.store_scene import COMPLETED, HERE, Author
from tests.patience import PATIENCE
from tests.push.delivery_scene import config

DAY = 24 * 3600.0
COUNT = 20
OPTIONS = StoreOptions(ack_timeout=PATIENCE, tasks_kept=30 * DAY)
#: true, of this machine
_TIME, _TIME_NS = time.time, time.time_ns


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of this process. The database, in a process of its own, keeps its clock."""

    def move(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: _TIME() + seconds)
        monkeypatch.setattr(time, "time_ns", lambda: _TIME_NS() + int(seconds * 1e9))

    return move


async def _ended(store: Any) -> None:
    for number in range(COUNT):
        author = Author(store).begin(f"t{number:02}")
        author.chunk("x")
        author.status(COMPLETED)
        await author.sync()
        assert await store.sends.reserve(HERE, f"m{number}", b"1", f"t{number:02}") is None


async def _left(store: Any) -> dict[str, int]:
    """The rows of each table."""
    found = {}
    for name in ("tasks", "segments", "sends"):
        query = select(func.count()).select_from(metadata.tables[name])
        found[name] = await store._database.read(lambda connection, query=query: connection.scalar(query))
    return found


WHOLE = {"tasks": COUNT, "segments": COUNT, "sends": COUNT}


@pytest.mark.parametrize("days", [2, 40, -40])
async def test_a_replica_with_a_wrong_clock_deletes_nothing(
    postgres_url: str, shift: Callable[[float], None], caplog: pytest.LogCaptureFixture, days: int
) -> None:
    async with open_store(postgres_url, OPTIONS) as store:
        await _ended(store)
    shift(days * DAY)
    async with open_store(postgres_url, OPTIONS) as store:
        await store.janitor.round()
        assert await _left(store) == WHOLE
        assert await store.sends.reserve(HERE, "m1", b"1", "again") == Sent(b"1", "t01")
    side = "after" if days > 0 else "before"
    assert f"s {side} that of the database: nothing is deleted until they agree" in caplog.text


async def test_what_a_replica_with_a_late_clock_has_written_is_kept(
    postgres_url: str, shift: Callable[[float], None]
) -> None:
    shift(-40 * DAY)
    async with open_store(postgres_url, OPTIONS) as store:
        await _ended(store)
    shift(0)
    async with open_store(postgres_url, OPTIONS) as store:
        await store.janitor.round()
        assert await _left(store) == WHOLE


async def test_notifications_have_the_time_of_the_database(
    postgres_url: str, shift: Callable[[float], None]
) -> None:
    """A replica that claims them later waits for the delay that is left, whatever its clock says."""
    shift(2 * DAY)
    async with open_store(postgres_url, OPTIONS) as store:
        await store.push_configs.put(HERE, config("https://hook.example"))
        author = await Author(store, push=True).begin("t").sync()
        author.chunk("posted")
        await author.sync()
        (delivery,) = await store.outbox.due(1, lambda _: 1)
        await store.outbox.again(delivery, "HTTP 500", 10 * PATIENCE)
        backlog = await store.outbox.backlog()  # type: ignore[attr-defined]
        assert 0 <= backlog.age < 2 * PATIENCE
        with psycopg.connect(postgres_url) as connection:
            query = (
                "SELECT due - extract(epoch FROM now()), created - extract(epoch FROM now())"
                " FROM outbox WHERE attempts > 0"
            )
            [(due, created)] = connection.execute(query).fetchall()
        assert 8 * PATIENCE < due <= 10 * PATIENCE
        assert -2 * PATIENCE < created <= 0.0


async def test_a_clock_of_one_machine_that_jumps_deletes_a_share_at_a_time(
    sqlite_url: str, shift: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(sqlite_url, OPTIONS) as store:
        await _ended(store)
    shift(40 * DAY)
    with caplog.at_level(logging.WARNING):
        async with open_store(sqlite_url, OPTIONS) as store:
            await store.janitor.round()
            left = await _left(store)
    # With the round that each store begins with.
    assert all(COUNT - 4 <= number < COUNT for number in left.values())
    assert "days after the newest row: expired data is deleted slowly" in caplog.text
    # New rows have the wrong time, too; the jump is remembered.
    async with open_store(sqlite_url, OPTIONS) as store:
        assert await store.sends.reserve(HERE, "new", b"1", "t") is None
    async with open_store(sqlite_url, OPTIONS) as store:
        await store.janitor.round()
        left = await _left(store)
        assert all(COUNT - 9 <= number < COUNT for number in left.values())
        for _ in range(2 * COUNT):
            await store.janitor.round()
        # It was right after all, and what is expired later is deleted at once.
        assert await _left(store) == {"tasks": 0, "segments": 0, "sends": 1}
        await _ended(store)
        shift(42 * DAY)
    async with open_store(sqlite_url, OPTIONS) as store:
        await store.janitor.round()
        assert (await _left(store))["sends"] > 0


async def test_a_clock_that_jumps_while_a_process_runs(
    sqlite_url: str, shift: Callable[[float], None]
) -> None:
    """Rows that are written after the jump do not hide it."""
    async with open_store(sqlite_url, OPTIONS) as store:
        await store.janitor.round()
        await _ended(store)
        shift(2 * DAY)
        assert await store.sends.reserve(HERE, "new", b"1", "t") is None
        await store.janitor.round()
        assert (await _left(store))["segments"] == COUNT - 1
