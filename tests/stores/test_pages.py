"""Lists: pages that stay right while tasks change, totals without counting, and tokens for every replica."""

import asyncio
import random
import re
from typing import Any

import pytest
from sqlalchemy import Connection, event

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, TaskQuery
from a2a_bridge.stores.records import Place
from a2a_bridge.stores.sql.schema import bodies, tasks
from a2a_bridge.stores.sql.store import SqlStore, open_sql_store
from a2a_bridge.stores.sql.tasks import Counted, deltas, recount, total
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    ELSEWHERE,
    HERE,
    INPUT,
    NOON,
    ODD,
    WORKING,
    Author,
    ids,
    made,
    pages,
)
from tests.patience import PATIENCE

SECOND = 10**9


async def test_unchanged_tasks_are_on_exactly_one_page(url: str) -> None:
    """Tasks come and change between two pages: each unchanged task is on exactly one page, in order."""
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        authors = [Author(store).begin(f"t{number:03}", NOON + number) for number in range(60)]
        await asyncio.gather(*(author.sync() for author in authors))
        seen: list[str] = []
        token, step = "", 0
        while True:
            page = await store.list(HERE, TaskQuery(page_size=7, page_token=token))
            seen += [task.id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
            # Tasks at the end of the list move to its beginning, and new ones come.
            moved = authors[step]
            moved.status(INPUT, NOON + 1000 + step)
            new = Author(store).begin(f"new{step}", NOON + 2000 + step)
            await asyncio.gather(moved.sync(), new.sync())
            step += 1
        stayed = [f"t{number:03}" for number in reversed(range(60)) if number >= step]
        assert ([one for one in seen if one in set(stayed)], len(seen)) == (stayed, len(set(seen)))
        assert page.total == 60 + step


@pytest.mark.parametrize("seed", [1, 2])
async def test_totals_equal_counting(url: str, seed: int) -> None:
    choose = random.Random(seed)
    spans = [1, 1000, SECOND, 70 * SECOND, 5000 * SECOND, 300_000 * SECOND, 10**8 * SECOND]
    async with open_sql_store(url, StoreOptions(commit_delay=0.001, ack_timeout=PATIENCE)) as store:
        authors: list[Author] = []
        for number in range(80):
            scope = choose.choice([HERE, ELSEWHERE[0]])
            time = NOON + choose.choice(spans) * choose.randrange(-5, 5)
            task = made(f"t{number}", time, choose.choice("xyz"), choose.choice([WORKING, INPUT, COMPLETED]))
            authors.append(Author(store, scope).begin(task))
        for author in choose.sample(authors, 50):
            if author.task.status.state != COMPLETED:
                author.status(choose.choice([WORKING, INPUT, COMPLETED]), NOON + choose.choice(spans))
            await asyncio.sleep(0)
        await asyncio.gather(*(author.sync() for author in authors))
        await _compare(store, authors, choose, spans)
        await store.write(recount)
        await _compare(store, authors, choose, spans)


async def _compare(store: SqlStore, authors: list[Author], choose: random.Random, spans: list[int]) -> None:
    for _ in range(60):
        since = None if choose.random() < 0.3 else NOON + choose.choice(spans) * choose.randrange(-5, 5)
        query = TaskQuery(
            context_id=choose.choice(["", "", "x", "w"]),
            state=choose.choice([0, 0, WORKING, INPUT, COMPLETED]),
            since=since,
            page_size=100,
        )
        page = await store.list(HERE, query)
        wanted = {
            author.task.id
            for author in authors
            if author.scope == HERE
            and (not query.context_id or author.task.context_id == query.context_id)
            and (not query.state or author.task.status.state == query.state)
            and (since is None or author.task.status.timestamp.ToNanoseconds() >= since)
        }
        assert {task.id for task in page.tasks} == wanted
        assert page.total == len(wanted), query


async def test_tasks_that_end_in_the_group_that_made_them_cost_few_counters() -> None:
    places = [Counted("", "", None, Place("c", 3, NOON + number)) for number in range(500)]
    assert len(deltas(places)) == 2
    assert deltas([Counted("", "", one.after, one.after) for one in places]) == []
    away = [Counted("", "", one.after, None) for one in places]
    assert deltas([*places, *away]) == []


async def test_the_cost_of_a_page_does_not_depend_on_the_total(url: str) -> None:
    """Statements use an index and read no more rows than the page, counting apart."""
    statements: list[tuple[str, Any]] = []
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        many = 3000
        await store.write(lambda connection: _fill(connection, many))
        engine = store._database.engine
        listen = lambda *given: statements.append((given[2], given[3]))  # noqa: E731
        event.listen(engine, "before_cursor_execute", listen)
        for query in (
            {},
            {"state": COMPLETED},
            {"context_id": "c1"},
            {"context_id": "c1", "state": COMPLETED},
            {"since": NOON + 5},
            {"state": COMPLETED, "since": NOON + 5 * SECOND},
        ):
            statements.clear()
            first = await store.list(HERE, TaskQuery(page_size=10, **query))
            assert first.total >= 1000
            await store.list(HERE, TaskQuery(page_size=10, page_token=first.next_page_token, **query))
            queries = [one for one in statements if one[0].startswith("SELECT")]
            assert len(queries) >= 6
            await store._database.read(
                lambda connection, queries=queries: _look_at_plans(connection, queries)
            )
        event.remove(engine, "before_cursor_execute", listen)


def _fill(connection: Connection, many: int) -> None:
    rows = [
        {
            "id": f"t{number:06}",
            "tenant": HERE.tenant,
            "owner": HERE.owner,
            "context": f"c{number % 3}",
            "state": COMPLETED if number % 3 else WORKING,
            "time": NOON + number * SECOND // 20,
            "version": 1,
            "last": 1,
            "applied": 1,
            "holder": "",
            "written": 0.0,
        }
        for number in range(many)
    ]
    connection.execute(tasks.insert(), rows)
    body = made("t").SerializeToString()
    connection.execute(bodies.insert(), [{"task": row["id"], "data": body} for row in rows])
    recount(connection)
    connection.exec_driver_sql("ANALYZE")


def _look_at_plans(connection: Connection, queries: list[tuple[str, Any]]) -> None:
    if connection.dialect.name == "postgresql":
        # It scans a table that it knows to be empty, although there is an index.
        connection.exec_driver_sql("SET enable_seqscan = off")
    for text, parameters in queries:
        if connection.dialect.name == "sqlite":
            plan = " | ".join(
                row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)
            )
            assert not re.search(r"SCAN (tasks|bodies|task_counts|segments|joined)", plan), (text, plan)
            assert "TEMP B-TREE" not in plan, (text, plan)
            assert "count(" not in text or "COVERING INDEX" in plan, (text, plan)
            if "task_counts.bucket >=" in text:
                assert "owner=? AND bucket>?" in plan, (text, plan)
            continue
        plan = "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN ANALYZE {text}", parameters))
        if "FROM task_counts" in text or "count(*)" in text:
            continue  # a few hundred or thousand rows: the plan is PostgreSQL's choice
        assert "Seq Scan" not in plan, (text, plan)
        assert "Sort" not in plan, (text, plan)
        assert max(int(rows) for rows in re.findall(r"actual .*rows=(\d+)", plan)) <= 50, (text, plan)


async def test_buckets_add_up(url: str) -> None:
    """A million seconds of tasks, ten minutes apart."""
    async with open_sql_store(url, StoreOptions(commit_delay=0.001, ack_timeout=PATIENCE)) as store:
        authors = [
            Author(store).begin(made(f"t{number}", NOON + number * 500 * SECOND, "c", COMPLETED))
            for number in range(2_000)
        ]
        await asyncio.gather(*(author.sync() for author in authors))
        for offset in (0, 1, 1234, 1_999):
            since = NOON + offset * 500 * SECOND - 2 * SECOND
            for state, matching in ((0, 2_000 - offset), (COMPLETED, 2_000 - offset), (WORKING, 0)):
                found = await store._database.read(
                    lambda connection, since=since, state=state: total(
                        connection, HERE.tenant, HERE.owner, "", state, since
                    )
                )
                assert found == matching


async def test_tokens_outlive_a_restart(url: str) -> None:
    async with open_store(url) as store:
        for number in range(5):
            await Author(store).begin(f"t{number}", NOON + number).release()
        first = await store.list(HERE, TaskQuery(page_size=2))
    async with open_store(url) as store:
        rest = await store.list(HERE, TaskQuery(page_size=9, page_token=first.next_page_token))
        assert ids([first, rest]) == ["t4", "t3", "t2", "t1", "t0"]


async def test_tokens_are_good_on_every_replica(postgres_url: str) -> None:
    async with open_store(postgres_url) as one, open_store(postgres_url) as other:
        for number in range(5):
            await Author((one, other)[number % 2]).begin(f"t{number}", NOON + number).sync()
        first = await one.list(HERE, TaskQuery(page_size=2))
        rest = await other.list(HERE, TaskQuery(page_size=9, page_token=first.next_page_token))
        assert ids([first, rest]) == ["t4", "t3", "t2", "t1", "t0"]
        assert first.total == rest.total == 5


@pytest.mark.parametrize("name", ODD)
async def test_any_name_will_do(url: str, name: str) -> None:
    scope = Scope(name, name)
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store, scope).begin("t", context_id=name).sync()
        for context in (name, ""):
            page = await store.list(scope, TaskQuery(context_id=context))
            assert [(one.id, one.context_id) for one in page.tasks] == [("t", name)]
            assert page.total == 1
        other = Scope(name.replace("\0", ""), name.replace("\x1b", ""))
        assert other == scope or (await store.list(other, TaskQuery())).total == 0
        assert await store.get(scope, name) is None
        assert await store.sends.reserve(scope, name, b"1", "t") is None
        await store.write(lambda connection: connection.exec_driver_sql("DELETE FROM replicas"))
        store.let_go()
        assert list(await store.orphans(5)) == [(scope, "t")]


@pytest.mark.parametrize("time", [-(10**19), 0, 10**19])
async def test_times_that_no_database_can_hold(url: str, time: int) -> None:
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await Author(store).begin("t", time).sync()
        assert ids(await pages(store)) == ["t"]
        assert (await store.list(HERE, TaskQuery(since=-(10**20)))).total == 1
        assert (await store.list(HERE, TaskQuery(since=10**20))).total == int(time > 0)
