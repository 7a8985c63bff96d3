"""Many tasks of a dead replica, taken over by the others at the same time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

from a2a_bridge.cluster import cluster as membership
from a2a_bridge.cluster.cluster import Membership, stripe_of
from a2a_bridge.cluster.session import SessionError, session_name
from a2a_bridge.core.errors import Reason
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, TaskQuery, VersionConflictError
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, Author, found
from tests.agents import ScriptedAgent
from tests.hosting.scene import FAILED, Talk
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.replicas.conftest import LEASE, until
from tests.stores.test_outbox_replicas import config

#: it does not end in a test
OPTIONS = StoreOptions(lease=600.0, ack_timeout=PATIENCE)
COUNT = 300


@pytest.mark.parametrize("idle", [False, True])
async def test_each_replica_takes_its_share_of_the_orphans(postgres_url: str, idle: bool) -> None:
    """Few statements; others take an idle replica's share."""
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_sql_store(postgres_url, OPTIONS)) for _ in range(4)]
        dead, *others = stores
        authors = [Author(dead, Scope()).begin(f"t{number}") for number in range(COUNT)]
        await asyncio.gather(*(one.sync() for one in authors))
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM replicas WHERE id = %s", [dead.me()])
        for one in others:
            one.records._beside._directory.update_members(frozenset(other.me() for other in others), 0.0)
        talks = [Talk(ScriptedAgent(), store=one) for one in others]
        stack.push_async_callback(_closed, talks)
        read: list[list[str]] = [[] for _ in others]
        for ids, store in zip(read, others, strict=True):
            _note_reads(store, ids)
        working = talks[1:] if idle else talks
        rounds = await asyncio.gather(*(one.engine._recovery._round() for one in working))
        assert all(rounds)
        assert (await talks[0].list(status=FAILED)).total_size == COUNT
        if not idle:
            # Only at the end they help each other, with one batch at a time.
            assert sum(map(len, read)) < 1.5 * COUNT
            assert min(map(len, read)) > COUNT / 6
        # The lease comes with the failure.
        assert {(await store.get(Scope(), f"t{number}")).version for number in range(COUNT)} == {2}


async def test_a_task_that_nobody_can_take_over_hides_no_other(postgres_url: str) -> None:
    async with open_sql_store(postgres_url, OPTIONS) as store:
        for name in ("damaged", "given up"):
            await Author(store).begin(name, state=INPUT).release()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # The caller that opened it did not wait long enough to know.
            connection.execute("UPDATE tasks SET holder = %s WHERE id = 'given up'", [store.me()])
            assert await store.orphans(9) == [(HERE, "given up")]
            connection.execute("UPDATE tasks SET holder = 'dead' WHERE id = 'damaged'")
        assert await store.orphans(9) == [(HERE, "damaged"), (HERE, "given up")]


def _note_reads(store: Any, ids: list[str]) -> None:
    get_many = store.get_many

    async def noted(tasks: Sequence[tuple[Scope, str]], /) -> Any:
        ids.extend(task_id for _, task_id in tasks)
        return await get_many(tasks)

    store.get_many = noted


async def _closed(talks: list[Talk]) -> None:
    for one in talks:
        await one.close()


# --- A replica that was declared dead joins again, also if the result of its statement is lost ---
class Table:
    """The table as far as a session uses it. cuts: where the connection breaks at the next joining."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.cuts = ""

    async def run(self, statement: str, values: Any, _: float = 0) -> list[tuple[Any, ...]]:
        me = values.get("me")
        if statement is membership.JOIN:
            cuts, self.cuts = self.cuts, ""
            if cuts == "before":
                raise SessionError("cut")
            self.rows[me] = 0
            if cuts == "after":
                raise SessionError("cut")
            return [(me,)]
        if statement is membership.BEAT:
            if me in self.rows:
                self.rows[me] += 1
            return list(self.rows.items())
        return []

    async def close(self) -> None:
        pass


class Heard:
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_rename(self, me: str) -> None:
        self.names.append(me)

    def on_members(self, alive: frozenset[str], began: float) -> None:
        pass

    on_orphans = unreachable = tell = lambda self: None


@pytest.mark.parametrize("cuts", ["", "before", "after"])
async def test_a_connection_that_breaks_when_a_replica_joins_again(cuts: str) -> None:
    table, heard, names = Table(), Heard(), count()
    one = Membership(
        table, heard, lambda call, *arguments: call(*arguments), lambda: f"r{next(names)}", lease=LEASE
    )
    await one.join()
    first = one.name
    table.rows.clear()
    table.cuts = cuts
    if cuts:
        with pytest.raises(SessionError):
            await one.beat()
    for _ in range(3):
        await one.beat()
    assert one.name != first
    assert list(table.rows) == [one.name]
    assert heard.names == [one.name]


# --- Locks of a replica that is suspended, or cut off, in the middle of a transaction ---

_SEND = "INSERT INTO sends VALUES (%s, %s, 'm', '1', 'theirs', '', 'other', 1e10)"
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


@asynccontextmanager
async def _served(url: str, options: StoreOptions = OPTIONS) -> AsyncIterator[Any]:
    async with open_store(url, options) as store, asyncio.timeout(PATIENCE):
        yield store


async def _orphan(store: Any, url: str, task_id: str) -> None:
    """A task that a dead replica has left at work."""
    await Author(store).begin(task_id).release()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE tasks SET holder = 'dead' WHERE id = %s", [task_id])


@contextmanager
def _suspended(url: str, *statements: str, values: Any = ()) -> Iterator[psycopg.Connection[Any]]:
    """A session that has executed statements, and neither commits nor ends."""
    with psycopg.connect(url) as connection:
        for one in statements:
            connection.execute(one.encode(), values)
        yield connection
        connection.rollback()


@pytest.mark.parametrize("wait", [True, False], ids=["that is resumed", "that fails"])
async def test_a_takeover_does_not_wait_for_the_lock_of_a_task(postgres_url: str, wait: bool) -> None:
    async with _served(postgres_url) as store:
        await _orphan(store, postgres_url, "left")
        known = await found(store, "left")
        with _suspended(postgres_url, "UPDATE tasks SET time = time WHERE id = 'left'"):
            if wait:
                with pytest.raises(VersionConflictError):
                    await Author(store).open(known)
            else:
                author = await Author(store).open(known, wait=False)
                author.status(COMPLETED)
                own = await Author(store).begin("own").sync()  # in the same group
                assert author.lost == 1
                assert own.lost == 0
        author = await Author(store).open(await found(store, "left"))
        author.status(COMPLETED)
        await author.sync()


async def test_counters_that_are_locked_hold_no_write_up(postgres_url: str) -> None:
    async with _served(postgres_url) as store:
        await Author(store).begin("first").sync()
        with _suspended(postgres_url, "UPDATE task_counts SET number = number"):
            author = await Author(store).begin("second").sync()
            author.status(COMPLETED)
            await author.sync()
            assert store.rejection() is None
        page = await store.list(HERE, TaskQuery(page_size=10))
        assert page.total == 2


async def test_a_locked_message_holds_no_other_write_up(postgres_url: str) -> None:
    async with _served(postgres_url) as store:
        with _suspended(postgres_url, _SEND, values=HERE):
            sending = asyncio.create_task(store.sends.reserve(HERE, "m", b"1", "mine"))
            await Author(store).begin("own").sync()
            with rejected(Reason.UNAVAILABLE):
                await sending
            assert store.rejection() is None
        assert await store.sends.reserve(HERE, "m", b"1", "mine") is None


async def test_a_task_of_this_replica_that_is_locked_holds_no_other_up(postgres_url: str) -> None:
    """Another replica has declared this one dead, takes the task over, and is suspended meanwhile."""
    async with _served(postgres_url) as store:
        taken = await Author(store).begin("taken").sync()
        with _suspended(postgres_url, "UPDATE tasks SET version = version + 1 WHERE id = 'taken'"):
            taken.chunk("late")
            await Author(store).begin("own").sync()
            await until(lambda: taken.lost == 1)
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute("SELECT last FROM tasks WHERE id = 'taken'").fetchone() == (1,)


async def test_a_locked_push_config_holds_no_event_up(postgres_url: str) -> None:
    async with _served(postgres_url) as store:
        author = await Author(store, push=True).begin("t").sync()
        await store.push_configs.put(HERE, config("https://hook.example"))
        with _suspended(postgres_url, "UPDATE push_configs SET ordinal = ordinal"):
            author.chunk("posted")
            await author.sync()
            assert author.lost == 0
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (1,)


async def test_a_suspended_transaction_ends_and_is_written_again(postgres_url: str) -> None:
    """Its process goes on later, and finds that its session is gone."""
    async with _served(postgres_url) as store:
        committer = store.records.committer
        commit, reached, resumed = committer.commit, threading.Event(), threading.Event()

        def suspended(group: Any, transaction: Any) -> None:
            reached.set()
            assert resumed.wait(PATIENCE)
            commit(group, transaction)

        committer.commit = suspended
        author = Author(store).begin("t")
        writing = asyncio.create_task(author.sync())
        name = [session_name(store.me())]
        with psycopg.connect(postgres_url, autocommit=True) as watch:
            await until(reached.is_set)
            await until(lambda: watch.execute(_SESSIONS, name).fetchone() == (0,))
            committer.commit = commit
            resumed.set()
            await writing
        assert author.lost == 0
        assert (await found(store, "t")).last == 1


async def test_the_session_of_a_dead_replica_is_ended(postgres_url: str) -> None:
    """Also one that the limits of the server do not end: it is in the middle of a series of statements."""
    async with _served(postgres_url, StoreOptions(lease=LEASE)) as store:
        with psycopg.connect(postgres_url) as dead:
            dead.execute("INSERT INTO replicas (id, beat) VALUES ('dead', 0)")
            dead.commit()
            dead.execute("SELECT set_config('application_name', %s, false)", [session_name("dead")])
            dead.commit()
            dead.execute("LOCK TABLE task_counts IN ROW EXCLUSIVE MODE")
            with psycopg.connect(postgres_url, autocommit=True) as watch:
                await until(lambda: watch.execute(_SESSIONS, [session_name("dead")]).fetchone() == (0,))
                assert watch.execute("SELECT id FROM replicas").fetchall() == [(store.me(),)]
            with pytest.raises(psycopg.OperationalError):
                dead.execute("SELECT 1")


@pytest.mark.parametrize("count", [2, 16, 40])
def test_no_two_live_replicas_have_the_same_stripe(count: int) -> None:
    names = frozenset(f"{number:032x}" for number in range(count))
    assert len({stripe_of(name, names) for name in names}) == count


async def test_replicas_learn_of_each_others_stripes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_bridge.cluster.cluster.crc32", lambda _: 0)
    options = StoreOptions(lease=LEASE)
    async with _served(postgres_url, options) as one, _served(postgres_url, options) as two:
        await until(lambda: {one._beside.stripe, two._beside.stripe} == {0, 1})
        await Author(one).begin("t1").sync()
        await Author(two).begin("t2").sync()
        with psycopg.connect(postgres_url) as connection:
            stripes = connection.execute("SELECT DISTINCT stripe FROM task_counts ORDER BY 1").fetchall()
        assert stripes == [(0,), (1,)]
