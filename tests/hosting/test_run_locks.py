"""Locks by name that the runs of an agent share: `Run.lock`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import hub
from a2a_bridge.hosting.limits import RunLocks
from tests.patience import PATIENCE


async def test_a_second_run_waits_and_those_with_other_names_do_not() -> None:
    locks = RunLocks(None)
    order, may_end = [], asyncio.Event()

    async def turn(key: str, name: str, *, waits: bool = False) -> None:
        async with locks.hold(key):
            order.append(f"{name} begins")
            if waits:
                await may_end.wait()
            order.append(f"{name} ends")

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(turn("ann", "first", waits=True))
        second = group.create_task(turn("ann", "second"))
        cancelled = group.create_task(turn("ann", "cancelled"))
        await group.create_task(turn("bob", "another"))
        cancelled.cancel()
        assert not second.done()
        may_end.set()
    assert order == [
        "first begins",
        "another begins",
        "another ends",
        "first ends",
        "second begins",
        "second ends",
    ]
    assert len(locks) == 0


class _Remote:
    """Grants one lock after the other, and notes which it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held = 0

    def lock(self, name: str, /) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def held() -> AsyncIterator[None]:
            self.asked.append(name)
            self.held += 1
            try:
                yield
            finally:
                self.held -= 1

        return held()


async def test_one_run_of_a_process_at_a_time_asks_the_store() -> None:
    remote: Any = _Remote()
    locks = RunLocks(remote)
    async with asyncio.timeout(PATIENCE):
        waiting = locks.hold("n")
        async with locks.hold("n"):
            waiter = asyncio.create_task(waiting.__aenter__())
            await asyncio.wait({waiter}, timeout=0)
            assert remote.asked == ["n"]
        await waiter
        assert (remote.asked, remote.held) == (["n", "n"], 1)
        await waiting.__aexit__(None, None, None)
    assert remote.held == 0


@pytest.mark.parametrize("ends", ["well", "with an error", "cancelled"])
async def test_a_lock_is_free_after_its_run(ends: str) -> None:
    entered = asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Any]:
        async with run.lock("n"):
            yield run.status("working")
            entered.set()
            if run.text == "with an error":
                raise ValueError(run.text)
            if run.text == "cancelled":
                await asyncio.Event().wait()
            yield run.status("completed")

    class Locking:
        def execute(self, run: Run) -> AsyncIterator[Any]:
            return execute(run)

    async with asyncio.timeout(PATIENCE), connect(Agent(Locking(), name="locking")) as peer:
        first = (await peer.send(ends, return_immediately=True)).task
        assert first is not None
        await entered.wait()
        if ends == "cancelled":
            await peer.cancel_task(hub.CancelTaskRequest(id=first.id))
        second = (await peer.send("again")).task
        assert second is not None
        assert second.status.state == hub.TASK_STATE_COMPLETED
