"""The memory of an agent: counted, evicted when unused, and new work is rejected beyond the limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge.bindings import memory as under_test
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Event, Run, run_registry
from a2a_bridge.hosting.run_registry import FULL, Pressure
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.stores import MemoryStore, StoreOptions, open_store
from a2a_bridge.stores.groups import _QUEUE_BYTES
from a2a_bridge.stores.lease import TaskLease
from a2a_bridge.stores.ports import Store
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    WORKING,
    Gate,
    Talk,
    agent_of,
)
from tests.rejections import rejected

MIB = 1 << 20
kinds = pytest.mark.parametrize("kind", ["memory", "sqlite"])


class Held:
    def __init__(self, account: MemoryAccount, size: int) -> None:
        self.account, self.idle = account, size
        account.holds(self)
        account.add(size)

    def give_up(self, wanted: int, /) -> None:
        size = min(wanted, self.idle)
        self.idle -= size
        self.account.add(-size)


def test_the_largest_idle_thing_goes_first() -> None:
    account = MemoryAccount(104)
    small, large = Held(account, 20), Held(account, 60)
    account.add(11)
    assert (small.idle, large.idle, account.rejection()) == (20, 60, None)
    account.add(40)
    assert (small.idle, large.idle, account.used) == (20, 33, 104)
    assert account.rejection() is None
    assert (small.idle, large.idle, account.used) == (20, 20, 91)
    assert not account.exceeded
    account.add(60)
    assert (small.idle, large.idle, account.used) == (0, 0, 111)
    assert account.exceeded
    account.add(-11)
    assert not account.exceeded
    rejection = account.rejection()
    assert rejection is not None
    assert (rejection.reason, rejection.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
    account.add(-9)
    assert account.rejection() is None
    unlimited = MemoryAccount()
    unlimited.add(1 << 40)
    assert unlimited.rejection() is None
    assert not unlimited.exceeded


async def test_free_memory_is_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed, loop = asyncio.Event(), asyncio.get_running_loop()
    monkeypatch.setattr(under_test, "_SOON", 0.0)
    monkeypatch.setattr(under_test, "_trimmer", lambda: lambda _: loop.call_soon_threadsafe(trimmed.set))
    account = MemoryAccount()
    account.add(64 * MIB)
    account.add(-16 * MIB)
    await asyncio.sleep(0)
    assert account._trimming is None
    account.add(-32 * MIB)
    async with asyncio.timeout(PATIENCE):
        await trimmed.wait()


@asynccontextmanager
async def opened(kind: str, folder: Path, limit: int) -> AsyncIterator[Store]:
    url = "memory://" if kind == "memory" else f"sqlite:///{folder}/tasks.db"
    async with open_store(url, StoreOptions(max_memory=limit, ack_timeout=PATIENCE)) as store:
        yield store


async def _large(run: Run) -> AsyncIterator[Event]:
    yield run.status("working")
    for _ in range(10):
        yield run.artifact("x" * 100_000, artifact_id="a", append=True)
    if run.text == "ask":
        yield run.status("input-required")
    else:
        yield run.status("completed")


@kinds
async def test_the_account_equals_the_held_bytes(kind: str, tmp_path: Path) -> None:
    """However tasks end: the account contains nothing of them, and nothing is subtracted twice."""
    async with opened(kind, tmp_path, 0) as store:
        talk = Talk(agent_of(_large), store=store)
        asked = [await talk.send("ask", message_id=f"a{number}") for number in range(3)]
        for number in range(5):
            await talk.stream("go", message_id=f"m{number}")
        for number, task in enumerate(asked[:2]):
            await talk.send("more", task_id=task.id, message_id=f"b{number}")
        await talk.cancel(asked[2].id)
        await talk.rest()
        assert await _held(store) == store.memory.used
        reading = talk.subscribe(asked[0].id, None)
        with pytest.raises(A2AError):
            await anext(reading)
        assert await _held(store) == store.memory.used
        await talk.close()


async def _held(store: Any) -> int:
    """The bytes that a store holds without runs, once it has serialized its tasks but for the working copies that
    it keeps, which count once more.
    """
    kept = set(store._resting)
    if isinstance(store, MemoryStore):
        others = [entry for name, entry in store._entries.items() if name not in kept]
        async with asyncio.timeout(PATIENCE):
            while any(entry.live is not None and not entry.held for entry in others):
                await run_in_worker(bool)
        tasks = sum(len(entry.data) for entry in others) + sum(store._entries[name].size for name in kept)
        return int(store._resting.size + tasks + sum(log.bytes for log in store._logs.values()))
    return int(store._ended.idle + store._resting.size)


@kinds
async def test_new_work_is_rejected_beyond_the_limit_and_running_work_continues(
    kind: str, tmp_path: Path
) -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        if run.text == "small":
            yield run.status("input-required")
            return
        yield run.artifact("x" * (7 * MIB), artifact_id="a")
        await gate.wait()
        yield run.artifact("y" * (MIB // 4), artifact_id="a", append=True)
        yield run.status("completed")

    async with opened(kind, tmp_path, 8 * MIB - 1) as store:
        talk = Talk(agent_of(execute), store=store)
        asked = await talk.send("small")
        assert asked.status.state == INPUT
        large = await talk.send("large", message_id="m-2", configuration=IMMEDIATELY)
        await gate.reached()
        with rejected(Reason.RESOURCE_EXHAUSTED):
            await talk.send("large", message_id="m-3")
        with rejected(Reason.RESOURCE_EXHAUSTED):
            await talk.send("more", message_id="m-4", task_id=asked.id)
        assert (await talk.get(large.id)).status.state == WORKING
        assert (await talk.cancel(asked.id)).status.state == CANCELED
        assert store.rejection() is None, "it is ready all the same"
        gate.open()
        await talk.rest()
        if kind == "sqlite":
            ended = await talk.get(large.id)
            assert (ended.status.state, len(ended.artifacts[0].parts)) == (COMPLETED, 2)
        assert (await talk.send("small", message_id="m-5")).status.state == INPUT
        await talk.close()


@kinds
async def test_above_the_limit_the_largest_run_ends_and_the_others_continue(
    kind: str, tmp_path: Path
) -> None:
    gates = {"large": Gate(), "small": Gate()}

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        pieces = 6 if run.text == "large" else 1
        for _ in range(pieces):
            yield run.artifact("x" * MIB, artifact_id="a", append=True)
        await gates[run.text].wait()
        if run.text == "small":
            for _ in range(3):
                yield run.artifact("x" * MIB, artifact_id="a", append=True)
        yield run.status("completed")

    async with opened(kind, tmp_path, 8 * MIB + MIB // 2) as store:
        talk = Talk(agent_of(execute), store=store)
        small = asyncio.create_task(talk.send("small", message_id="small"))
        await gates["small"].reached()
        large = asyncio.create_task(talk.send("large", message_id="large"))
        await gates["large"].reached()
        gates["small"].open()
        async with asyncio.timeout(PATIENCE):
            failed, completed = await large, await small
        assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, FULL)
        assert completed.status.state == COMPLETED
        assert sum(len(part.text) for part in completed.artifacts[0].parts) == 4 * MIB
        await talk.rest()
        assert not store.memory.exceeded
        await talk.close()


@kinds
async def test_a_run_that_alone_exceeds_the_limit_fails(kind: str, tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        try:
            while True:
                yield run.artifact("x" * MIB, artifact_id="a", append=True)
        finally:
            closed.set()

    async with opened(kind, tmp_path, 8 * MIB) as store:
        talk = Talk(agent_of(execute), store=store)
        async with asyncio.timeout(PATIENCE):
            failed = await talk.send("x")
            await closed.wait()
        assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, FULL)
        await talk.rest()
        assert not store.memory.exceeded
        await talk.close()


async def test_a_store_in_memory_evicts_the_task_that_ended_first(tmp_path: Path) -> None:
    async with opened("memory", tmp_path, 5 * MIB) as store:
        talk = Talk(agent_of(_large), store=store)
        waiting = await talk.send("ask")
        ended = [(await talk.send("go", message_id=f"m{number}")).id for number in range(8)]
        kept = [task.id for task in (await talk.list()).tasks]
        assert store.memory.used <= 5 * MIB
        assert waiting.id in kept
        assert set(kept) - {waiting.id} == set(ended[-(len(kept) - 1) :])
        assert 2 <= len(kept) <= 5
        with rejected(Reason.TASK_NOT_FOUND):
            await talk.get(ended[0])
        assert await _held(store) == store.memory.used
        await talk.close()


# Memory pressure: which run ends, and that the measuring of many large tasks does not hold the loop.


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

    live, lease = SimpleNamespace(task=SimpleNamespace(ByteSize=measured)), SimpleNamespace(last=1)
    run: Any = SimpleNamespace(live=live, lease=lease, _size=0, _measured=-1)
    assert [TaskRun.size.fget(run) for _ in range(3)] == [7, 7, 7]  # type: ignore[attr-defined]
    assert calls == 1
    lease.last = 2
    assert TaskRun.size.fget(run) == 7  # type: ignore[attr-defined]
    assert calls == 2


class Large:
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
