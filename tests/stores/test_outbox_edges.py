"""Rare states of an outbox in a database: orphans, unknown claims, a live replica taken for dead."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import open_store
from a2a_bridge.stores.records import Place, TaskChange, TaskRow
from a2a_bridge.stores.sql import push, push_configs
from a2a_bridge.stores.sql.push import SqlOutbox
from a2a_bridge.testing.outbox_contract import build_registered, due, summaries, write_task
from a2a_bridge.testing.store_scene import HERE, PATIENCE
from tests.push.test_fair_queue import Clock

LOST = sqlite3.OperationalError("the connection is lost")


@pytest.fixture
async def store(url: str) -> AsyncIterator[Any]:
    async with open_store(url) as store:
        yield store


@pytest.fixture
def doubtful(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """While it has an error, that is what the next commit of the outbox seems to fail with."""
    committer = store.records.committer
    commit = committer.commit
    losses: list[Exception] = []

    def lossy(group: Any, transaction: Any) -> None:
        commit(group, transaction)
        if losses and any(getattr(job.work, "__module__", "") == push.__name__ for job in group.jobs):
            group.in_doubt = True
            raise losses.pop()

    monkeypatch.setattr(committer, "commit", lossy)
    return losses


async def done(store: Any, statement: str) -> None:
    await store.write(lambda connection: connection.execute(text(statement)).rowcount)


async def test_notifications_of_configs_without_a_holder_are_found(store: Any) -> None:
    """The result of two replicas if one releases a config while the other adds a notification for it."""
    clock = Clock()
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, now=clock)
    await store.push_configs.put(HERE, build_registered())
    await write_task(store, "x")
    (delivery,) = await due(store)
    await outbox.sent([delivery])
    (delivery,) = await due(store)
    await outbox.sent([delivery])
    assert await due(store) == []  # released
    author = await write_task(store, task_id="u")
    await store.push_configs.put(HERE, build_registered(task_id="u"))
    author.chunk("y")
    await author.sync()
    await done(store, "UPDATE push_configs SET holder = ''")
    assert await due(store) == []
    clock.time += push.SWEEP
    assert summaries(await due(store)) == [("u", "p", 2)]


async def test_a_claim_after_its_caller_was_cancelled_is_not_lost(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        await store.push_configs.put(HERE, build_registered(name))
    author = await write_task(store)
    await store.wait_settled()
    perform = store.records.committer.perform
    works = threading.Event()

    def slowly(group: Any) -> None:
        works.wait(PATIENCE)
        perform(group)

    with monkeypatch.context() as patching:
        patching.setattr(store.records.committer, "perform", slowly)
        patching.setattr(store.writer, "ack_timeout", 0.05)
        try:
            with pytest.raises(A2AError):
                await due(store)
        finally:
            works.set()
    async with asyncio.timeout(PATIENCE):
        await store.wait_settled()
    author.chunk("x")
    await author.sync()
    deliveries = await due(store)
    assert summaries(deliveries) == [("t", "a", 1), ("t", "b", 1)]
    assert await due(store) == []
    await store.outbox.sent(deliveries)
    assert summaries(await due(store)) == [("t", "a", 2), ("t", "b", 2)]


async def test_a_claim_whose_commit_was_in_doubt_is_not_lost(store: Any, doubtful: list[Exception]) -> None:
    await store.push_configs.put(HERE, build_registered())
    await write_task(store)
    await store.wait_settled()
    doubtful.append(LOST)
    assert summaries(await due(store)) == [("t", "p", 1)]
    assert doubtful == []
    assert await due(store) == []


async def test_a_config_that_is_ours_in_its_row_alone_is_found(store: Any) -> None:
    clock = Clock()
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, now=clock)
    for name in "ab":
        await store.push_configs.put(HERE, build_registered(name))
    author = await write_task(store)
    before = await due(store)
    await outbox.sent([one for one in before if one.registered.config.id == "b"])
    author.chunk("x")
    await author.sync()
    await done(store, "UPDATE push_configs SET holder = (SELECT holder FROM push_configs WHERE id = 'a')")
    assert await due(store) == []
    clock.time += push.SWEEP
    # A notification in delivery is not given out again.
    assert summaries(await due(store)) == [("t", "b", 2)]
    clock.time += push.SWEEP
    assert await due(store) == []
    assert not outbox._claim_uncertain  # otherwise each look would write


@pytest.mark.parametrize("when", ["claimed", "given out", "sent"])
async def test_notifications_that_arrive_during_a_release_are_announced(
    store: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Another replica commits it after the config was found empty, and before that is written."""
    let_go = push._let_go

    def late(connection: Connection, lines: Any, me: str) -> Any:
        monkeypatch.setattr(push, "_let_go", let_go)
        row = TaskRow(HERE, "t", Place("", 0, 0), 2, 2, 0, "", None, None)
        push.post_events(connection, [TaskChange(row, (), None, [b""])])
        return let_go(connection, lines, me)

    tells: list[int] = []
    store.outbox.on_new(lambda: tells.append(1))
    await store.push_configs.put(HERE, build_registered())
    await write_task(store)
    if when == "claimed":
        await done(store, "DELETE FROM outbox")
        monkeypatch.setattr(push, "_let_go", late)
    else:
        (delivery,) = await due(store)
        monkeypatch.setattr(push, "_let_go", late)
        if when == "sent":
            tells.clear()
            await store.outbox.sent([delivery])
        else:
            await store.outbox.again(delivery, "HTTP 500", 0)
            await done(store, "DELETE FROM outbox")
            tells.clear()
            assert await due(store) == []
        assert tells
    assert summaries(await due(store)) == [("t", "p", 2)]
    assert await due(store) == []


async def test_configs_claimed_by_another_replica_are_not_given_out(store: Any) -> None:
    """It was released and claimed by another replica without a notification here."""
    await store.push_configs.put(HERE, build_registered())
    await write_task(store)
    (delivery,) = await due(store)
    await done(store, "INSERT INTO replicas (id, beat) VALUES ('other', 1)")
    await done(store, "UPDATE push_configs SET holder = 'other'")
    await store.outbox.again(delivery, "HTTP 500", 0)
    assert await due(store) == []
    await done(store, "DELETE FROM replicas WHERE id = 'other'")
    store.outbox.outbox_changed()
    assert summaries(await due(store)) == [("t", "p", 1)]


async def test_a_replica_that_was_taken_for_dead_begins_anew(store: Any) -> None:
    names = ["first"]
    store.outbox = outbox = SqlOutbox(store._database, store.write, lambda: names[-1])
    for name in "ab":
        await store.push_configs.put(HERE, build_registered(name))
    await write_task(store, "x")
    before = await due(store)
    assert summaries(before) == [("t", "a", 1), ("t", "b", 1)]
    # The replica that declared it dead has delivered one of them, and claims the other.
    await done(store, "DELETE FROM outbox WHERE config = 'a'")
    await done(store, "INSERT INTO replicas (id, beat) VALUES ('other', 1)")
    await done(store, "UPDATE push_configs SET holder = 'other' WHERE id = 'b'")
    names.append("second")
    assert await due(store) == []
    # Its later results are accepted, but do not make the config its own again.
    await outbox.sent([one for one in before if one.registered.config.id == "a"])
    await outbox.again(before[1], "HTTP 500", 0)
    assert await due(store) == []
    await done(store, "DELETE FROM replicas WHERE id = 'other'")
    outbox.outbox_changed()
    assert summaries(await due(store)) == [("t", "b", 1)]


async def test_dead_letters_are_bounded(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_PRUNE", 2)
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, most_dead=3)
    await store.push_configs.put(HERE, build_registered())
    await write_task(store, *"abcdefghij")
    for _ in range(11):
        (delivery,) = await due(store)
        await outbox.dead(delivery, "HTTP 410")
    assert [one.sequence for one in await outbox.entries(dead=True)] == [9, 10, 11]


async def test_dead_letters_are_found_however_many_wait(sqlite_url: str) -> None:
    statements: list[str] = []
    async with open_store(sqlite_url) as opened:
        store: Any = opened
        engine = store._database.engine
        event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        await store.outbox.entries(dead=True)
        await store.write(store.outbox._prune)
        about = [one for one in statements if "outbox.dead = 1" in one]
        assert len(about) == 2

        def plans(connection: Connection) -> list[str]:
            return [
                " | ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {one}", given))
                for one in about
                for given in [(0,) * one.count("?")]
            ]

        for plan in await store._database.read(plans):
            # A newer SQLite reads a count from the index alone.
            assert re.search(r"USING (COVERING )?INDEX outbox_dead", plan), plan


async def test_the_next_notification_is_found_however_many_wait(sqlite_url: str) -> None:
    async with open_store(sqlite_url) as opened:
        store: Any = opened
        await store.push_configs.put(HERE, build_registered())
        author = await write_task(store, "x")
        assert len(await due(store)) == 1

        def steps(connection: Connection) -> int:
            done: list[None] = []
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(lambda: done.append(None), 1)
            assert len(push._heads(connection, [("t", "p")], store.me())) == 1
            driver.set_progress_handler(None, 0)
            return len(done)

        few = await store._database.read(steps)
        for _ in range(500):
            author.chunk("x")
        await author.sync()
        assert await store._database.read(steps) < 2 * few


async def test_tasks_that_are_forgotten_take_configs_and_mail_along(store: Any) -> None:
    for task_id in "tu":
        await store.push_configs.put(HERE, build_registered(task_id=task_id))
        await write_task(store, task_id=task_id)
    await store.write(lambda connection: push_configs.forget(connection, ["t"]))
    assert await store.push_configs.list(HERE, "t") == []
    assert summaries(await due(store)) == [("u", "p", 1)]


async def test_a_late_result_of_an_earlier_name_gives_nothing_out_twice(store: Any) -> None:
    """The replica was declared dead while it sent, and has claimed the config again under its new name."""
    names = ["first"]
    store.outbox = outbox = SqlOutbox(store._database, store.write, lambda: names[-1])
    await store.push_configs.put(HERE, build_registered())
    await write_task(store, *"xy")
    before = await due(store)
    names.append("second")
    (copy,) = await due(store)
    assert copy == before[0]
    await outbox.sent([*before, copy])
    (following,) = await due(store)
    await outbox.again(copy, "no answer in time", 0)
    assert await due(store) == []  # it is still being sent
    await outbox.sent([following])
    assert summaries(await due(store)) == [("t", "p", 3)]


async def test_a_dead_letter_is_reported_by_one_write(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that failed afterwards would be repeated, and give the next notification out twice."""
    await store.push_configs.put(HERE, build_registered())
    await write_task(store, "x")
    (delivery,) = await due(store)
    write = store.write
    writes = [write]

    async def once(*given: Any, **named: Any) -> Any:
        if not writes:
            raise A2AError(Reason.UNAVAILABLE)
        return await writes.pop()(*given, **named)

    with monkeypatch.context() as patching:
        patching.setattr(store, "write", once)
        await store.outbox.dead(delivery, "HTTP 410")
    assert summaries(await due(store)) == [("t", "p", 2)]


async def test_an_attempt_counts_once_though_its_commit_was_in_doubt(
    store: Any, doubtful: list[Exception]
) -> None:
    await store.push_configs.put(HERE, build_registered())
    await write_task(store)
    (delivery,) = await due(store)
    doubtful.append(LOST)
    await store.outbox.again(delivery, "HTTP 500", 0)
    (delivery,) = await due(store)
    assert (delivery.attempts, doubtful) == (1, [])
    doubtful.append(LOST)
    await store.outbox.dead(delivery, "HTTP 410")
    (letter,) = await store.outbox.entries(dead=True)
    assert (letter.attempts, doubtful) == (2, [])


async def test_a_notification_is_posted_once_though_its_commit_was_in_doubt(
    store: Any, doubtful: list[Exception]
) -> None:
    await store.push_configs.put(HERE, build_registered())
    doubtful.append(LOST)
    await store.outbox.post(HERE, build_registered(), hub.StreamResponse(task=hub.Task(id="theirs")))
    assert doubtful == []
    assert len(await store.outbox.entries()) == 1


@pytest.mark.parametrize("named", [False, True])
async def test_a_retry_counts_though_its_commit_was_in_doubt(
    store: Any, doubtful: list[Exception], named: bool
) -> None:
    await store.push_configs.put(HERE, build_registered())
    await write_task(store, "x")
    for _ in range(2):
        (delivery,) = await due(store)
        await store.outbox.dead(delivery, "HTTP 410")
    doubtful.append(LOST)
    assert await store.outbox.retry([delivery.number] if named else None) == (1 if named else 2)
    assert doubtful == []
    assert summaries(await due(store)) == [("t", "p", 2 if named else 1)]


async def test_many_configs_are_claimed_without_a_pause(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones may all be of a target without capacity."""
    monkeypatch.setattr(push, "_CLAIM", 2)
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, now=Clock())
    for number, host in enumerate(["slow"] * 5 + ["quick"]):
        await store.push_configs.put(HERE, build_registered(f"p{number}", host=host))
    await write_task(store)
    for _ in range(3):
        if deliveries := await due(store, busy="slow"):
            break
        assert await outbox.wait() == 0
    assert summaries(deliveries) == [("t", "p5", 1)]


async def test_a_failed_look_delays_by_a_second_and_no_more(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, now=clock)
    await store.push_configs.put(HERE, build_registered())
    await write_task(store)

    async def failing(*_: Any) -> Any:
        raise A2AError(Reason.UNAVAILABLE)

    with monkeypatch.context() as patching:
        patching.setattr(outbox, "_parcels", failing)
        with pytest.raises(A2AError):
            await due(store)
    clock.time += 1
    assert summaries(await due(store)) == [("t", "p", 1)]


async def test_a_hint_during_a_claim_is_not_lost(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another replica offers a config just after the claim."""
    store.outbox = outbox = SqlOutbox(store._database, store.write, store.me, now=Clock())
    for name in "ab":
        await store.push_configs.put(HERE, build_registered(name))
    assert await due(store) == []
    await write_task(store)
    await done(store, "UPDATE push_configs SET holder = '' WHERE id = 'b'")
    outbox.outbox_changed()
    take_over = outbox._take_over

    def hinted(connection: Connection, me: str) -> Any:
        claimed = take_over(connection, me)
        outbox.outbox_changed()
        return claimed

    monkeypatch.setattr(outbox, "_take_over", hinted)
    assert summaries(await due(store)) == [("t", "a", 1)]
    await done(store, "UPDATE push_configs SET holder = '*' WHERE id = 'b'")
    assert await outbox.wait() == 0
    assert summaries(await due(store)) == [("t", "b", 1)]
