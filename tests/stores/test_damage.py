"""Damaged rows: an error of that one task, never served as genuine, and found by `db check`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Table, select, update
from typer.testing import CliRunner

from a2a_bridge.cli.db import app
from a2a_bridge.core.call import LEFT_OUT_PARAMETER, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.ports import Registered, Store, TaskQuery
from a2a_bridge.hosting.stores import open_store
from a2a_bridge.hosting.stores.sql.database import Database, parse
from a2a_bridge.hosting.stores.sql.schema import bodies, outbox, push_configs, segments, sends
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.runtime import ServeOptions
from a2a_bridge.testing.store_scene import COMPLETED, HERE, Author
from tests.limits.scene import Waiting, agent, named, peers, served

CONFIG = Registered(hub.TaskPushNotificationConfig(id="c", task_id="bad", url="https://a.example/hook"))


async def _filled(url: str) -> None:
    async with open_store(url) as store:
        await store.push_configs.put(HERE, CONFIG)
        for name in ("good", "bad"):
            author = Author(store, push=True).begin(name)
            author.chunk("some text")
            author.status(COMPLETED)
            await author.writer.synced()
        await store.sends.reserve(HERE, "bad", b"digest", "bad")
        await store.sends.answered(
            HERE, "bad", hub.SendMessageResponse(message=hub.Message(message_id="m")).SerializeToString()
        )


def _alter(url: str, table: Table, column: str, *, known: bool = True) -> None:
    """Changes one bit in the last row of the bad task. known: whether there is a checksum; without one,
    truncates the row.
    """
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
        with pytest.raises(A2AError) as damaged:
            await call(store)
        assert damaged.value.reason is Reason.DATA_LOSS
        assert damaged.value.metadata == {"taskId": "bad"}
        good = await store.get(HERE, "good")
        assert good is not None


async def test_a_list_leaves_out_damaged_tasks(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await _filled(url)
    _alter(url, bodies, "data")
    async with open_store(url) as store:
        page = await store.list(HERE, TaskQuery())
        assert [task.id for task in page.tasks] == ["good"]
        assert page.total == 2
        assert page.left_out == 1
    options = ServeOptions(store=url, middleware=[named])
    async with served(agent(Waiting()), options) as server, peers(server, name=HERE.owner) as callers:
        for kind, peer in callers.items():
            context = CallContext()
            listed = await peer.list_tasks(hub.ListTasksRequest(tenant=HERE.tenant), context)
            assert [task.id for task in listed.tasks] == ["good"], kind
            assert context.reply[LEFT_OUT_PARAMETER] == "1", kind
    assert [one for one in caplog.messages if "bad is damaged" in one]


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


def _checked(url: str, tables: list[str]) -> None:
    result = CliRunner().invoke(app, ["check", url, "--output", "json"])
    assert result.exit_code == (1 if tables else 0), result.output
    found = json.loads(result.stdout)["damaged"]
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
