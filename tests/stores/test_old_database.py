"""A database of an earlier version is upgraded, opens and loses nothing.

`old_database.sql` is the dump of a SQLite store that a process of version cae638a left behind when it was
killed: an ended task with a webhook, its notifications and one dead letter, a task that waits, one of another
caller, one in work, and two messages that were sent. Its key is below.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, Sent
from a2a_bridge.stores.sql.checking import find_damaged
from a2a_bridge.stores.sql.store import open_sql_store
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
