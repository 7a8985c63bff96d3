"""Groups of writes: the number of transactions, the order of effects, and the cost of a failure."""

import asyncio
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, select, text

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.ports import TaskQuery, VersionConflictError
from a2a_bridge.stores.sql.database import Database
from a2a_bridge.stores.sql.schema import sends, tasks
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.stores.store_base import Janitor
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    HERE,
    INPUT,
    WORKING,
    Author,
    found,
    ids,
    made,
    pages,
    rest,
    take,
)
from tests.patience import PATIENCE
from tests.stores.impatience import PATIENT, impatient

QUIET = StoreOptions(commit_delay=3600.0, ack_timeout=PATIENCE)


async def test_a_stream_of_a_hundred_chunks_costs_a_few_transactions(url: str) -> None:
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        await store.wait_settled()  # the work of the janitor at the start
        before = store.commits
        reader = store.subscribe("t", 0)
        author = Author(store).begin("t")
        for number in range(100):
            author.chunk(str(number))
            await author.writer.room()
            await asyncio.sleep(0)
        author.status(COMPLETED)
        await author.sync()
        assert len(await rest(reader)) == 102
        assert store.commits - before <= 10


async def test_many_tasks_share_a_transaction(url: str) -> None:
    async with open_sql_store(url, QUIET) as store:
        await store.wait_settled()
        before = store.commits
        authors = [Author(store).begin(f"t{number}") for number in range(100)]
        for author in authors:
            author.status(COMPLETED)
        await asyncio.gather(*(author.sync() for author in authors))
        assert store.commits - before == 1
        assert len(ids(await pages(store))) == 100


async def test_changes_without_a_waiter_are_written_after_the_delay(url: str) -> None:
    async with open_sql_store(url, StoreOptions(commit_delay=0.01, ack_timeout=PATIENCE)) as store:
        reader = store.subscribe("t", 0)
        Author(store).begin("t")
        assert await take(reader, 1) == [("task", WORKING)]


async def test_nothing_is_shown_before_it_is_in_the_database(sqlite_url: str) -> None:
    """A caller that gets an answer reads with its own connection, which sees committed data only."""
    seen: list[Any] = []

    def look(error: Exception | None) -> None:
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
            seen.append((error, connection.execute("SELECT last, holder FROM tasks").fetchall()))

    async with open_sql_store(sqlite_url, QUIET) as store:
        author = Author(store).begin("t")
        author.writer.when_synced(look)
        author.chunk("x")
        reader = store.subscribe("t", 0)
        assert await take(reader, 2) == [("task", WORKING), "x"]
        look(None)
        author.status(COMPLETED)
        author.writer.when_synced(look)
        await author.sync()
    assert [error for error, _ in seen] == [None] * 3
    assert [rows[0][0] for _, rows in seen] == [2, 2, 3]
    assert [bool(rows[0][1]) for _, rows in seen] == [True, True, False]


async def test_a_lost_task_in_a_group_does_not_block_the_others(url: str) -> None:
    async with open_sql_store(url, QUIET) as store:
        await Author(store).begin("t3").release()
        taken = await Author(store).reopen("t3")
        async with asyncio.timeout(PATIENCE):
            await store.write(lambda connection: _seize(connection, "t3"))
        authors = [Author(store).begin(f"n{number}") for number in range(5)]
        taken.status(COMPLETED)
        double = Author(store).begin("n9")
        second = Author(store).begin("n9")
        results = await asyncio.gather(
            *(author.writer.sync() for author in (*authors, taken, double, second)), return_exceptions=True
        )
        assert results[:5] == [None] * 5
        assert isinstance(results[5], VersionConflictError)
        assert results[6] is None
        assert isinstance(results[7], VersionConflictError)
        assert [one.lost for one in (*authors, taken, double, second)] == [0, 0, 0, 0, 0, 1, 0, 1]
        assert sorted(ids(await pages(store))) == sorted(["t3", "n9", *(f"n{number}" for number in range(5))])


def _seize(connection: Connection, task_id: str) -> None:
    connection.execute(
        tasks.update().where(tasks.c.id == task_id).values(version=tasks.c.version + 1, holder="somebody")
    )


async def test_a_change_that_cannot_be_stored_does_not_block_others(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sql_store(sqlite_url, QUIET) as store:
        await store.write(
            lambda connection: connection.execute(
                text(
                    "CREATE TRIGGER picky BEFORE INSERT ON tasks WHEN new.id = 'bad'"
                    " BEGIN SELECT raise(ABORT, 'no'); END"
                )
            )
        )
        bad, good = Author(store).begin("bad"), Author(store).begin("good")
        results = await asyncio.gather(bad.writer.sync(), good.writer.sync(), return_exceptions=True)
        assert isinstance(results[0], A2AError)
        assert results[0].reason is Reason.INTERNAL_ERROR
        assert results[1] is None
        assert (bad.lost, good.lost) == (1, 0)
        assert ids(await pages(store)) == ["good"]
        assert store.rejection() is None


async def test_a_value_too_long_for_an_index_does_not_block_others(postgres_url: str) -> None:
    """PostgreSQL compresses values, so this one has to be random."""
    long = random.Random(1).randbytes(3000).hex()
    async with open_sql_store(postgres_url, QUIET) as store:
        bad, good = Author(store).begin("bad", context_id=long), Author(store).begin("good")
        async with asyncio.timeout(PATIENCE):
            results = await asyncio.gather(
                bad.writer.sync(),
                good.writer.sync(),
                store.sends.reserve(HERE, long, b"1", "good"),
                store.sends.reserve(HERE, "m", b"1", "good"),
                return_exceptions=True,
            )
        for rejected in results[0], results[2]:
            assert isinstance(rejected, A2AError)
            assert rejected.reason is Reason.INTERNAL_ERROR
        assert results[1] is results[3] is None
        assert (bad.lost, good.lost) == (1, 0)
        assert store.rejection() is None
        good.status(COMPLETED)
        await good.sync()
        assert ids(await pages(store)) == ["good"]


async def test_jobs_share_a_transaction_and_fail_alone(url: str) -> None:
    async with open_sql_store(url, QUIET) as store:
        await store.wait_settled()
        before = store.commits

        def bad(connection: Connection) -> None:
            connection.execute(text("DELETE FROM tasks"))
            raise ValueError("own")

        author = Author(store).begin("t")
        results = await asyncio.gather(
            author.writer.sync(),
            store.write(bad),
            store.write(lambda connection: connection.scalar(select(tasks.c.id))),
            store.write(
                lambda connection: connection.execute(text("INSERT INTO settings VALUES (NULL, NULL)"))
            ),
            return_exceptions=True,
        )
        assert results[0] is None
        assert isinstance(results[1], ValueError)
        assert results[2] == "t"
        assert isinstance(results[3], A2AError)
        assert results[3].reason is Reason.INTERNAL_ERROR
        assert store.commits - before == 1


class _Lossy:
    """A transaction whose connection is lost during the commit. end: what becomes of the transaction."""

    def __init__(self, transaction: Any, end: Callable[[Any], None]) -> None:
        self._transaction, self._end = transaction, end

    def commit(self) -> None:
        self._end(self._transaction)
        raise sqlite3.OperationalError("the connection is lost")


async def test_a_commit_in_doubt_is_looked_up_and_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a COMMIT is lost, once after it took place and once before."""
    async with open_sql_store(url, QUIET) as store:
        await store.wait_settled()
        committer = store.records.committer
        true = committer.prepare
        ends: list[Callable[[Any], None]] = [lambda transaction: transaction.commit(), lambda _: None]

        def lossy(group: Any) -> Any:
            transaction = true(group)
            return _Lossy(transaction, ends.pop(0)) if transaction is not None and ends else transaction

        monkeypatch.setattr(committer, "prepare", lossy)
        author = Author(store).begin("t")
        author.chunk("x")
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        await author.sync()
        assert len(ends) == 1
        author.status(COMPLETED)
        await author.sync()
        assert ends == []
        assert author.lost == 0
        assert await rest(store.subscribe("t", 0)) == [("task", WORKING), "x", COMPLETED]
        assert [page.total for page in await pages(store)] == [1]


def _in_doubt(store: Any, monkeypatch: pytest.MonkeyPatch, end: Callable[[Any], None]) -> None:
    """The next commit of a caller ends with a lost connection; `end` gets the transaction."""
    committer = store.records.committer
    true = committer.prepare

    def lossy(group: Any) -> Any:
        if not group.changes and not any(job.order for job in group.jobs):
            return true(group)
        monkeypatch.setattr(committer, "prepare", true)
        return _Lossy(true(group), end)

    monkeypatch.setattr(committer, "prepare", lossy)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_in_doubt_is_not_confused_with_later_writes_of_another_replica(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    async with open_sql_store(postgres_url, QUIET) as store:
        await store.wait_settled()
        author = await Author(store).begin("t").sync()
        engine = create_engine(store._database.url)

        def overtaken(transaction: Any) -> None:
            if committed:
                transaction.commit()
            else:
                transaction.rollback()
            with engine.begin() as other:  # takes the task over, and ends it
                other.execute(tasks.update().values(version=tasks.c.version + 2, holder=""))

        _in_doubt(store, monkeypatch, overtaken)
        author.status(COMPLETED)
        async with asyncio.timeout(PATIENCE):
            results = await asyncio.gather(
                author.writer.sync(), store.sends.reserve(HERE, "m", b"1", "t"), return_exceptions=True
            )
        engine.dispose()
        if committed:
            assert results == [None, None]
        else:
            assert isinstance(results[0], VersionConflictError)
            assert results[1] is None
        assert author.lost == (not committed)
        sent = await store._database.read(lambda connection: connection.scalar(select(sends.c.message)))
        assert sent == "m"


async def test_a_server_that_gives_a_number_of_a_transaction_twice_makes_no_commit_of_none(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This may happen after a crash."""
    async with open_sql_store(postgres_url, QUIET) as store:
        await store.wait_settled()
        _in_doubt(store, monkeypatch, lambda transaction: transaction.rollback())
        monkeypatch.setattr(store.records.committer, "_outcome", lambda *_: "committed")
        async with asyncio.timeout(PATIENCE):
            await Author(store).begin("t").sync()
        assert (await found(store, "t")).last == 1


@pytest.mark.parametrize("what", ["task", "job"])
async def test_a_half_open_connection_does_not_block_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The COMMIT did not arrive, and its rows are locked meanwhile."""
    async with open_sql_store(postgres_url, QUIET) as store:
        await store.wait_settled()
        left: list[Any] = []

        def leave(_: Any) -> None:
            left.append(store.records.committer._connection)
            store.records.committer._connection = None

        _in_doubt(store, monkeypatch, leave)
        try:
            async with asyncio.timeout(PATIENCE):
                if what == "task":
                    await Author(store).begin("t").sync()
                else:
                    assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        finally:
            left[0].invalidate()
            left[0].close()


async def test_changes_during_an_outage_are_written_without_a_waiter(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        author = await Author(store).begin("t").sync()
        reader = store.subscribe("t", 1)
        perform = store.records.committer.perform
        begun = threading.Event()
        failures = [sqlite3.OperationalError("the disk is full")]

        def failing(group: Any) -> None:
            begun.set()
            if failures:
                raise failures.pop()
            perform(group)

        monkeypatch.setattr(store.records.committer, "perform", failing)
        author.chunk("a")
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        author.chunk("b")
        assert await take(reader, 2) == ["a", "b"]


@pytest.mark.parametrize("seed", [1, 2])
async def test_groups_of_anything_add_up(url: str, seed: int) -> None:
    """Many tasks at once, in all interleavings: each log has no gaps, each task is the sum of its log."""
    choose = random.Random(seed)
    async with open_sql_store(url, StoreOptions(commit_delay=0.001, ack_timeout=PATIENCE)) as store:

        async def one(name: str) -> Author:
            task = made(name)
            task.metadata["text"] = "x" * choose.choice([0, 60_000])
            author = Author(store).begin(task)
            for number in range(choose.randrange(1, 30)):
                author.chunk(str(number))
                match choose.randrange(6):
                    case 0:
                        await author.sync()
                    case 1:
                        author.status(WORKING)
                        await author.release()
                        author = await Author(store).reopen(name)
                    case 2:
                        author.amend(f"m{number}")
                    case _:
                        await asyncio.sleep(0)
            author.status(COMPLETED)
            return await author.sync()

        async with asyncio.timeout(PATIENCE):
            authors = await asyncio.gather(*(one(f"t{number}") for number in range(20)))
        for author in authors:
            stored = await found(store, author.task.id)
            assert (stored.task, stored.last) == (author.task, author.writer.last)
            assert len(await rest(store.subscribe(author.task.id, 0))) == author.writer.last
        counted = await store.list(HERE, TaskQuery())
        assert counted.total == 20


async def test_who_waits_too_long_is_sent_away_and_the_rest_is_written_all_the_same(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(commit_delay=0.001, ack_timeout=PATIENCE)) as store:
        await store.wait_settled()
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            author = Author(store).begin("t")
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(A2AError) as caught, impatient(store):
                    await author.writer.sync()
            assert caught.value.reason is Reason.UNAVAILABLE
            assert caught.value.retry_after
            rejected = store.rejection()
            assert rejected is not None
            assert rejected.reason is Reason.UNAVAILABLE
            with pytest.raises(A2AError), impatient(store):
                await store.write(lambda connection: None)
            assert await store.get(HERE, "t") is None
            author.status(COMPLETED)
            other.execute("ROLLBACK")
        async with asyncio.timeout(PATIENCE):
            assert await rest(store.subscribe("t", 0)) == [("task", WORKING), COMPLETED]
        assert store.rejection() is None
        assert author.lost == 0


async def test_reads_continue_while_writes_fail(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, PATIENT) as store:
        author = await Author(store).begin("t").sync()
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            author.chunk("x")
            with pytest.raises(A2AError), impatient(store):
                await author.writer.sync()
            stored = await found(store, "t")
            assert stored.last == 1
            assert await take(store.subscribe("t", 0), 1) == [("task", WORKING)]
            other.execute("ROLLBACK")
        await author.sync()
        assert (await found(store, "t")).last == 2


def test_every_commit_is_forced_to_the_disk(sqlite_url: str) -> None:
    from a2a_bridge.stores.sql.database import parse

    database = Database(parse(sqlite_url))
    with database.connect(writes=True) as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    database.close()


@pytest.mark.parametrize("state", [WORKING, INPUT])
async def test_a_task_opened_after_its_caller_was_cancelled_is_an_orphan(
    url: str, monkeypatch: pytest.MonkeyPatch, state: int
) -> None:
    async with open_sql_store(url, PATIENT) as store:
        await store.wait_settled()
        await Author(store).begin("t", state=state).release()
        waiting = await found(store, "t")
        at_work = await Author(store).begin("u").sync()
        perform = store.records.committer.perform
        works = threading.Event()

        def slowly(group: Any) -> None:
            if any(not one.segments for one in group.changes):
                works.wait(PATIENCE)
            perform(group)

        monkeypatch.setattr(store.records.committer, "perform", slowly)
        with impatient(store):
            opening = asyncio.ensure_future(store.open(HERE, waiting, lambda: None))
            await asyncio.sleep(0)
            reading = asyncio.ensure_future(store.get(HERE, "t"))  # which waits for the change
            for one in (opening, reading):
                async with asyncio.timeout(PATIENCE):
                    with pytest.raises(A2AError):
                        await one
        assert await store.orphans(9) == []
        told: list[str] = []
        store.on_orphans(lambda: told.append("orphans"))
        told.clear()
        works.set()
        async with asyncio.timeout(PATIENCE):
            await store.wait_settled()
        assert told  # only now: an earlier look would have found nothing
        assert await store.orphans(9) == [(HERE, "t")]
        author = await Author(store).reopen("t")
        assert await store.orphans(9) == []
        author.status(COMPLETED)
        at_work.status(COMPLETED)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test writes: other writes would include the forgotten ones."""
    monkeypatch.setattr(Janitor, "start", lambda _: None)


@contextmanager
def _slow(store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No group ends meanwhile."""
    perform = store.records.committer.perform
    go_on = threading.Event()

    def slowly(group: Any) -> None:
        go_on.wait(PATIENCE)
        perform(group)

    monkeypatch.setattr(store.records.committer, "perform", slowly)
    try:
        yield
    finally:
        go_on.set()


@pytest.mark.usefixtures("alone")
async def test_abandoned_jobs_do_not_delay_others(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than a group holds."""
    async with open_sql_store(sqlite_url, QUIET) as store:
        with _slow(store, monkeypatch):
            Author(store).begin("t").writer.when_synced(lambda _: None)
            await asyncio.sleep(0)
            assert store.writer.group is not None
            given_up = [asyncio.create_task(store.write(lambda _: None)) for _ in range(600)]
            wanted = asyncio.create_task(store.write(lambda _: "done"))
            await asyncio.sleep(0)
            for one in given_up:
                one.cancel()
        async with asyncio.timeout(PATIENCE):
            assert await wanted == "done"


@pytest.mark.usefixtures("alone")
async def test_jobs_that_were_given_up_are_not_kept(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_sql_store(sqlite_url, StoreOptions(ack_timeout=0.05)) as store:
        with _slow(store, monkeypatch):
            Author(store).begin("t").writer.when_synced(lambda _: None)
            await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                answers = await asyncio.gather(
                    *(store.write(lambda _: None) for _ in range(10)), return_exceptions=True
                )
            assert all(isinstance(one, A2AError) for one in answers)
            assert not store.writer._jobs


@pytest.mark.usefixtures("alone")
async def test_a_job_cancelled_before_its_group_is_not_run(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, QUIET) as store:
        given_up = asyncio.create_task(store.write(lambda _: None))
        await asyncio.sleep(0)
        given_up.cancel()
        async with asyncio.timeout(PATIENCE):
            await store.wait_settled()


@pytest.mark.usefixtures("alone")
async def test_an_urgent_commit_is_not_lost_to_an_earlier_delayed_one(sqlite_url: str) -> None:
    """After a commit, a caller adds the next event, and another caller one more a moment later."""
    async with open_sql_store(sqlite_url, QUIET) as store:
        author, other = Author(store).begin("t"), Author(store).begin("u")
        done = asyncio.Event()

        def later() -> None:
            assert store.writer.group is not None
            other.chunk("y")
            other.writer.when_synced(lambda _: done.set())

        def go_on(_: Exception | None) -> None:
            asyncio.get_running_loop().call_soon(later)
            author.chunk("x")
            author.writer.when_synced(lambda _: None)

        author.writer.when_synced(go_on)
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        assert (await found(store, "u")).last == 2


@pytest.mark.usefixtures("alone")
async def test_more_than_a_group_holds_is_written_at_once_all_the_same(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, QUIET) as store:
        before = store.commits
        authors = [Author(store).begin(f"t{number}") for number in range(1100)]
        await asyncio.gather(*(author.sync() for author in authors))
        assert store.commits - before == 3
