"""Serving processes on one PostgreSQL: any call at any of them, and the tasks of a process that ends."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Caller, callers, lost
from tests.durability.serving import Served, Stage, until
from tests.patience import PATIENCE
from tests.rejections import rejected

#: seconds: short enough for a test, long enough for a machine with other work
LEASE = "4"


class Fleet:
    def __init__(self, url: str, journal: Path, stack: AsyncExitStack) -> None:
        flags = ("--lease", LEASE, "--timeout-graceful-shutdown", "1")
        self._stage = Stage(url, flags, {"TRIALS_JOURNAL": str(journal), "TRIALS_PACE": "0.05"})
        self._stack, self.journal = stack, journal

    async def join(self) -> tuple[Served, list[Caller]]:
        """A further process, and our client on each binding."""
        served = await self._stack.enter_async_context(self._stage.serving())
        return served, await self._stack.enter_async_context(callers(served, official=()))

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
    async with asyncio.timeout(PATIENCE):
        answer = await caller.send(text, uuid4().hex, task_id=task_id, immediately=immediately)
    return answer.task


async def test_any_replica_answers_any_call_and_tasks_outlive_the_one_that_works_on_them(
    fleet: Fleet,
) -> None:
    """One process is killed, one is stopped; readers at the others miss nothing."""
    (killed, first), (stopped, second), (_, third) = await asyncio.gather(
        fleet.join(), fleet.join(), fleet.join()
    )
    await _any_call(first[0], [second[2], *await fleet.official(stopped, "JSONRPC", "HTTP+JSON")])

    count, pieces = 4, 100
    marks = [uuid4().hex for _ in range(count)]
    tasks = [await _send(first[0], f"steady {pieces} {mark}", immediately=True) for mark in marks]
    hanging = await _send(first[0], f"hang {uuid4().hex}", immediately=True)
    followers = [
        asyncio.create_task(_followed(third[number % len(third)], task.id))
        for number, task in enumerate(tasks)
    ]
    unary = asyncio.create_task(_ending(second[0], hanging.id))
    await _moved_on(third[0], tasks[0].id, 5)

    killed.kill()
    await killed.ended()
    async with asyncio.timeout(PATIENCE):
        # Outgoing by `resume`, which knows steady work only.
        assert (await unary).status.message.parts[0].text == "it was not steady work"
    at = len((await third[0].get(tasks[0].id)).artifacts[0].parts)
    await _moved_on(third[0], tasks[0].id, at + 5)

    assert await stopped.stop() == 0
    async with asyncio.timeout(PATIENCE):
        told = await asyncio.gather(*followers)
    for mark, task, texts in zip(marks, tasks, told, strict=True):
        assert texts == [f"{mark}:{number}." for number in range(pieces)]
        ended = await third[0].get(task.id)
        assert ended.status.state == hub.TASK_STATE_COMPLETED
        assert [part.text for part in ended.artifacts[0].parts] == texts
    resumed = fleet.journalled("resume")
    assert set(resumed) == {task.id for task in [*tasks, hanging]}
    # Each was taken over once from the killed one, and some once more from the stopped one.
    assert all(times <= 2 for times in resumed.values())
    assert resumed[hanging.id] == 1
    executed = fleet.journalled("execute")
    assert {executed[task_id] for task_id in resumed} == {1}


async def test_a_rolling_restart_under_load_loses_nothing(fleet: Fleet) -> None:
    """One process after the other. Readers continue at any serving process; accepted work is done."""
    line = [await fleet.join(), await fleet.join()]

    def serving() -> list[Caller]:
        """The processes that can be called, the newest first."""
        return [caller for _, ways in reversed(line) for caller in ways]

    marks = [uuid4().hex for _ in range(3)]
    tasks = [await _send(line[0][1][0], f"steady 100000 {mark}", immediately=True) for mark in marks]
    # At the oldest, by each binding, so that each replacement cuts them.
    readers = [
        asyncio.create_task(_wandered(lambda way=way: serving()[way - 3], task.id))
        for way, task in enumerate(tasks)
    ]
    taken: list[str] = []
    visitors = asyncio.create_task(_visited(serving, taken))
    for _ in range(3):
        line.append(await fleet.join())
        await _more(taken, visitors)
        oldest, _ = line.pop(0)
        assert await oldest.stop() == 0
    for task in tasks:
        at = len((await serving()[0].get(task.id)).artifacts[0].parts)
        await _moved_on(serving()[0], task.id, at + 5)
        await serving()[1].cancel(task.id)
    visitors.cancel()
    with suppress(asyncio.CancelledError):
        await visitors

    async with asyncio.timeout(PATIENCE):
        read = await asyncio.gather(*readers)
    for mark, task, (texts, numbers, cuts) in zip(marks, tasks, read, strict=True):
        ended = await serving()[2].get(task.id)
        assert ended.status.state == hub.TASK_STATE_CANCELED
        assert texts == [part.text for part in ended.artifacts[0].parts]
        assert texts == [f"{mark}:{number}." for number in range(len(texts))]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert cuts > 0
    done = [await serving()[0].get(task_id) for task_id in taken]
    assert {task.status.state for task in done} == {hub.TASK_STATE_COMPLETED}
    executed, resumed = fleet.journalled("execute"), fleet.journalled("resume")
    assert set(executed.values()) == {1}
    assert all(resumed[task.id] > 0 for task in tasks)


async def _wandered(caller: Callable[[], Caller], task_id: str) -> tuple[list[str], list[int], int]:
    """Reads a task to its end where `caller` says: pieces, numbers of events, and the number of cuts."""
    texts: list[str] = []
    numbers: list[int] = []
    for cuts in itertools.count():
        with _cut_off():
            async for one in caller().subscribe(task_id, numbers[-1] if numbers else None):
                numbers.append(one.number)
                match one.event.WhichOneof("payload"):
                    case "task":
                        texts += [part.text for kept in one.event.task.artifacts for part in kept.parts]
                    case "artifact_update":
                        texts += [part.text for part in one.event.artifact_update.artifact.parts]
            return texts, numbers, cuts
    raise AssertionError


async def _visited(serving: Callable[[], list[Caller]], taken: list[str]) -> None:
    """Sends messages, one at a time to a serving process; returns the tasks of the accepted ones."""
    for number in itertools.count():
        callers = serving()
        with _cut_off():
            caller = callers[number % len(callers)]
            taken.append((await _send(caller, f"quick {uuid4().hex}", immediately=True)).id)


async def _more(taken: list[str], visitors: asyncio.Task[None]) -> None:
    """Waits until some more were accepted."""
    goal = len(taken) + 5
    await until(lambda: visitors.done() or len(taken) >= goal)


@contextmanager
def _cut_off() -> Iterator[None]:
    """For calls that may find that their process has gone."""
    try:
        yield
    except A2AError as error:
        if not lost(error):
            raise


async def _any_call(owner: Caller, others: list[Caller]) -> None:
    """Every kind of call is answered by a replica that does not work on the task."""
    for other in others:
        mark = uuid4().hex
        # A task that waits for its user is continued by the replica that gets the message.
        asked = await _send(owner, f"ask {mark}")
        assert (await other.get(asked.id)).status.state == hub.TASK_STATE_INPUT_REQUIRED
        done = await _send(other, f"because {mark}", asked.id)
        assert done.artifacts[-1].parts[0].text == f"answered {mark}", other.name
        assert (await owner.get(asked.id)).status.state == hub.TASK_STATE_COMPLETED
        # A working task is read here, and changed where it runs.
        hanging = await _send(owner, f"hang {mark}", immediately=True)
        assert hanging.id in [task.id for task in await other.list()]
        events = other.subscribe(hanging.id)
        assert (await anext(events)).event.task.id == hanging.id
        more = asyncio.create_task(_collected(other.stream(f"more {mark}", uuid4().hex, task_id=hanging.id)))
        await _told(owner, hanging.id, 2)
        canceled = await other.cancel(hanging.id)
        assert canceled.status.state == hub.TASK_STATE_CANCELED
        async with asyncio.timeout(PATIENCE):
            assert [one.event.status_update.status.state async for one in events][-1] == canceled.status.state
            streamed = await more
        assert streamed[0].event.task.id == hanging.id
        assert streamed[-1].event.status_update.status.state == hub.TASK_STATE_CANCELED
        with rejected(Reason.TASK_NOT_CANCELABLE):
            await other.cancel(hanging.id)


async def _collected(events: AsyncIterator[object]) -> list:
    return [one async for one in events]


async def _followed(caller: Caller, task_id: str) -> list[str]:
    """The pieces in a subscription, those of its snapshot first."""
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
    async with asyncio.timeout(PATIENCE):
        while True:
            task = await caller.get(task_id)
            if task.artifacts and len(task.artifacts[0].parts) >= pieces:
                return
            await asyncio.sleep(0.05)


async def _told(caller: Caller, task_id: str, messages: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            task = await caller.get(task_id)
            if len([message for message in task.history if message.role == hub.ROLE_USER]) >= messages:
                return
            await asyncio.sleep(0.05)
