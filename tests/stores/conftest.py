"""Databases with tables, and the stores that tests open on them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from a2a_bridge.stores.sql.database import Database, parse
from a2a_bridge.stores.sql.store import upgrade
from tests.postgres import Postgres


def filled(url: str) -> None:
    """Creates the tables."""
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        upgrade(connection)
    database.close()


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "store.db"
    filled(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """The address of a new SQLite store."""
    shutil.copy(_sqlite_template, tmp_path / "store.db")
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(scope="session")
def _postgres_template(postgres: Postgres) -> str:
    url = postgres.create()
    filled(url)
    return str(make_url(url).database)


@pytest.fixture
def postgres_url(postgres: Postgres, _postgres_template: str) -> Iterator[str]:
    """The address of a new PostgreSQL store."""
    url = postgres.create(_postgres_template)
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of a new store of either kind."""
    name: str = request.param
    return str(request.getfixturevalue("sqlite_url" if name == "sqlite" else "postgres_url"))


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], str]:
    """Copies the files of a SQLite store, as a killed process leaves them; returns the address of the copy."""

    def copy(url: str) -> str:
        number = sum(1 for _ in tmp_path.glob("copy*"))
        folder = tmp_path / f"copy{number}"
        folder.mkdir()
        path = Path(url.removeprefix("sqlite:///"))
        for suffix in ("", "-wal"):
            if Path(f"{path}{suffix}").exists():
                shutil.copy(f"{path}{suffix}", folder)
        return f"sqlite:///{folder / path.name}"

    return copy
