"""Opening stores: tables that are created, checked and rejected, one process per file, and the error messages."""

import asyncio
import os
import re
import sqlite3
import stat
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, text
from typer.testing import CliRunner

from a2a_bridge.cli.store_commands import push as push_commands
from a2a_bridge.cluster.session import PostgresSession, SessionError
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import new_key
from a2a_bridge.stores import StoreOpenError, StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, Sent, TaskQuery, VersionConflictError
from a2a_bridge.stores.records import Expiry
from a2a_bridge.stores.sql import database as sql_database
from a2a_bridge.stores.sql import migrations
from a2a_bridge.stores.sql import store as opening_sql
from a2a_bridge.stores.sql.checking import find_damaged
from a2a_bridge.stores.sql.database import Database, parse
from a2a_bridge.stores.sql.schema import metadata, segments, tasks
from a2a_bridge.stores.sql.store import HEAD, open_sql_store, upgrade
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    FAILED,
    HERE,
    INPUT,
    NOON,
    WORKING,
    Author,
    found,
    ids,
    pages,
    rest,
    take,
)
from tests.patience import PATIENCE
from tests.stores.conftest import filled


def test_the_steps_lead_to_the_tables(url: str) -> None:
    database = Database(parse(url))
    with database.connect() as connection, connection.begin():
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        reflected = inspect(connection)
        for table in metadata.tables.values():
            # Alembic does not compare these.
            assert reflected.get_pk_constraint(table.name)["constrained_columns"] == [
                column.name for column in table.primary_key
            ]
            indexes = {str(index["name"]) for index in reflected.get_indexes(table.name)}
            assert indexes >= {index.name for index in table.indexes}
    database.close()


def test_the_steps_make_the_same_as_the_tables_themselves(tmp_path: Path, sqlite_url: str) -> None:
    """The SQL text of SQLite: the comparison above leaves out options of tables and indexes."""
    other = Database(parse(f"sqlite:///{tmp_path / 'other.db'}"))
    with other.connect(writes=True) as connection, connection.begin():
        metadata.create_all(connection)
    schemas = []
    for database in (Database(parse(sqlite_url)), other):
        with database.connect() as connection:
            rows = connection.execute(
                text("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%'")
            )
            # A column that was added later has other blanks before the same parenthesis.
            flat = {name: " ".join((sql or "").replace('"', "").split()) for name, sql in rows}
            schemas.append({name: re.sub(r" ?([,()]) ?", r"\1", sql) for name, sql in flat.items()})
        database.close()
    schemas[0].pop("sqlite_autoindex_alembic_version_1", None)
    assert schemas[0] == schemas[1]


def test_the_version_that_is_asked_for_is_the_last_step() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_new_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "new.db"
    path.parent.mkdir()
    async with open_store(f"sqlite:///{path}") as store:
        await Author(store).begin("t").sync()
        for one in path.parent.iterdir():
            assert stat.S_IMODE(one.stat().st_mode) & 0o077 == 0, one
    async with open_store(f"sqlite:///{path}") as store:
        assert (await found(store, "t")).task.id == "t"


async def test_a_file_is_one_process_at_a_time(tmp_path: Path) -> None:
    """A killed process releases it, whatever it was doing."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    program = (
        "import asyncio, sys\n"
        "from a2a_bridge.stores import open_store\n"
        "async def main():\n"
        "    async with open_store(sys.argv[1]):\n"
        "        print('open', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, url, stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline() == b"open\n"
        with pytest.raises(StoreOpenError, match="another process"):
            async with open_store(url):
                pass
    finally:
        process.kill()
        await process.wait()
    async with open_store(url) as store:
        assert store.rejection() is None


async def test_two_stores_of_one_process_do_not_share_a_file(sqlite_url: str) -> None:
    async with open_store(sqlite_url):
        with pytest.raises(StoreOpenError, match="another process"):
            async with open_store(sqlite_url):
                pass


@pytest.mark.parametrize(
    ("number", "wanted"),
    [("0000", "an older version"), ("9999", "a newer version"), (None, "something else")],
)
async def test_other_versions_are_rejected(url: str, number: str | None, wanted: str) -> None:
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        if number is None:
            connection.execute(text("DELETE FROM alembic_version"))
        else:
            connection.execute(text("UPDATE alembic_version SET version_num = :number"), {"number": number})
    database.close()
    with pytest.raises(StoreOpenError, match=wanted) as caught:
        async with open_store(url):
            pass
    if number == "0000":
        assert caught.value.remedy.startswith("a2a-bridge db upgrade ")


async def test_a_store_address_is_printed_without_secrets(database: str) -> None:
    with pytest.raises(StoreOpenError, match="no tables yet") as caught:
        async with open_store(f"{database}&password=hidden"):
            pass
    assert "hidden" not in caught.value.text + caught.value.remedy
    # And the named command works, if it needs no secrets.
    assert parse(caught.value.remedy.removeprefix("a2a-bridge db upgrade ")).query == parse(database).query


def test_the_push_command_prints_an_address_without_secrets(database: str) -> None:
    said = CliRunner().invoke(push_commands, ["list", "--store", f"{database}&password=hidden"])
    assert said.exit_code == 2
    assert "a2a-bridge db upgrade postgresql://" in said.stderr
    assert "hidden" not in said.output + said.stderr


async def test_an_empty_postgresql_is_not_filled_by_itself(database: str) -> None:
    with pytest.raises(StoreOpenError, match="no tables yet") as caught:
        async with open_store(database):
            pass
    assert caught.value.remedy.startswith("a2a-bridge db upgrade postgresql://")
    programs = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", "a2a_bridge", "db", "upgrade", database)
        for _ in range(2)
    ]
    async with asyncio.timeout(PATIENCE):
        assert [await program.wait() for program in programs] == [0, 0]
    async with open_store(database) as store:
        assert (await store.list(HERE, TaskQuery())).total == 0


async def test_an_old_postgresql_is_rejected(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening_sql, "_OLDEST", 99)
    with pytest.raises(StoreOpenError) as caught:
        async with open_store(postgres_url):
            pass
    assert " is PostgreSQL 1" in caught.value.text
    assert caught.value.remedy == "PostgreSQL 99 or newer"


async def test_tables_of_something_else_are_rejected(tmp_path: Path, database: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE other (id)")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (id text)")
    for url in (f"sqlite:///{tmp_path / 'x.db'}", database):
        with pytest.raises(StoreOpenError, match="something else"):
            async with open_store(url):
                pass


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://u:hidden@h/d",
        "postgresql://u:hidden@127.0.0.1:1/d",
        "postgresql://u:hidden@/d?host=/nowhere",
        "postgresql://u@127.0.0.1:1/d?password=hidden&sslpassword=hidden",
        "sqlite:////proc/nowhere/x.db",
    ],
)
async def test_open_errors_have_no_secrets(url: str) -> None:
    with pytest.raises(StoreOpenError) as caught:
        async with open_store(url):
            pass
    assert "hidden" not in caught.value.text + caught.value.remedy
    assert caught.value.text


async def test_a_database_that_is_lost_while_it_is_opened_is_unreachable(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any) -> Any:
        raise SessionError("OperationalError")

    monkeypatch.setattr(PostgresSession, "run", run)
    with pytest.raises(StoreOpenError, match="a2a-bridge db check") as caught:
        async with open_store(postgres_url):
            pass
    assert caught.value.unreachable


async def test_a_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreOpenError, match="cannot be used"):
        async with open_store(f"sqlite:///{path}"):
            pass
    assert path.read_bytes() == b"this is no database" * 1000


async def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "no such" / "folder"
    with pytest.raises(StoreOpenError, match="there is no folder") as caught:
        async with open_store(f"sqlite:///{missing}/x.db"):
            pass
    assert caught.value.remedy == f"mkdir -p '{missing}'"
    assert not missing.parent.exists()


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        StoreOpenError, match=r"this needs a2a-transport-bridge\[postgres\], the package psycopg"
    ) as caught:
        async with open_store("postgresql://127.0.0.1/x"):
            pass
    assert "a2a-transport-bridge[postgres]" in caught.value.remedy


async def test_keys_are_looked_at(sqlite_url: str) -> None:
    with pytest.raises(StoreOpenError, match="key"):
        async with open_store(sqlite_url, StoreOptions(keys=["short"])):
            pass
    options = StoreOptions(keys=[new_key()])
    assert options.keys[0] not in repr(options)
    async with open_store(sqlite_url, options) as store:
        assert store.rejection() is None


async def test_closing_writes_pending_changes(url: str) -> None:
    async with open_store(url, StoreOptions(commit_delay=3600.0, ack_timeout=PATIENCE)) as store:
        author = Author(store).begin("t")
        author.status(COMPLETED)
    async with open_store(url) as store:
        assert (await found(store, "t")).task == author.task
        assert len(await rest(store.subscribe("t", 0))) == 2


async def test_a_closed_store_answers_all_waiters(sqlite_url: str) -> None:
    async with open_store(sqlite_url) as store:
        author = await Author(store).begin("t").sync()
    author.chunk("x")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError):
            await author.writer.sync()
        with pytest.raises(A2AError):
            await store.sends.reserve(HERE, "m", b"1", "t")


def test_steps_are_taken_once(url: str) -> None:
    database = Database(parse(url))
    for _ in range(2):
        with database.connect(writes=True) as connection, connection.begin():
            upgrade(connection)
    database.close()


async def test_parameters_of_a_file_are_rejected(tmp_path: Path) -> None:
    """They had no effect."""
    path = tmp_path / "store.db"
    with pytest.raises(StoreOpenError, match="has no parameters"):
        async with open_store(f"sqlite:///{path}?mode=ro"):
            pass
    assert not path.exists()


async def test_connections_that_read_nothing_are_closed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "_IDLE", 0.2)

    def others() -> int:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()"
            ).fetchone()
        assert row is not None
        return int(row[0])

    async with open_store(postgres_url, StoreOptions()) as store:
        for _ in range(2):
            await asyncio.gather(*(store.get(HERE, "t") for _ in range(40)))
            async with asyncio.timeout(PATIENCE):
                # The writer's, and that of the heartbeat.
                while await asyncio.to_thread(others) > 2:  # noqa: ASYNC110  there is no notification
                    await asyncio.sleep(0.05)


# --- What happens to a task while it is opened, between the commit of its lease and the return of `open` ---
async def test_a_lease_that_is_lost_as_soon_as_it_is_durable_is_not_given(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", state=INPUT).release()
        waiting = await found(store, "t")
        told: list[str] = []
        opening = asyncio.ensure_future(store.open(HERE, waiting, lambda: told.append("lost")))
        await asyncio.sleep(0)
        # Between the commit and the return of `open`.
        store.writer.leases["t"].when_synced(lambda _: store.let_go())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(VersionConflictError):
                await opening
        assert told == []


@pytest.mark.parametrize("state", [INPUT, WORKING])
async def test_a_task_that_is_opened_while_its_caller_leaves_is_an_orphan(
    sqlite_url: str, state: hub.TaskState
) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", state=state).release()
        opening = asyncio.ensure_future(store.open(HERE, await found(store, "t"), _unexpected))
        await asyncio.sleep(0)
        told: list[str] = []
        store.on_orphans(lambda: told.append("orphans"))
        told.clear()
        # Between the commit and the return of `open`.
        store.writer.leases["t"].when_synced(lambda _: opening.cancel())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(asyncio.CancelledError):
                await opening
            await store.wait_settled()
        assert told
        assert store.writer.leases == {}
        assert await store.orphans(9) == [(HERE, "t")]


def _unexpected() -> None:
    raise AssertionError("the lease was lost")


# --- A database of an earlier version is upgraded, opens and loses nothing ---
# `old_database.sql` is the dump of a SQLite store that a process of version cae638a left behind when it was
# killed: an ended task with a webhook, its notifications and one dead letter, a task that waits, one of another
# caller, one in work, and two messages that were sent. Its key is below.

DUMP = Path(__file__).with_name("old_database.sql")
KEY = "A2A0x8mS8m0wq2nC0k3Q6l4rX0c0Jz9G3b8l1ZzWv5o="
ELSEWHERE = Scope("nul\0", "bob")
AGES = 1e12
#: the rows are old, but nothing of them has expired
OPTIONS = StoreOptions(keys=(KEY,), events_kept=AGES, sends_kept=AGES, ack_timeout=PATIENCE)


@pytest.fixture
def old_url(tmp_path: Path) -> str:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    url = f"sqlite:///{path}"
    filled(url)  # as `a2a-bridge db upgrade` does
    return url


async def test_tasks_and_events(old_url: str) -> None:
    pieces = [f"piece {number} " for number in range(40)]
    async with open_store(old_url, OPTIONS) as store:
        ended = await found(store, "ended")
        assert (ended.last, ended.task.status.state, ended.holder) == (42, COMPLETED, "")
        assert [one.text for one in ended.task.artifacts[0].parts] == pieces
        assert [one.message_id for one in ended.task.history] == ["joined"]
        assert await rest(store.subscribe("ended", 0)) == [("task", WORKING), *pieces, COMPLETED]
        past = await store.task_at(HERE, "ended", 3)
        assert past is not None
        assert [one.text for one in past.artifacts[0].parts] == pieces[:2]
        assert ids(await pages(store)) == ["ended", "orphan", "waiting"]
        assert [page.total for page in await pages(store, state=INPUT)] == [1]
        assert [page.total for page in await pages(store, context_id="c", since=NOON + 5)] == [2]
        assert [page.total for page in await pages(store, since=NOON - 10**15)] == [3]
        assert (await found(store, "elsewhere", ELSEWHERE)).task.status.state == FAILED
        assert await store.get(HERE, "elsewhere") is None


async def test_work_goes_on(old_url: str) -> None:
    async with open_store(old_url, OPTIONS) as store:
        assert list(await store.orphans(10)) == [(HERE, "orphan")]
        orphan = await Author(store).reopen("orphan")
        assert [one.text for one in orphan.task.artifacts[0].parts] == ["x" * 300, "y"]
        orphan.chunk("z")
        orphan.status(COMPLETED)
        waiting = await Author(store).reopen("waiting")
        waiting.status(COMPLETED)
        await orphan.sync()
        await waiting.sync()
        assert list(await store.orphans(10)) == []
    async with open_store(old_url, OPTIONS) as store:
        assert await take(store.subscribe("orphan", 1), 4) == ["x" * 300, "y", "z", COMPLETED]
        assert (await found(store, "waiting")).task == waiting.task
        assert [page.total for page in await pages(store, state=COMPLETED)] == [3]


async def test_logs_of_tasks_that_ended_before_the_upgrade_expire(old_url: str) -> None:
    async with open_sql_store(old_url, OPTIONS) as store:
        written = await store._database.read(lambda one: one.scalar(select(tasks.c.ended)))
        assert written is not None
        later = time.time() - written - 60
        await store.delete_expired(Expiry(AGES, later + 120, later + 120))
        logs = {"ended", "elsewhere", "orphan", "waiting"}
        assert await store._database.read(lambda one: set(one.scalars(select(segments.c.task)))) == logs
        for _ in range(30):  # a share at a time, because the rows are old
            await store.delete_expired(Expiry(AGES, later, None))
        logs -= {"ended", "elsewhere"}
        assert await store._database.read(lambda one: set(one.scalars(select(segments.c.task)))) == logs
        for _ in range(30):
            await store.delete_expired(Expiry(AGES, later, later))
        assert ids(await pages(store)) == ["orphan", "waiting"]


async def test_messages_configs_and_notifications(old_url: str) -> None:
    answer = hub.SendMessageResponse()
    answer.message.message_id = "a"
    answer.message.parts.add(text="hello")
    async with open_store(old_url, OPTIONS) as store:
        assert await store.sends.reserve(HERE, "m1", b"x", "new") == Sent(b"digest-1", "ended")
        known = await store.sends.reserve(HERE, "m2", b"x", "new")
        assert known == Sent(b"digest-2", "direct", answer.SerializeToString())
        (registered,) = await store.push_configs.list(HERE, "ended")
        assert (registered.version, registered.config.authentication.credentials) == ("0.3", "credential")
        entries = await store.outbox.entries(limit=1000)
        assert [(one.sequence, one.dead) for one in entries] == [(n, n == 1) for n in range(1, 43)]
        (delivery,) = await store.outbox.due(10, lambda _: 10)
        assert (delivery.sequence, delivery.registered.config.token) == (2, "s3cret")


async def test_every_row_is_whole(old_url: str) -> None:
    async with open_sql_store(old_url, OPTIONS) as store:
        assert await store._database.read(lambda connection: list(find_damaged(connection))) == []
