"""Notifications between replicas."""

from __future__ import annotations

import asyncio

import psycopg
from sqlalchemy import create_engine

from a2a_bridge.hosting.stores.sql.notify import Kind, payload, payloads
from tests.replicas.conftest import PATIENCE, Fleet


def _announce(one, url: str, task_ids: list[str], *, deliveries: bool = False, fail: bool = False) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        one.announce(connection, task_ids, deliveries=deliveries)
        if fail:
            connection.rollback()
        else:
            connection.commit()
    engine.dispose()


async def test_the_others_hear_which_tasks_have_changed(fleet: Fleet) -> None:
    one, own = await fleet.join()
    _, heard = await fleet.join()
    await heard.until(lambda: heard.tasks == [None])
    await own.until(lambda: not one._replicas.alone or own.tasks)
    one._replicas.alone = False
    _announce(one, fleet.url, ["a", "b"], deliveries=True, fail=True)
    _announce(one, fleet.url, ["c", "d"])
    await heard.until(lambda: len(heard.tasks) > 1)
    assert heard.tasks[1] == {"c", "d"}
    assert heard.deliveries == 1  # of the start
    _announce(one, fleet.url, [], deliveries=True)
    await heard.until(lambda: heard.deliveries == 2)
    assert own.tasks == [None], "nobody has to be told what it did itself"


async def test_a_single_replica_sends_no_notifications_until_another_joins(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    assert one._replicas.alone
    await fleet.join(lease=60)
    with psycopg.connect(fleet.url, autocommit=True) as listening:
        listening.execute("LISTEN a2a_bridge")
        async with asyncio.timeout(PATIENCE):
            while one._replicas.alone:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0)
        _announce(one, fleet.url, ["t"])
        (said,) = listening.notifies(timeout=20, stop_after=1)
    assert said.payload == payload(Kind.TASKS, one.me, "t")


async def test_many_ids_are_sent_in_payloads_within_the_limit() -> None:
    ids = [f"task-{number:04}" for number in range(3000)]
    said = list(payloads("sender", ids))
    assert len(said) > 1
    assert all(len(one.encode()) < 8000 for one in said)
    assert [task for one in said for task in one.split("\n")[1:]] == ids


async def test_a_listener_whose_connection_is_cut_listens_again_and_takes_everything_for_changed(
    fleet: Fleet,
) -> None:
    one, _ = await fleet.join()
    _, heard = await fleet.join()
    await heard.until(lambda: heard.tasks == [None])
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'a2a-bridge listener' AND datname = current_database()"
        )
    await heard.until(lambda: heard.tasks[-1] is None and len(heard.tasks) >= 3)
    one._replicas.alone = False
    _announce(one, fleet.url, ["x"])
    await heard.until(lambda: {"x"} in heard.tasks)


async def test_without_a_hint_everything_counts_as_changed_now_and_then(fleet: Fleet) -> None:
    _, heard = await fleet.join(poll=0.05)
    await heard.until(lambda: len(heard.tasks) > 3)
    assert set(heard.tasks) == {None}
