"""Serving processes on one PostgreSQL: any call on any of them, and what becomes of the tasks of one that ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Caller, callers
from tests.durability.serving import Served, Stage

#: seconds: short enough for a test, long enough for a machine that has other things to do
LEASE = "4"
BOUND = 60.0


class Fleet:
    """Processes on one database."""

    def __init__(self, url: str, journal: Path, stack: AsyncExitStack) -> None:
        self._stage = Stage(url, ("--lease", LEASE), {"TRIALS_JOURNAL": str(journal), "TRIALS_PACE": "0.05"})
        self._stack = stack
        self.journal = journal

    async def join(self) -> tuple[Served, list[Caller]]:
        """A further process, and our client on each binding."""
        served = await self._stack.enter_async_context(self._stage.serving())
        ways = callers(served, official=())
        return served, await self._stack.enter_async_context(ways)

    async def official(self, served: Served, *bindings: str) -> list[Caller]:
        """The client of the official SDK on these bindings."""
        return await self._stack.enter_async_context(callers(served, official=bindings, bindings=()))

    def journalled(self, how: str) -> Counter[str]:
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        return Counter(task for done, _, task in lines if done == how)


@pytest.fixture
async def fleet(postgres_url: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(postgres_url, tmp_path / "journal", stack)


async def _send(caller: Caller, text: str, task_id: str = "", *, immediately: bool = False) -> hub.Task:
    async with asyncio.timeout(BOUND):
        answer = await caller.send(text, uuid4().hex, task_id=task_id, immediately=immediately)
    return answer.task


async def test_any_replica_answers_any_call_and_tasks_outlive_the_one_that_works_on_them(
    fleet: Fleet,
) -> None:
    """One process is killed, one is stopped; readers elsewhere miss nothing."""
    (killed, first), (stopped, second), (_, third) = await asyncio.gather(
        fleet.join(), fleet.join(), fleet.join()
    )
    await _any_call(first[0], [second[2], *await fleet.official(stopped, "JSONRPC", "HTTP+JSON")])

    count, pieces = 4, 100
    marks = [uuid4().hex for _ in range(count)]
    tasks = [await _send(first[0], f"steady {pieces} {mark}", immediately=True) for mark in marks]
    lost = await _send(first[0], f"hang {uuid4().hex}", immediately=True)
    followers = [
        asyncio.create_task(_followed(third[number % len(third)], task.id))
        for number, task in enumerate(tasks)
    ]
    unary = asyncio.create_task(_ending(second[0], lost.id))
    await _moved_on(third[0], tasks[0].id, 5)

    killed.kill()
    await killed.ended()
    async with asyncio.timeout(BOUND):
        # Said by `resume`, which knows steady work only.
        assert (await unary).status.message.parts[0].text == "it was not steady work"
    at = len((await third[0].get(tasks[0].id)).artifacts[0].parts)
    await _moved_on(third[0], tasks[0].id, at + 5)

    assert await stopped.stop() == 0
    async with asyncio.timeout(BOUND):
        told = await asyncio.gather(*followers)
    for mark, task, texts in zip(marks, tasks, told, strict=True):
        assert texts == [f"{mark}:{number}." for number in range(pieces)]
        ended = await third[0].get(task.id)
        assert ended.status.state == hub.TASK_STATE_COMPLETED
        assert [part.text for part in ended.artifacts[0].parts] == texts
    resumed = fleet.journalled("resume")
    assert set(resumed) == {task.id for task in [*tasks, lost]}
    # Each was taken over once from the one that was killed, and some once more from the one that was stopped.
    assert all(times <= 2 for times in resumed.values())
    assert resumed[lost.id] == 1
    executed = fleet.journalled("execute")
    assert {executed[task_id] for task_id in resumed} == {1}


async def _any_call(owner: Caller, others: list[Caller]) -> None:
    """Whatever these ask, of a replica that does not work on the task, is answered."""
    for other in others:
        mark = uuid4().hex
        # What waits for its user is continued by whoever is told to.
        asked = await _send(owner, f"ask {mark}")
        assert (await other.get(asked.id)).status.state == hub.TASK_STATE_INPUT_REQUIRED
        done = await _send(other, f"because {mark}", asked.id)
        assert done.artifacts[0].parts[0].text == f"answered {mark}", other.name
        assert (await owner.get(asked.id)).status.state == hub.TASK_STATE_COMPLETED
        # What is being worked on is read here, and changed where it runs.
        hanging = await _send(owner, f"hang {mark}", immediately=True)
        assert hanging.id in [task.id for task in await other.list()]
        events = other.subscribe(hanging.id)
        assert (await anext(events)).event.task.id == hanging.id
        more = asyncio.create_task(_collected(other.stream(f"more {mark}", uuid4().hex, task_id=hanging.id)))
        await _told(owner, hanging.id, 2)
        canceled = await other.cancel(hanging.id)
        assert canceled.status.state == hub.TASK_STATE_CANCELED
        async with asyncio.timeout(BOUND):
            assert [one.event.status_update.status.state async for one in events][-1] == canceled.status.state
            streamed = await more
        assert streamed[0].event.task.id == hanging.id
        assert streamed[-1].event.status_update.status.state == hub.TASK_STATE_CANCELED
        with pytest.raises(A2AError) as caught:
            await other.cancel(hanging.id)
        assert caught.value.reason is Reason.TASK_NOT_CANCELABLE


async def _collected(events: AsyncIterator[object]) -> list:
    return [one async for one in events]


async def _followed(caller: Caller, task_id: str) -> list[str]:
    """The pieces that a subscription shows, those of its snapshot first."""
    texts: list[str] = []
    async for one in caller.subscribe(task_id):
        match one.event.WhichOneof("payload"):
            case "task":
                texts = [part.text for artifact in one.event.task.artifacts for part in artifact.parts]
            case "artifact_update":
                texts += [part.text for part in one.event.artifact_update.artifact.parts]
    return texts


async def _ending(caller: Caller, task_id: str) -> hub.Task:
    async for _ in caller.subscribe(task_id):
        pass
    return await caller.get(task_id)


async def _moved_on(caller: Caller, task_id: str, pieces: int) -> None:
    async with asyncio.timeout(BOUND):
        while True:
            task = await caller.get(task_id)
            if task.artifacts and len(task.artifacts[0].parts) >= pieces:
                return
            await asyncio.sleep(0.05)


async def _told(caller: Caller, task_id: str, messages: int) -> None:
    async with asyncio.timeout(BOUND):
        while True:
            task = await caller.get(task_id)
            if len([message for message in task.history if message.role == hub.ROLE_USER]) >= messages:
                return
            await asyncio.sleep(0.05)
