"""Transactions of several replicas lock rows in one order. PostgreSQL reports deadlocks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Registered
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Scope, VersionConflictError
from a2a_bridge.stores.sql.store import SqlStore
from a2a_bridge.testing.store_scene import Author
from tests.patience import PATIENCE

SCOPE = Scope("", "")
OPTIONS = StoreOptions(ack_timeout=PATIENCE)
#: seconds that a transaction waits for the other one
MEETING = 2.0

Steps = Callable[[SqlStore, str], Coroutine[Any, Any, Any]]


async def _opens(store: SqlStore, name: str) -> None:
    stored = await store.get(SCOPE, name)
    assert stored is not None
    with suppress(VersionConflictError):
        await store.open(SCOPE, stored, lambda: None)


async def _reserves(store: SqlStore, name: str) -> None:
    await store.sends.reserve(SCOPE, name, b"digest", f"task of {name}")


async def _configures(store: SqlStore, name: str) -> None:
    config = hub.TaskPushNotificationConfig(id="c", task_id=name, url="https://a.example/hook")
    await store.push_configs.put(SCOPE, Registered(config))


@pytest.mark.parametrize("step", [_opens, _reserves, _configures])
async def test_two_replicas_do_the_same_in_opposite_orders(
    postgres_url: str, caplog: pytest.LogCaptureFixture, step: Steps
) -> None:
    caplog.set_level(logging.INFO, "a2a_bridge.store")
    names = ["task-a", "task-b"]
    async with open_store(postgres_url, OPTIONS) as one, open_store(postgres_url, OPTIONS) as two:
        assert isinstance(one, SqlStore)
        assert isinstance(two, SqlStore)
        for name in names:
            author = Author(one, SCOPE).begin(name)
            await author.writer.sync()
            author.writer.release()
        await one.wait_settled()
        go, meeting = threading.Event(), threading.Barrier(2)

        def wait(_: Connection) -> None:
            go.wait()

        def meet(_: Connection) -> None:
            with suppress(threading.BrokenBarrierError):
                meeting.wait(MEETING)

        # One transaction for each replica: a row, a pause until the other one has its row, the other row.
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for store, (first, second) in ((one, names), (two, names[::-1])):
                tasks.create_task(store.write(wait))
                await _until(partial(_is_under_way, store, wait))
                for work in (step(store, first), store.write(meet), step(store, second)):
                    before = _queued(store)
                    tasks.create_task(work)
                    await _until(partial(_has_more, store, before))
            go.set()
    assert caplog.messages == []


def _is_under_way(store: SqlStore, work: object) -> bool:
    group = store.writer._group
    return group is not None and any(change.work is work for change in group.changes)


def _queued(store: SqlStore) -> int:
    return len(store.writer._jobs) + len(store.writer._dirty)


def _has_more(store: SqlStore, before: int) -> bool:
    return _queued(store) > before


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  there is no notification
        await asyncio.sleep(0)
