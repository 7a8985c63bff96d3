"""A database that stops: new work is rejected, reads continue, it recovers, and nothing is lost."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.stores import open_store
from tests.durability import troubles
from tests.durability.callers import BINDINGS, callers
from tests.durability.databases import filled
from tests.durability.outage import Outage, raw_rejection
from tests.durability.serving import NotServing, Stage, until
from tests.durability.troubles import Scene, Trouble
from tests.postgres import Postgres

#: words about internals that no caller may see
SECRETS = ("sqlite", "psycopg", "sqlalchemy", "/", "SELECT", "INSERT", "Error", "Errno", "Traceback")


@asynccontextmanager
async def outage(store: str, sabotage: Path | None = None) -> AsyncIterator[Outage]:
    stage = Stage(store, env={"TRIALS_SABOTAGE": str(sabotage or "")})
    async with stage.serving() as served, callers(served, official=()) as ways:
        made = Outage(served, store, ways)
        await made.before()
        assert await made._ready()
        yield made
        assert served.alive


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(troubles.small_disk(tmp_path))
        except troubles.CannotMount as error:
            pytest.skip(f"{error}; quotas and full databases are tried without")


async def through(made: Outage, trouble: Trouble, scene: Scene) -> None:
    """Goes through an outage with a task that works all the time."""
    made.rejections.clear()
    async with made.watched():
        async with trouble(scene):
            await made.rejected()
            look_at(made.rejections)
            raw = await raw_rejection(made.served)
            assert raw.status_code == 503
            assert int(raw.headers["Retry-After"]) > 0
            await made.again()
            await made.reads()
        await made.recovered()


def look_at(rejections: dict[str, A2AError]) -> None:
    """The rejections name the time of a retry, and contain no internals."""
    assert len(rejections) == len(BINDINGS)
    for name, error in rejections.items():
        assert error.reason is Reason.UNAVAILABLE, name
        assert error.retry_after, name
        assert not any(secret in str(error) for secret in SECRETS), str(error)


async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    database, sabotage = tmp_path / "trial.db", tmp_path / "sabotage"
    async with outage(f"sqlite:///{database}", sabotage) as made:
        for trouble in (troubles.no_writing, troubles.database_full, troubles.read_only, troubles.locked):
            await through(made, trouble, Scene(made.served, database, sabotage))
        made.rejections.clear()
        # Reads may work or fail here; which is not defined.
        async with troubles.corrupted(Scene(made.served, database, sabotage)):
            await made.rejected()
            look_at(made.rejections)
        await made.recovered()
        assert await made.compared() == []


async def test_a_disk_that_is_full(disk: Path) -> None:
    database = disk / "trial.db"
    async with outage(f"sqlite:///{database}") as made:
        await through(made, troubles.disk_full, Scene(made.served, database, disk))
        assert await made.compared() == []


async def test_a_broken_file_is_not_opened(tmp_path: Path) -> None:
    database = tmp_path / "trial.db"
    with closing(sqlite3.connect(database)) as other:
        other.execute("CREATE TABLE some (thing)")
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.write(os.urandom(size))
    with pytest.raises(NotServing) as caught:
        await Stage(f"sqlite:///{database}").start()
    assert "Traceback" not in str(caught.value)
    assert str(database) in str(caught.value)


async def test_a_postgresql_that_stops_and_comes_back(own_postgres: Postgres) -> None:
    store = filled(own_postgres)

    @asynccontextmanager
    async def stopped(_: Scene) -> AsyncIterator[None]:
        own_postgres.stop()
        yield
        own_postgres.start()

    async with outage(store) as made:
        async with made.watched():
            async with stopped(Scene(made.served, Path(), Path())):
                await made.rejected()
                look_at(made.rejections)
            await made.recovered()
        assert await made.compared() == []


async def test_an_outage_is_detected_without_a_caller(own_postgres: Postgres) -> None:
    """An idle server is not ready either: the first caller does not have to detect the outage."""
    async with open_store(filled(own_postgres)) as store:
        assert store.rejection() is None
        own_postgres.stop()
        await until(lambda: store.rejection() is not None)
        own_postgres.start()
        await until(lambda: store.rejection() is None)
