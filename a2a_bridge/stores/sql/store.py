"""SqlStore: the store on SQLite and PostgreSQL, with push configs and the outbox in the same transactions.

`open_sql_store` locks a file, checks the tables, joins the other replicas, and closes in the reverse order.

Rules:
1. One process uses a SQLite file at a time: a lock file beside it names the process, and the system releases
   the lock however the process ends.
2. An empty new file is set up. Any other database without the tables of this version is rejected, and changed
   by the command `db upgrade` only. The steps are in `migrations`.
3. Files are readable for their owner only.
"""

import asyncio
import os
import secrets
import shlex
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, delete, inspect, select, text
from sqlalchemy.exc import OperationalError

from a2a_bridge.cluster.bus import Bus, PollingBus
from a2a_bridge.cluster.cluster import Cluster, HeartThread
from a2a_bridge.cluster.nats_bus import NatsBus, NatsLogin
from a2a_bridge.cluster.session import REPLICA_LIMITS, PostgresSession, SessionError
from a2a_bridge.cluster.tails import Position
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.push.secrets import Vault
from a2a_bridge.stores.ports import Stored, StoreOpenError, unavailable
from a2a_bridge.stores.sql import migrations
from a2a_bridge.stores.sql.commit import SqlJob
from a2a_bridge.stores.sql.database import Database, build_insert, cause, is_database_error, mask_url, parse
from a2a_bridge.stores.sql.push import SqlOutbox
from a2a_bridge.stores.sql.push_configs import SqlPushConfigStore
from a2a_bridge.stores.sql.rows import SharedSqlRecords, SqlRecords
from a2a_bridge.stores.sql.schema import replicas, settings
from a2a_bridge.stores.sql.tasks import positions
from a2a_bridge.stores.store_base import StoreBase

#: the last migration that this version needs
HEAD = "0008"

_TABLE = "alembic_version"
#: Alembic keeps its state in module variables
_ALONE = threading.Lock()
_PAGE_KEY = "page_key"
_OPENED_BY = "opened_by"
#: the first PostgreSQL that reports the status of a transaction
_OLDEST = 13


def revision(connection: Connection) -> str | None:
    """The last applied migration: empty without any tables, None if the tables are not this project's."""
    names = set(inspect(connection).get_table_names())
    found = ""
    if _TABLE in names:
        found = connection.scalar(text(f"SELECT version_num FROM {_TABLE}")) or ""  # noqa: S608  a constant
    return None if not found and names - {_TABLE} else found


def upgrade(connection: Connection) -> None:
    """Runs the missing migrations, in the transaction of the connection."""
    # Slow to import, and not needed by an up-to-date store.
    from alembic import command
    from alembic.config import Config

    with _ALONE:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


Result = TypeVar("Result")


class SqlStore(StoreBase):
    """Implements Store. Use it in the loop in which it was created. beside: the other replicas; None on
    SQLite. page_key: the same for all replicas. vault: encrypts secrets.
    """

    def __init__(
        self,
        database: Database,
        beside: Cluster | None,
        options: StoreOptions,
        *,
        page_key: bytes,
        vault: Vault,
    ) -> None:
        self._database = database
        self._beside = beside
        records = SqlRecords(database) if beside is None else SharedSqlRecords(database, beside)

        def me() -> str:
            return self.me()  # set below

        configs = SqlPushConfigStore(database, self.write, me, vault)
        outbox = SqlOutbox(database, self.write, me, vault)
        configs.on_changed = outbox.redirect
        records.on_deliveries = self.outbox_changed = outbox.outbox_changed
        super().__init__(records, options, page_key=page_key, push_configs=configs, outbox=outbox)

    def rejection(self) -> A2AError | None:
        return unavailable() if self._database.misplaced else super().rejection()

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        """Tasks as the database has them now, for the other replicas. Raises A2AError."""
        return await self._database.read(lambda connection: positions(connection, task_ids), snapshot=False)

    async def _is_present(self, task_id: str, known: Stored) -> bool:
        if self._beside is None:
            return True
        found = (await self.positions([task_id])).get(task_id)
        return found is not None and found.fence == known.version and not found.holder

    async def write(self, work: Callable[[Connection], Result], /, *, order: tuple[str, ...] = ()) -> Result:
        """Runs idempotent `work` in the next transaction, and returns its result once that is durable. order:
        see SqlJob. Raises the errors of `work`, and UNAVAILABLE.
        """
        result: Result = await self.writer.write(SqlJob(work, order))
        return result


@asynccontextmanager
async def open_sql_store(address: str, options: StoreOptions) -> AsyncIterator[SqlStore]:
    """The store at `sqlite:///PATH` or `postgresql://…` while the context is open. Raises StoreOpenError."""
    url = parse(address)
    try:
        vault = Vault(options.keys)
    except ValueError as error:
        raise StoreOpenError(str(error), "--store-key") from None
    except MissingExtraError as error:
        raise StoreOpenError(error.text, error.remedy) from None
    if url.get_backend_name() == "sqlite":
        async with _alone(url, options, vault) as store:
            yield store
    else:
        async with _beside(url, options, vault) as store:
            yield store


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Locks a SQLite file against other processes. Raises StoreOpenError if another process has the lock."""
    # A missing folder is a mistyped path, or a disk that is not mounted; so it is not created.
    if not path.parent.is_dir():
        raise StoreOpenError(
            f"there is no folder {path.parent} for the store", f"mkdir -p {shlex.quote(str(path.parent))}"
        )
    lock = FileLock(f"{path}.lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        text = f"another process works with {path}"
        remedy = "again when that has ended; or, for several processes or workers, --store postgresql://…"
        raise StoreOpenError(text, remedy) from None
    except OSError as error:
        raise StoreOpenError(
            f"{path} cannot be opened: {error.strerror}", "--store sqlite:///ANOTHER"
        ) from None
    try:
        yield
    finally:
        lock.release()


def touch(path: Path) -> None:
    """Creates the file if it does not exist, for its owner only. Raises StoreOpenError."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreOpenError(
            f"{path} cannot be written: {error.strerror}", "--store sqlite:///ANOTHER"
        ) from None


@contextmanager
def report_errors(url: URL) -> Iterator[Database]:
    """A database. Turns its errors while the block runs into a StoreOpenError in plain words."""
    database = Database(url)
    try:
        yield database
    except Exception as error:
        if not is_database_error(error):
            raise
        if not database.sqlite and isinstance(error, OperationalError):
            raise _unreachable(url, cause(error)) from None
        place = url.database if database.sqlite else mask_url(url)
        remedy = "--store sqlite:///ANOTHER, or a copy of the file that is whole"
        raise StoreOpenError(f"{place} cannot be used: {cause(error)}", remedy) from None
    finally:
        database.close()


def _unreachable(url: URL, why: str) -> StoreOpenError:
    place = mask_url(url)
    remedy = f"a2a-bridge db check {place}, until the database answers"
    return StoreOpenError(f"{place} cannot be used: {why}", remedy, unreachable=True)


@asynccontextmanager
async def _alone(url: URL, options: StoreOptions, vault: Vault) -> AsyncIterator[SqlStore]:
    path = Path(str(url.database))
    with lock_file(path):
        # Errors of the database while the store is open are not errors of opening it.
        with report_errors(url) as database:
            page_key, token = await asyncio.to_thread(_prepare, database, path)
        async with AsyncExitStack() as stack:
            database = Database(url)
            stack.push_async_callback(database.finish)
            await asyncio.to_thread(database.anchor, token)
            store = SqlStore(database, None, options, page_key=page_key, vault=vault)
            stack.push_async_callback(store.close)
            yield store


@asynccontextmanager
async def _beside(url: URL, options: StoreOptions, vault: Vault) -> AsyncIterator[SqlStore]:
    login = _login(options) if options.cluster else None
    with report_errors(url) as database:
        page_key = await asyncio.to_thread(_look, database)
    libpq_url = url.set(drivername="postgresql").render_as_string(hide_password=False)
    session, lock_session = PostgresSession(libpq_url), PostgresSession(libpq_url)

    def make_bus(alone: Callable[[], bool]) -> Bus:
        if login is None:
            return PollingBus(session, alone, lambda: os.urandom(16))
        return NatsBus(login, blake2b(page_key, digest_size=8, person=b"a2a cluster").hexdigest())

    beside = Cluster(session, lock_session, make_bus, HeartThread(), lease=options.lease)
    async with AsyncExitStack() as stack:
        database = Database(url, REPLICA_LIMITS)
        stack.push_async_callback(database.finish)
        stack.push_async_callback(beside.close)
        store = SqlStore(database, beside, options, page_key=page_key, vault=vault)
        stack.push_async_callback(store.close)
        try:
            await beside.start(store)
        except SessionError as error:
            raise _unreachable(url, str(error)) from None
        yield store


def _login(options: StoreOptions) -> NatsLogin:
    servers = tuple(one.strip() for one in options.cluster.split(","))
    try:
        return NatsLogin(servers, options.cluster_credentials, options.cluster_ca)
    except MissingExtraError as error:
        raise StoreOpenError(error.text, error.remedy) from None
    except ValueError as error:
        raise StoreOpenError(f"NATS cannot be used: {error}") from None


def _prepare(database: Database, path: Path) -> tuple[bytes, bytes]:
    """The key of page tokens, and the token that this process has noted."""
    touch(path)
    with database.connect(writes=True) as connection:
        with connection.begin():
            if revision(connection) == "":
                upgrade(connection)
        with connection.begin():
            _check(connection, database.url)
            # All earlier holders are dead, because this process has the lock.
            connection.execute(delete(replicas))
            return _page_key(connection), _token(connection)


def _look(database: Database) -> bytes:
    with database.connect() as connection, connection.begin():
        version = connection.dialect.server_version_info
        if version is not None and int(version[0]) < _OLDEST:
            place = mask_url(database.url)
            raise StoreOpenError(f"{place} is PostgreSQL {version[0]}", f"PostgreSQL {_OLDEST} or newer")
        _check(connection, database.url)
        return _page_key(connection)


def _check(connection: Connection, url: URL) -> None:
    found = revision(connection)
    if found == HEAD:
        return
    place = mask_url(url)
    if found is None:
        raise StoreOpenError(f"{place} holds tables of something else", "--store with a database of its own")
    newer = found > HEAD
    text = f"{place} has the tables of {'a newer' if newer else 'an older'} version"
    if not found:
        text = f"{place} has no tables yet"
    raise StoreOpenError(text, "a newer a2a-bridge" if newer else f"a2a-bridge db upgrade {place}")


def _page_key(connection: Connection) -> bytes:
    """The key with which all replicas sign page tokens."""
    fresh = build_insert(connection, settings).values(name=_PAGE_KEY, value=secrets.token_bytes(32))
    connection.execute(fresh.on_conflict_do_nothing())
    return bytes(
        connection.execute(select(settings.c.value).where(settings.c.name == _PAGE_KEY)).scalar_one()
    )


def _token(connection: Connection) -> bytes:
    """Notes a token that no earlier copy of the file contains."""
    token = secrets.token_bytes(16)
    noted = build_insert(connection, settings).values(name=_OPENED_BY, value=token)
    connection.execute(noted.on_conflict_do_update(index_elements=["name"], set_={"value": token}))
    return token
