"""Connections to SQLite or PostgreSQL, and reads in threads. `writer` does the writing.

Rules:
1. SQLite: write-ahead log, and every commit is on the disk when it returns (synchronous=FULL).
2. Errors of the database are the errors for which `is_database_error` is true; callers get UNAVAILABLE, the
   log gets the cause. Anything else is a defect here.
3. No text of the database, and nothing of its URL, reaches a caller.
4. After `anchor`, a connection neither creates the SQLite file nor opens another file at its path: SQLite
   would begin a new database there and destroy the log of the open one, and with it acknowledged commits.
"""

import asyncio
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from a2a_bridge.cluster.session import COMMAND_LIMITS, SET_LIMITS, WRITER_LIMITS, limit_arguments
from a2a_bridge.core.extras import MissingExtraError, load
from a2a_bridge.stores.ports import StoreOpenError, unavailable
from a2a_bridge.stores.sql.file_watch import FileWatch

log = logging.getLogger("a2a_bridge.store")

Result = TypeVar("Result")

#: connections for concurrent reads
_READERS = 4
#: seconds to wait for another process that writes the same SQLite file, such as `a2a-bridge push retry`
_BUSY = 5.0
#: seconds until a PostgreSQL without a response counts as unreachable
_CONNECT = 5
#: seconds without a read after which idle connections to PostgreSQL are closed
_IDLE = 30.0
#: seconds that a caller waits for a read, and that `finish` waits for running reads
_READ, _LAST_READS = 20.0, 5.0

#: how PostgreSQL reports a session that it has ended: an administrator, or a client that said nothing
_ENDED = ("57P01", "25P03")

#: parameters in the query of a URL that are not secret
_PLACES = ("host", "port", "dbname")

#: cache of the writing connection, in KiB: the indexes of a million tasks
_WRITER_CACHE = 65536

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "cache_size=-16384",  # KiB, of each reading connection
    "journal_size_limit=67108864",
)


class Database:
    """An engine, and threads that read through it. url: from `parse`. limits: see `cluster.session`."""

    def __init__(self, url: sa.URL, limits: Mapping[str, str] = COMMAND_LIMITS) -> None:
        self.url = url
        self.engine = _engine(url, self._check_path, limits)
        self.sqlite = url.get_backend_name() == "sqlite"
        self._anchor: sa.Connection | None = None
        self._watch: FileWatch | None = None
        self._threads = ThreadPoolExecutor(_READERS, "a2a store reader")
        self._last_read = 0.0
        self._resting: asyncio.TimerHandle | None = None

    def connect(self, *, writes: bool = False) -> sa.Connection:
        """A new connection, which the caller has to `close`. It is not shared until then."""
        connection = self.engine.connect()
        return connection.execution_options(writes=True) if writes else connection

    def hasten(self, connection: sa.Connection) -> None:
        """Prepares the writing connection for the same statements with many different values."""
        if self.sqlite:
            connection.exec_driver_sql(f"PRAGMA cache_size=-{_WRITER_CACHE}")
            connection.rollback()
        else:
            from psycopg.types.numeric import Int8Dumper  # only installed with PostgreSQL

            driver: Any = connection.connection.driver_connection
            # Otherwise each mixture of small and large numbers would be a prepared statement of its own.
            driver.adapters.register_dumper(int, Int8Dumper)
            driver.prepared_max = 512
            limit(connection, WRITER_LIMITS)

    async def read(self, work: Callable[[sa.Connection], Result], /, *, snapshot: bool = True) -> Result:
        """Runs `work` in a thread, in one transaction with a consistent snapshot. Raises UNAVAILABLE.
        snapshot: False if its statements may see different states: then PostgreSQL does not begin and end a
        transaction, which takes longer than a small statement.
        """
        loop = asyncio.get_running_loop()
        self._last_read = loop.time()
        if self._resting is None and not self.sqlite:
            self._resting = loop.call_later(_IDLE, self._rest, loop)
        try:
            async with asyncio.timeout(_READ):
                return await loop.run_in_executor(self._threads, self._read, work, snapshot)
        except TimeoutError:
            log.warning("the store does not answer")
            raise unavailable() from None

    @property
    def misplaced(self) -> bool:
        """True if the open SQLite file is no longer the file at its path. Always false before `anchor`."""
        return self._watch is not None and self._watch.wrong() != ""

    def check_place(self) -> None:
        """Raises FileChangedError if the open SQLite file is no longer the file at its path."""
        if self._watch is not None:
            self._watch.check()

    def anchor(self, token: bytes = b"") -> None:
        """Keeps a SQLite file open, and watches it. Closing the last connection would delete the index of the
        log, and on a read-only disk no later connection could read. token: see `file_watch`.
        """
        if self.sqlite and self._anchor is None:
            self._anchor = self.engine.connect()
            self._anchor.exec_driver_sql("SELECT count(*) FROM sqlite_master")
            self._anchor.rollback()
            if hasattr(os, "pread"):  # not on Windows, which keeps an open file from being deleted
                self._watch = FileWatch(Path(str(self.url.database)), token, self.engine.connect)

    async def finish(self) -> None:
        """Closes the database after the running reads, for which it waits a short time only."""
        if self._resting is not None:
            self._resting.cancel()
        closing = asyncio.ensure_future(asyncio.to_thread(self.close))
        _, late = await asyncio.wait({closing}, timeout=_LAST_READS)
        if late:
            log.error("the store does not answer; its connection is not closed")
        else:
            closing.result()

    def close(self) -> None:
        """Closes idle connections. All others have to be closed by their users first."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None
        self.engine.dispose()
        watch, self._watch = self._watch, None  # first: another thread may look at it
        if watch is not None:
            watch.close()

    def _check_path(self) -> None:
        if self._watch is not None:
            self._watch.check_path()

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes idle connections, unless there was a read meanwhile: a server has few, and many replicas."""
        left = self._last_read + _IDLE - loop.time()
        self._resting = loop.call_later(left, self._rest, loop) if left > 0 else None
        if left <= 0:
            self._threads.submit(self.engine.pool.dispose)

    def _read(self, work: Callable[[sa.Connection], Result], snapshot: bool) -> Result:
        try:
            try:
                return self._read_once(work, snapshot)
            except DBAPIError as error:
                if not (error.connection_invalidated or _is_ended(error)):
                    raise
                # The server had closed the idle connection: a new connection is used.
                return self._read_once(work, snapshot)
        except Exception as error:
            if not is_database_error(error):
                raise
            log.warning("the store cannot be read: %s", cause(error))
            raise unavailable() from error

    def _read_once(self, work: Callable[[sa.Connection], Result], snapshot: bool) -> Result:
        with self.engine.connect() as connection:
            if not self.sqlite:
                level = "REPEATABLE READ" if snapshot else "AUTOCOMMIT"
                connection = connection.execution_options(isolation_level=level)  # noqa: PLW2901
            return work(connection)


#: a file
_PATH = re.compile(r"[\w./ ~-]+")


def parse(url: str) -> sa.URL:
    """The parts of `sqlite:///PATH` or `postgresql://…`. Raises StoreOpenError."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        # Other texts may be URLs with a typing error and a password.
        if _PATH.fullmatch(url):
            text = f"the store is a URL, and {url} is none"
            raise StoreOpenError(text, f"--store sqlite:///{url}") from None
        raise StoreOpenError("the URL of the store cannot be read", "--store sqlite:///PATH") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreOpenError("the URL of the store names no file", "--store sqlite:///PATH or memory://")
        if parsed.query:
            raise StoreOpenError("the URL of a SQLite store has no parameters", "--store sqlite:///PATH")
        return parsed.set(drivername="sqlite+pysqlite")
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreOpenError(f"there is no store {backend}://", "--store sqlite:///PATH or postgresql://…")


def build_insert(connection: sa.Connection, table: sa.Table) -> Any:
    """An INSERT with conflict clauses: alike in both databases, and missing in SQLAlchemy's plain INSERT."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def present(connection: sa.Connection) -> sa.ColumnElement[float]:
    """The present time in a statement, in seconds since the epoch, by the clock of the database."""
    if connection.dialect.name == "sqlite":
        return sa.literal(time.time(), sa.Float)
    return sa.cast(sa.func.extract("epoch", sa.func.now()), sa.Float)


def mask_url(url: sa.URL) -> str:
    """The place of a database for messages: without anything in the URL that may be secret."""
    query = {name: value for name, value in url.query.items() if name in _PLACES}
    return url.set(drivername=url.get_backend_name(), password=None, query=query).render_as_string()


def is_database_error(error: BaseException) -> bool:
    """True if an error comes from the database: lost, full, read-only, corrupted, locked."""
    is_known = isinstance(error, (SQLAlchemyError, sqlite3.Error))
    return is_known or type(error).__module__.partition(".")[0] == "psycopg"


def cause(error: BaseException) -> str:
    """The loggable part of a database error: without statements and parameters, which contain users' data."""
    origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(origin).__name__}: {str(origin).strip()}"


def limit(connection: sa.Connection, settings: Mapping[str, str]) -> None:
    """Changes settings of a session on PostgreSQL, in a transaction of its own."""
    connection.exec_driver_sql(SET_LIMITS, limit_arguments(settings))
    connection.commit()


def _is_ended(error: DBAPIError) -> bool:
    """True if PostgreSQL has ended the session. SQLAlchemy does not know all of its reasons."""
    return getattr(error.orig, "sqlstate", None) in _ENDED


def _engine(url: sa.URL, check_path: Callable[[], None], limits: Mapping[str, str]) -> sa.Engine:
    """check_path: raises if a new connection to SQLite must not be made. limits: of PostgreSQL's sessions."""
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database)).absolute().as_uri()
        created = False

        def connect() -> sqlite3.Connection:
            nonlocal created
            check_path()
            connection = sqlite3.connect(
                f"{path}?mode={'rw' if created else 'rwc'}",
                uri=True,
                check_same_thread=False,
                isolation_level=None,
                timeout=_BUSY,
                cached_statements=512,
            )
            created = True
            return connection

        engine = sa.create_engine(
            url,
            creator=connect,
            pool_size=_READERS + 1,
            max_overflow=-1,
        )
        sa.event.listen(engine, "connect", _prepare)
        sa.event.listen(engine, "begin", _begin)
        return engine
    try:
        load("psycopg", "postgres")  # its error names the missing package; SQLAlchemy's does not
    except MissingExtraError as error:
        raise StoreOpenError(error.text, error.remedy) from None
    engine = sa.create_engine(
        url,
        connect_args={
            "connect_timeout": _CONNECT,
            "prepare_threshold": 3,
            # So that a server that vanished without closing is detected.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
        pool_size=_READERS + 1,
        max_overflow=-1,
    )

    def begin_session(connection: Any, _: Any) -> None:
        connection.execute(SET_LIMITS, limit_arguments(limits))
        connection.commit()

    sa.event.listen(engine, "connect", begin_session)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    # The driver's own BEGIN comes too late: a writing transaction has to be one from its first statement.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
