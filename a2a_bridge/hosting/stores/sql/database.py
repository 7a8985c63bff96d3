"""Connections to SQLite or PostgreSQL, and reading through them in threads. Writing is the business of
`writer`.

Rules:
1. SQLite: write-ahead log, and every commit is on the disk when it returns (synchronous=FULL).
2. What the database throws is `failed`; callers get UNAVAILABLE, and the log the cause. Anything else is a
   mistake here.
3. No text of the database, and nothing of its URL, reaches a caller.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.extras import MissingExtraError, load
from a2a_bridge.hosting.stores.errors import StoreOpenError
from a2a_bridge.hosting.stores.sql.file_watch import FileWatch

log = logging.getLogger("a2a_bridge.store")

Result = TypeVar("Result")

#: connections that read at the same time
_READERS = 4
#: seconds to wait for another process that writes the same SQLite file, such as `a2a-bridge push retry`
_BUSY = 5.0
#: seconds until a PostgreSQL that does not answer counts as gone
_CONNECT = 5
#: seconds that a caller waits for what it reads, and the end for what is still being read
_READ, _LAST_READS = 20.0, 5.0

#: what a URL may say after the question mark that is no secret
_PLACES = ("host", "port", "dbname")

#: of the connection that writes, in KiB: the indexes of a million tasks
_WRITER_CACHE = 65536

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "cache_size=-16384",  # KiB, of each connection that reads
    "journal_size_limit=67108864",
)


class Database:
    """An engine and the threads that read through it.

    url: as `parse` gave it.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self.engine = _engine(url)
        self.sqlite = url.get_backend_name() == "sqlite"
        self._anchor: Connection | None = None
        self._watch: FileWatch | None = None
        self._threads = ThreadPoolExecutor(_READERS, "a2a store reader")

    @property
    def path(self) -> Path | None:
        """The file, where it is one."""
        return Path(str(self.url.database)) if self.sqlite else None

    def connect(self, *, writes: bool = False) -> Connection:
        """A connection; `close` it. It is not shared with anybody until then."""
        connection = self.engine.connect()
        return connection.execution_options(writes=True) if writes else connection

    def hasten(self, connection: Connection) -> None:
        """Makes a connection quick at doing the same thing with other numbers, again and again."""
        if self.sqlite:
            connection.exec_driver_sql(f"PRAGMA cache_size=-{_WRITER_CACHE}")
            connection.rollback()
        else:
            from psycopg.types.numeric import Int8Dumper  # it has none without PostgreSQL

            driver: Any = connection.connection.driver_connection
            # Else each mixture of small and large numbers is a statement of its own to prepare.
            driver.adapters.register_dumper(int, Int8Dumper)
            driver.prepared_max = 512

    async def read(self, work: Callable[[Connection], Result], /) -> Result:
        """Does `work` in a thread and in one transaction that sees one moment. Raises UNAVAILABLE."""
        try:
            async with asyncio.timeout(_READ):
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)
        except TimeoutError:
            log.warning("the store does not answer")
            raise unavailable() from None

    @property
    def misplaced(self) -> bool:
        """Whether the SQLite file is not the one at its path any more. Always false until it is anchored."""
        return self._watch is not None and self._watch.wrong() != ""

    def check_place(self) -> None:
        """Raises FileChangedError when the SQLite file is not the one at its path any more."""
        if self._watch is not None:
            self._watch.check()

    def anchor(self, token: bytes = b"") -> None:
        """Keeps a SQLite file open, and watches it. Where the last connection goes, its index of the log goes
        too, and on a disk that takes no writes nobody could read any more.

        token: noted in the file by this process, see `file_watch`.
        """
        if self.sqlite and self._anchor is None:
            self._anchor = self.engine.connect()
            self._anchor.exec_driver_sql("SELECT count(*) FROM sqlite_master")
            self._anchor.rollback()
            self._watch = FileWatch(Path(str(self.url.database)), token, self.engine.connect)

    async def finish(self) -> None:
        """Closes it, after what is being read. A database that does not answer keeps nobody for long."""
        closing = asyncio.ensure_future(asyncio.to_thread(self.close))
        _, late = await asyncio.wait({closing}, timeout=_LAST_READS)
        if late:
            log.error("the store does not answer; its connection is not closed")
        else:
            closing.result()

    def close(self) -> None:
        """Closes what nobody uses. Whoever holds a connection closes it first."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None
        self.engine.dispose()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        try:
            try:
                return self._read_once(work)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # It had been idle, and the server had closed it: with a new one nobody need know.
                return self._read_once(work)
        except Exception as error:
            if not failed(error):
                raise
            log.warning("the store cannot be read: %s", cause(error))
            raise unavailable() from error

    def _read_once(self, work: Callable[[Connection], Result]) -> Result:
        with self.engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901
            return work(connection)


def parse(url: str) -> URL:
    """The parts of `sqlite:///PATH` or `postgresql://…`. Raises StoreOpenError."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreOpenError("the URL of the store cannot be read", "--store sqlite:///PATH") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreOpenError("the URL of the store names no file", "--store sqlite:///PATH or memory://")
        return parsed.set(drivername="sqlite+pysqlite", query={})
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreOpenError(f"there is no store {backend}://", "--store sqlite:///PATH or postgresql://…")


def inserting(connection: Connection, table: Table) -> Any:
    """An INSERT that may say what becomes of a conflict, which both databases spell alike and SQLAlchemy does
    not.
    """
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def shown(url: URL) -> str:
    """Where a database is, for whoever reads a message: without what may be secret, wherever in the URL that
    stands.
    """
    query = {name: value for name, value in url.query.items() if name in _PLACES}
    return url.set(drivername=url.get_backend_name(), password=None, query=query).render_as_string()


def failed(error: BaseException) -> bool:
    """Whether an error is the database's doing: lost, full, read-only, corrupted, locked."""
    if isinstance(error, SQLAlchemyError):
        return True
    if isinstance(error, sqlite3.Error):
        return True
    return type(error).__module__.partition(".")[0] == "psycopg"


def cause(error: BaseException) -> str:
    """What to log of an error of the database: without statements and parameters, which hold what users
    said.
    """
    origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(origin).__name__}: {str(origin).strip()}"


def unavailable(seconds: float = 1.0) -> A2AError:
    """The error for callers while the database does not work."""
    text = "the agent's store is not available; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=seconds)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url,
            connect_args={
                "check_same_thread": False,
                "isolation_level": None,
                "timeout": _BUSY,
                "cached_statements": 512,
            },
            pool_size=_READERS + 1,
            max_overflow=-1,
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine
    try:
        load("psycopg", "postgres")  # where it is missing this says so, and not SQLAlchemy
    except MissingExtraError as error:
        raise StoreOpenError(error.text, error.remedy) from None
    return create_engine(
        url,
        connect_args={
            "connect_timeout": _CONNECT,
            "prepare_threshold": 3,
            # A server that has vanished without a word is noticed all the same.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
        pool_size=_READERS + 1,
        max_overflow=-1,
    )


def _prepare(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    # The driver would begin by itself, and too late: a writer has to be one from its first statement.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
