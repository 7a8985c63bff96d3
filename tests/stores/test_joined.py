"""Messages that join a long conversation have rows of their own: a turn writes what it adds."""

import json
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, func, select, update
from typer.testing import CliRunner

from a2a_bridge.cli.store_commands import db as app
from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import TaskQuery
from a2a_bridge.stores.records import Expiry
from a2a_bridge.stores.sql.commit import Committer, SqlGroup
from a2a_bridge.stores.sql.database import Database, parse
from a2a_bridge.stores.sql.schema import joined
from a2a_bridge.stores.sql.store import SqlStore, open_sql_store
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, PATIENCE, Author, found, made, pages
from tests.rejections import rejected

OPTIONS = StoreOptions(ack_timeout=PATIENCE, cache_bytes=0)


def conversation(task_id: str, messages: int) -> hub.Task:
    """A task that waits for its user, with messages of 100 characters."""
    task = made(task_id, state=INPUT)
    for number in range(messages):
        task.history.add(message_id=f"old{number}", role=hub.ROLE_USER).parts.add(text="x" * 100)
    return task


async def turn(store: SqlStore, task_id: str, number: int) -> Author:
    """A message of the user and an answer, as an engine writes them."""
    stored = await store.working_copy(HERE, task_id)
    assert stored is not None
    author = await Author(store).open(stored, wait=False)
    author.amend(f"new{number}")
    await author.sync()
    author.chunk("answer", f"a{number}")
    author.status(INPUT, text=f"question {number}")
    return await author.release()


@pytest.mark.parametrize("kept", [True, False], ids=["copy-kept", "copy-read"])
async def test_a_turn_writes_what_it_adds(url: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of the task after a number of turns that grows with it, so that a read does not become slow."""
    bodies: list[str] = []
    perform = Committer.perform

    def counting(committer: Committer, group: SqlGroup) -> None:
        bodies.extend(one.row.task_id for one in group.changes if one.row.body is not None)
        perform(committer, group)

    async with open_sql_store(url, OPTIONS) as store:
        for name, size in (("short", 400), ("long", 6000)):
            author = await Author(store).begin(conversation(name, size)).sync()
            await author.release()
            monkeypatch.setattr(Committer, "perform", counting)
            for number in range(60):
                if not kept:
                    store._resting.drop_oldest()
                author = await turn(store, name, number)
            monkeypatch.undo()
            assert (await found(store, name)).task == author.task
    assert 5 <= bodies.count("short") <= 12
    assert bodies.count("long") == 0


async def test_the_next_process_finds_them(url: str) -> None:
    async with open_sql_store(url, OPTIONS) as store:
        await (await Author(store).begin(conversation("t", 400)).sync()).release()
        first = (await turn(store, "t", 0)).copy()
        author = await turn(store, "t", 1)
        assert await _rows(store) == 2
    async with open_sql_store(url, OPTIONS) as store:
        assert (await found(store, "t")).task == author.task
        (listed,) = (await store.list(HERE, TaskQuery(artifacts=True))).tasks
        assert listed == author.task
        (many,) = await store.get_many([(HERE, "t")])
        assert many is not None
        assert many.task == author.task
        assert await store.task_at(HERE, "t", 3) == first
        last = await turn(store, "t", 2)
        assert [one.message_id for one in last.task.history[-4:]] == ["s3", "new1", "s5", "new2"]
        ending = await Author(store).reopen("t")
        ending.amend("new3")
        ending.status(COMPLETED)
        await ending.sync()
        assert (await found(store, "t")).task == ending.task
        assert await _rows(store) == 3  # the last one is in the body of the ended task
        await store.delete_expired(Expiry(1e9, -1.0, None))
        assert await _rows(store) == 0
        assert (await found(store, "t")).task == ending.task


async def test_they_go_with_their_task(url: str) -> None:
    async with open_sql_store(url, OPTIONS) as store:
        await (await Author(store).begin(conversation("t", 400)).sync()).release()
        author = await turn(store, "t", 0)
        author = await Author(store).reopen("t")
        author.status(COMPLETED)
        await author.sync()
        assert await _rows(store) == 1
        await store.delete_expired(Expiry(1e9, 1e9, -1.0))
        assert await _rows(store) == 0
        assert [page.total for page in await pages(store)] == [0]


async def test_a_page_of_conversations_is_few_statements(url: str) -> None:
    statements: list[str] = []
    async with open_sql_store(url, OPTIONS) as store:
        for name in "abcdef":
            await (await Author(store).begin(conversation(name, 400)).sync()).release()
            await turn(store, name, 0)
        event.listen(
            store._database.engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        assert len((await store.list(HERE, TaskQuery())).tasks) == 6
    assert sum("FROM joined" in one for one in statements) == 1


def _altered(connection: Connection) -> None:
    connection.execute(
        update(joined).where(joined.c.task == "bad", joined.c.number == 2).values(data=b"\n\0")
    )


def _missing(connection: Connection) -> None:
    connection.execute(delete(joined).where(joined.c.task == "bad", joined.c.number == 2))


def _cut(connection: Connection) -> None:
    connection.execute(delete(joined).where(joined.c.task == "bad", joined.c.number == 3))


def _exchanged(connection: Connection) -> None:
    for number in (2, 3):
        data = select(joined.c.data).where(joined.c.task == "bad", joined.c.number == number)
        one = connection.execute(data).scalar_one()
        where = joined.c.task == "good", joined.c.number == number
        connection.execute(update(joined).where(*where).values(data=one + b"\n\0"))


@pytest.mark.parametrize(
    ("harm", "task", "table"),
    [
        (_altered, "bad", "joined"),
        (_missing, "bad", "tasks"),
        (_cut, "bad", "tasks"),
        (_exchanged, "good", "joined"),
    ],
    ids=["altered", "missing", "cut", "exchanged"],
)
async def test_damage_is_an_error_of_that_task(url: str, harm: Any, task: str, table: str) -> None:
    async with open_sql_store(url, OPTIONS) as store:
        for name in ("bad", "good"):
            await (await Author(store).begin(conversation(name, 400)).sync()).release()
            for number in range(3):
                await turn(store, name, number)
    database = Database(parse(url))
    with database.connect(writes=True) as connection, connection.begin():
        harm(connection)
    database.close()
    async with open_store(url, OPTIONS) as store:
        with rejected(Reason.DATA_LOSS) as damaged:
            await store.get(HERE, task)
        assert damaged.value.metadata == {"taskId": task}
        page = await store.list(HERE, TaskQuery())
        assert (len(page.tasks), page.total, page.left_out) == (1, 2, 1)
    result = CliRunner().invoke(app, ["check", url, "--output", "json"])
    harmed = json.loads(result.stdout)["damaged"]
    assert {(one["table"], one["task"]) for one in harmed} == {(table, task)}


async def _rows(store: SqlStore) -> int:
    query = select(func.count()).select_from(joined)
    return await store._database.read(lambda connection: int(connection.scalar(query) or 0))
