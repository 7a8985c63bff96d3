"""Damaged rows: an error of that one task, never served as genuine, and found by `db check`."""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from sqlalchemy import Table, and_, select, update
from typer.testing import CliRunner

from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.cli.store_commands import db as app
from a2a_bridge.core.call import LEFT_OUT_PARAMETER, CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import Registered, Scope, Store, TaskQuery
from a2a_bridge.stores.sql.database import Database, parse
from a2a_bridge.stores.sql.schema import bodies, outbox, push_configs, segments, sends, tasks
from a2a_bridge.testing.store_scene import COMPLETED, ELSEWHERE, HERE, INPUT, WORKING, Author, found
from tests.limits.scene import Waiting, agent, named, peers, served
from tests.rejections import rejected


async def _filled(url: str, *, both: bool = False) -> None:
    """A good task and a bad one. both: the good one has a config and a message too."""
    async with open_store(url) as store:
        for name in ("good", "bad"):
            complete = both or name == "bad"
            if complete:
                config = hub.TaskPushNotificationConfig(id="c", task_id=name, url="https://a.example/hook")
                await store.push_configs.put(HERE, Registered(config))
            author = Author(store, push=True).begin(name)
            author.chunk("some text")
            author.status(COMPLETED)
            await author.writer.sync()
            if complete:
                answer = hub.SendMessageResponse(message=hub.Message(message_id="m"))
                await store.sends.reserve(HERE, name, b"digest", name)
                await store.sends.store_response(HERE, name, answer.SerializeToString())


def _alter(url: str, table: Table, column: str, *, known: bool = True) -> None:
    """Changes a bit in the last row of the bad task; truncates it if there is no checksum (`known`)."""
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        mine = table.c.task == "bad"
        data = bytes(connection.execute(select(table.c[column]).where(mine)).all()[-1][0])
        changed = data[:-3] + bytes((data[-3] ^ 1,)) + data[-2:] if known else data[:-1]
        values: dict[str, Any] = {column: changed} if known else {column: changed, "checksum": None}
        connection.execute(update(table).where(mine, table.c[column] == data).values(values))
    database.close()


async def _get(store: Store) -> None:
    await store.get(HERE, "bad")


async def _read(store: Store) -> None:
    subscription = store.subscribe("bad", 0)
    try:
        while await subscription.take():
            pass
    finally:
        subscription.close()


async def _config(store: Store) -> None:
    await store.push_configs.get(HERE, "bad", "c")


async def _send(store: Store) -> None:
    await store.sends.reserve(HERE, "bad", b"digest", "bad")


@pytest.mark.parametrize(
    ("table", "column", "call", "known"),
    [
        (bodies, "data", _get, True),
        (bodies, "data", _get, False),
        (segments, "data", _read, True),
        (segments, "data", _read, False),
        (push_configs, "data", _config, True),
        (sends, "answer", _send, True),
    ],
)
async def test_damage_is_an_error_of_that_task(
    url: str, table: Table, column: str, call: Callable[[Store], Awaitable[None]], known: bool
) -> None:
    await _filled(url)
    _alter(url, table, column, known=known)
    async with open_store(url) as store:
        with rejected(Reason.DATA_LOSS) as damaged:
            await call(store)
        assert damaged.value.metadata == {"taskId": "bad"}
        good = await store.get(HERE, "good")
        assert good is not None


async def test_a_list_leaves_out_damaged_tasks(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await _filled(url)
    _alter(url, bodies, "data")
    async with open_store(url) as store:
        page = await store.list(HERE, TaskQuery())
        assert ([task.id for task in page.tasks], page.total, page.left_out) == (["good"], 2, 1)
    options = ServeOptions(store=url, middleware=[named])
    async with served(agent(Waiting()), options) as server, peers(server, name=HERE.owner) as callers:
        for kind, peer in callers.items():
            context = CallContext()
            listed = await peer.list_tasks(hub.ListTasksRequest(tenant=HERE.tenant), context)
            assert [task.id for task in listed.tasks] == ["good"], kind
            assert context.reply[LEFT_OUT_PARAMETER] == "1", kind
    assert [one for one in caplog.messages if "bad is damaged" in one]


async def test_damage_hides_no_other_task_that_is_read_with_it(url: str) -> None:
    await _filled(url)
    _alter(url, bodies, "data")
    async with open_store(url) as store:
        bad, good = await store.get_many([(HERE, "bad"), (HERE, "good")])
        assert bad is None
        assert good == await store.get(HERE, "good")


async def test_a_damaged_notification_holds_up_no_other(url: str) -> None:
    await _filled(url)
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        first = connection.execute(select(outbox).order_by(outbox.c.number)).first()
        assert first is not None
        connection.execute(update(outbox).where(outbox.c.number == first.number).values(event=b"\x0a\x01a"))
    database.close()
    async with open_store(url) as store:
        assert await store.outbox.due(10, lambda _: 10) == []
        (delivery,) = await store.outbox.due(10, lambda _: 10)
        assert delivery.sequence == first.sequence + 1
        (dead,) = await store.outbox.entries(dead=True)
        assert (dead.number, dead.error) == (first.number, "the notification is damaged in the store")


async def test_rows_of_before_there_were_checksums_are_taken_as_they_are(url: str) -> None:
    await _filled(url)
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        for table in (bodies, segments, push_configs, sends, outbox):
            assert connection.execute(update(table).values(checksum=None)).rowcount > 0
    database.close()
    async with open_store(url) as store:
        for call in (_get, _read, _config, _send):
            await call(store)
        assert len(await store.outbox.due(10, lambda _: 10)) == 1
    _checked(url, [])


def _as_before(url: str) -> None:
    """Gives all rows the checksums that versions before this one wrote: of the content alone."""
    content = {bodies: ["data"], segments: ["data"], sends: ["answer"], outbox: ["event"]}
    content[push_configs] = ["data", "aside"]
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        for table, columns in content.items():
            rows = connection.execute(select(table)).all()
            assert rows
            for row in rows:
                here = and_(*(column == getattr(row, column.name) for column in table.primary_key))
                checksum = crc32(b"".join(getattr(row, column) for column in columns))
                connection.execute(update(table).where(here).values(checksum=checksum))
    database.close()


async def test_checksums_of_the_content_alone_are_still_verified(url: str) -> None:
    await _filled(url)
    _as_before(url)
    _checked(url, [])
    async with open_store(url) as store:
        for call in (_get, _read, _config, _send):
            await call(store)
        assert len(await store.outbox.due(10, lambda _: 10)) == 1
    _alter(url, bodies, "data")
    _checked(url, ["bodies"])


def _exchange(url: str, table: Table, column: str) -> None:
    """Gives the rows of the good task and of the bad one each other's content, with its checksum."""
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        names = {"good": "bad", "bad": "good"}
        found = {
            name: connection.execute(select(table).where(table.c[column] == name)).all() for name in names
        }
        for name, other in names.items():
            for mine, others in zip(found[name], found[other], strict=True):
                here = and_(*(one == getattr(mine, one.name) for one in table.primary_key))
                values = {one: getattr(others, one) for one in _CONTENT if one in table.c}
                connection.execute(update(table).where(here).values(values))
    database.close()


_CONTENT = ("data", "aside", "answer", "event", "digest", "checksum")


@pytest.mark.parametrize(
    ("table", "column", "call"),
    [
        (bodies, "task", _get),
        (segments, "task", _read),
        (push_configs, "task", _config),
        (sends, "message", _send),
    ],
)
async def test_the_row_of_another_key_is_not_served(
    url: str, table: Table, column: str, call: Callable[[Store], Awaitable[None]]
) -> None:
    await _filled(url, both=True)
    _exchange(url, table, column)
    async with open_store(url) as store:
        with rejected(Reason.DATA_LOSS) as damaged:
            await call(store)
        assert damaged.value.metadata == {"taskId": "bad"}
        page = await store.list(HERE, TaskQuery())
        assert page.left_out == (2 if table is bodies else 0)
    rows = _found(url)
    assert {row["table"] for row in rows} == {table.name}
    assert {row["task"] for row in rows} == {"good", "bad"}


async def test_the_notification_of_another_task_is_not_delivered(url: str) -> None:
    await _filled(url, both=True)
    _exchange(url, outbox, "task")
    async with open_store(url) as store:
        assert await store.outbox.due(10, lambda _: 10) == []
    assert {row["table"] for row in _found(url)} == {"outbox"}


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
async def test_a_task_is_not_served_to_another_scope(url: str, elsewhere: Scope) -> None:
    """After damage to the row of the task, or to an index that leads to it."""
    await _filled(url)
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        moved = {"tenant": elsewhere.tenant, "owner": elsewhere.owner}
        connection.execute(update(tasks).where(tasks.c.id == "bad").values(moved))
    database.close()
    async with open_store(url) as store:
        with rejected(Reason.DATA_LOSS):
            await store.get(elsewhere, "bad")
        page = await store.list(elsewhere, TaskQuery())
        assert (page.tasks, page.left_out) == ([], 1)
    _checked(url, ["bodies"])


def _mislead(path: Path) -> None:
    """Damages the index of the bodies: the entry of the bad task names the row of the good one."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT task, rowid FROM bodies ORDER BY task").fetchall()
        assert rows == [("bad", 2), ("good", 1)]
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        index = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'bodies'"
        start = (connection.execute(index).fetchone()[0] - 1) * size
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # Length of the header, a text of three bytes, an integer of one; then both.
    entry = b"\x03\x13\x01bad"
    whole = path.read_bytes()
    page = whole[start : start + size]
    assert page.count(entry + b"\x02") == 1
    page = page.replace(entry + b"\x02", entry + b"\x01")
    path.write_bytes(whole[:start] + page + whole[start + size :])


async def test_a_damaged_index_does_not_lead_to_another_task(sqlite_url: str) -> None:
    await _filled(sqlite_url)
    _mislead(Path(sqlite_url.removeprefix("sqlite:///")))
    async with open_store(sqlite_url) as store:
        with rejected(Reason.DATA_LOSS):
            await store.get(HERE, "bad")
    _checked(sqlite_url, ["bodies"])


async def test_a_task_whose_log_has_a_hole_is_damaged(url: str) -> None:
    async with open_store(url) as store:
        # So large that its events are not worth a new body.
        task = hub.Task(id="bad", status={"state": WORKING}, metadata={"text": 1000 * "x"})
        author = Author(store).begin(task)
        for piece in ("a", "b", "c"):
            await author.sync()
            author.chunk(piece)
        author.status(INPUT)
        await author.release()
        assert (await found(store, "bad")).applied == 1
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        connection.execute(segments.delete().where(segments.c.task == "bad", segments.c.first == 3))
    database.close()
    async with open_store(url) as store:
        with rejected(Reason.DATA_LOSS):
            await store.get(HERE, "bad")
        assert (await store.list(HERE, TaskQuery())).left_out == 1
    _checked(url, ["tasks"])


def _found(url: str) -> list[dict[str, str]]:
    result = CliRunner().invoke(app, ["check", url, "--output", "json"])
    found: list[dict[str, str]] = json.loads(result.stdout)["damaged"]
    assert result.exit_code == (1 if found else 0), result.output
    return found


def _checked(url: str, tables: list[str]) -> None:
    found = _found(url)
    assert [one["table"] for one in found] == tables
    assert {one["task"] for one in found} <= {"bad"}


async def test_all_of_it_is_found_by_a_check(url: str) -> None:
    await _filled(url)
    _checked(url, [])
    columns = {bodies: "data", segments: "data", sends: "answer", push_configs: "data", outbox: "event"}
    for table, column in columns.items():
        _alter(url, table, column)
    _checked(url, [table.name for table in columns])
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        connection.execute(bodies.delete().where(bodies.c.task == "bad"))
    database.close()
    _checked(url, ["segments", "sends", "push_configs", "outbox", "tasks"])
