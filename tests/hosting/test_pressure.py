"""Memory pressure: which run ends, and that the measuring of many large tasks does not hold the loop."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Event, Run, run_registry
from a2a_bridge.hosting.run_registry import Pressure
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.groups import _QUEUE_BYTES
from a2a_bridge.stores.lease import TaskLease
from tests.hosting.scene import COMPLETED, Talk
from tests.patience import PATIENCE

RUNS = 20
#: bytes
LARGE = 4_000_000


class User:
    """A run that frees its bytes when it is ended."""

    def __init__(self, memory: MemoryAccount, number: int, size: int) -> None:
        self.task_id, self.size, self.running = str(number), size, True
        self._memory = memory
        memory.add(size)

    async def wait_settled(self) -> None: ...

    async def break_off(self, error: A2AError, /) -> None:
        assert error.reason is Reason.RESOURCE_EXHAUSTED
        self.running = False
        self._memory.add(-self.size)


async def test_the_largest_run_ends_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_registry, "_TURN", -1.0)
    memory = MemoryAccount(1000)
    users = [User(memory, number, 10 + number) for number in range(100)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    relief = Pressure(memory, users)
    memory.add(0)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(relief.relieve(user) for user in users[:5]))
    counting.cancel()
    assert memory.used <= 1000
    ended = [int(user.task_id) for user in users if not user.running]
    assert ended == list(range(min(ended), 100))  # the largest ones
    assert turns > len(users)


def test_a_task_is_measured_once_for_each_state_of_it() -> None:
    calls = 0

    def measured() -> int:
        nonlocal calls
        calls += 1
        return 7

    live = SimpleNamespace(task=SimpleNamespace(ByteSize=measured), last=1)
    run: Any = SimpleNamespace(live=live, _size=0, _measured=-1)
    assert [TaskRun.size.fget(run) for _ in range(3)] == [7, 7, 7]  # type: ignore[attr-defined]
    assert calls == 1
    live.last = 2
    assert TaskRun.size.fget(run) == 7  # type: ignore[attr-defined]
    assert calls == 2


class Large:
    """Its runs have a large artifact."""

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        yield run.start()
        yield run.artifact("x" * LARGE, artifact_id="large")
        yield run.status("completed")


async def test_runs_that_waited_for_memory_together_do_not_fill_the_queue_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = asyncio.Event()
    waiting: list[TaskRun] = []

    async def relieved(_: Pressure, user: TaskRun) -> None:
        waiting.append(user)
        await freed.wait()

    monkeypatch.setattr(Pressure, "relieve", relieved)
    monkeypatch.setattr(MemoryAccount, "exceeded", property(lambda _: not freed.is_set()))
    most = 0
    append = TaskLease.append

    def measured(lease: TaskLease, *arguments: Any) -> int:
        nonlocal most
        number = append(lease, *arguments)
        most = max(most, lease._writer.queued)
        return number

    monkeypatch.setattr(TaskLease, "append", measured)
    async with open_store(f"sqlite:///{tmp_path / 'store.db'}", StoreOptions(ack_timeout=PATIENCE)) as store:
        store.memory.pressed = True
        talk = Talk(Agent(Large(), name="large", description=""), store=store)
        async with asyncio.timeout(PATIENCE):
            answers = asyncio.gather(*(talk.send("x") for _ in range(RUNS)))
            while len(waiting) < RUNS:  # noqa: ASYNC110  a list has no event
                await asyncio.sleep(0)
            freed.set()
            assert all(task.status.state == COMPLETED for task in await answers)
        await talk.close()
    # The bound of the queue, and a run that may exceed it.
    assert most < _QUEUE_BYTES + 2 * LARGE < RUNS * LARGE
