"""Calls that one replica forwards to another."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.stores.sql.cluster import Cluster
from a2a_bridge.hosting.stores.sql.commands import _SWEEP_UP
from tests.replicas.conftest import PATIENCE, Fleet, until


def _rows(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute("SELECT count(*) FROM commands").fetchone()[0]


async def _echo(question: bytes) -> bytes:
    return b"re: " + question


async def test_a_question_is_answered_and_nothing_is_left(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    two, _ = await fleet.join()
    two.remote.serve(_echo)
    answers = await asyncio.wait_for(
        asyncio.gather(*(one.remote.ask(two.me, b"%d" % number, None) for number in range(50))), PATIENCE
    )
    assert answers == [b"re: %d" % number for number in range(50)]
    assert _rows(fleet.url) == 0


async def test_both_may_ask_each_other_meanwhile(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    two, _ = await fleet.join()

    async def relay(question: bytes) -> bytes:
        return b"two:" + await two.remote.ask(one.me, question, None)

    one.remote.serve(_echo)
    two.remote.serve(relay)
    assert await asyncio.wait_for(one.remote.ask(two.me, b"\x00\xff", None), PATIENCE) == b"two:re: \x00\xff"


async def test_who_is_not_there_is_not_asked(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(one.remote.ask("nobody", b"", None), PATIENCE)
    assert caught.value.reason is Reason.UNAVAILABLE
    assert caught.value.retry_after
    assert _rows(fleet.url) == 0


async def _asked_in_vain(one: Cluster, two: Cluster) -> asyncio.Task[bytes]:
    """A call that is worked on for ever."""
    asked = asyncio.Event()

    async def never(_: bytes) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    two.remote.serve(never)
    asking = asyncio.create_task(one.remote.ask(two.me, b"?", None))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    return asking


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_question_to_one_that_dies_has_failed(fleet: Fleet, graceful: bool) -> None:
    one, _ = await fleet.join()
    two, _ = await fleet.join()
    asking = await _asked_in_vain(one, two)
    if graceful:
        await two.close()
    else:
        two._thread._loop.call_soon_threadsafe(two._replicas._beating.cancel)
    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(asking, PATIENCE)
    assert caught.value.reason is Reason.UNAVAILABLE
    assert _rows(fleet.url) == 0


async def test_who_waits_no_longer_takes_the_question_back(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    two, _ = await fleet.join()
    asked, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(question: bytes) -> bytes:
        asked.set()
        await go_on.wait()
        done.set()
        return b"late"

    two.remote.serve(slow)
    with pytest.raises(A2AError) as caught:
        await one.remote.ask(two.me, b"?", 0.5)
    assert caught.value.reason is Reason.UNAVAILABLE
    await asyncio.wait_for(asked.wait(), PATIENCE)
    await until(lambda: _rows(fleet.url) == 0)
    go_on.set()
    await asyncio.wait_for(done.wait(), PATIENCE)  # work that has begun continues
    assert await asyncio.wait_for(one.remote.ask(two.me, b"again", None), PATIENCE) == b"late"


async def test_a_replica_declared_dead_gets_the_answers_to_its_earlier_commands(fleet: Fleet) -> None:
    one, heard = await fleet.join()
    two, _ = await fleet.join()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(question: bytes) -> bytes:
        asked.set()
        await go_on.wait()
        return b"late"

    two.remote.serve(slow)
    asking = asyncio.create_task(one.remote.ask(two.me, b"?", None))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas WHERE id = %s", [one.me])
        await heard.until(lambda: heard.lost == 1)
        connection.execute(_SWEEP_UP, {"me": two.me})
    go_on.set()
    assert await asyncio.wait_for(asking, PATIENCE) == b"late"
    assert _rows(fleet.url) == 0


async def test_a_question_that_is_not_there_any_more_has_failed(fleet: Fleet) -> None:
    one, _ = await fleet.join(poll=0.2)
    two, _ = await fleet.join()
    asking = await _asked_in_vain(one, two)
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM commands")
    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(asking, PATIENCE)
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_a_question_that_breaks_the_answerer_is_answered_with_nothing(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = await fleet.join()
    two, _ = await fleet.join()

    async def broken(question: bytes) -> bytes:
        raise RuntimeError

    two.remote.serve(broken)
    assert await asyncio.wait_for(one.remote.ask(two.me, b"?", None), PATIENCE) == b""
    assert "a call of another replica failed" in caplog.text


async def test_commands_and_answers_without_a_notification_are_found(fleet: Fleet) -> None:
    one, _ = await fleet.join(poll=0.2)
    two, _ = await fleet.join(poll=0.2)
    two.remote.serve(_echo)
    one._listener._handlers.clear()
    two._listener._handlers.clear()
    assert await asyncio.wait_for(one.remote.ask(two.me, b"x", None), PATIENCE) == b"re: x"


async def test_a_connection_that_is_cut_in_between_is_made_again(fleet: Fleet) -> None:
    one, _ = await fleet.join(poll=0.2)
    two, _ = await fleet.join(poll=0.2)
    go_on = asyncio.Event()
    asked = asyncio.Event()

    async def slow(question: bytes) -> bytes:
        asked.set()
        await go_on.wait()
        return question

    two.remote.serve(slow)
    asking = asyncio.create_task(one.remote.ask(two.me, b"x", None))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'a2a-bridge commands' AND datname = current_database()"
        )
    go_on.set()
    assert await asyncio.wait_for(asking, PATIENCE) == b"x"
