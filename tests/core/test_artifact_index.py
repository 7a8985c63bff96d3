"""Tasks with many artifacts: n of them cost n, wherever events are added up. Lines are counted, not time."""

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import psutil
import pytest

from a2a_bridge import agent, connect
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.lifecycle import ArtifactIndex, advance_to, fold
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.service import Event
from a2a_bridge.gateway.polyfill import StreamOnly
from a2a_bridge.gateway.replay_log import ReplayLog, log_rules
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.hosting.limits import MOST_ARTIFACTS
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, yielding
from tests.lines import counted_lines

#: two sizes, the second four times the first: a square would cost sixteen times as much
SMALL, LARGE = 200, 800


def piece(artifact_id: str, text: str = "x", *, append: bool = False) -> hub.StreamResponse:
    artifact = hub.Artifact(artifact_id=artifact_id, parts=[hub.Part(text=text)])
    return hub.StreamResponse(
        artifact_update=hub.TaskArtifactUpdateEvent(
            task_id="t", context_id="c", artifact=artifact, append=append
        )
    )


def working(count: int = 0) -> hub.Task:
    task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    task.artifacts.extend([piece(f"{number}").artifact_update.artifact for number in range(count)])
    return task


def pieces(count: int) -> list[hub.StreamResponse]:
    return [piece(f"{number}") for number in range(count)]


def test_an_index_finds_what_a_search_finds() -> None:
    chance = random.Random(7)
    for _ in range(20):
        task, index = working(), ArtifactIndex()
        expected: dict[str, list[str]] = {}
        for number in range(120):
            if number % 40 == 39:  # a snapshot of other artifacts, as many as before
                names = [f"{number}-{one}" for one in range(len(expected))]
                snapshot = working()
                snapshot.artifacts.extend([piece(name).artifact_update.artifact for name in names])
                task = fold(task, hub.StreamResponse(task=snapshot), index)
                expected = {name: ["x"] for name in names}
            name, append = f"{chance.randrange(30)}", chance.random() < 0.5
            task = fold(task, piece(name, f"{number}", append=append), index)
            expected[name] = [*(expected.get(name, []) if append else []), f"{number}"]
        found = {one.artifact_id: [part.text for part in one.parts] for one in task.artifacts}
        assert list(found.items()) == list(expected.items())


async def hosted(count: int) -> None:
    class Executor:
        async def execute(self, run: Run) -> Any:
            for number in range(count):
                yield run.artifact("x", artifact_id=f"{number}")
            yield run.status("completed")

    async with connect(Agent(Executor(), name="many")) as peer:
        reply = await peer.send("x")
    assert reply.task is not None
    assert len(reply.task.artifacts) == count


async def a_snapshot(count: int) -> None:
    task = working(1)
    advance_to(task, working(count))
    assert len(task.artifacts) == count


async def a_replay_log(count: int) -> None:
    log = ReplayLog(log_rules(ReplayOptions()), "t", working(), epoch="g", most_task=1 << 20)
    for event in pieces(count):
        log.add(Event(event))
    found = log.snapshot()
    assert found is not None
    assert len(found.artifacts) == count


async def a_stream_as_an_answer(count: int) -> None:
    probe = Probe()
    probe.on_stream = yielding(*[Event(one) for one in pieces(count)])
    request = hub.SendMessageRequest(message=hub.Message(message_id="m"))
    answer = await StreamOnly(probe).unary(Call(ops.SEND_MESSAGE, request, CallContext()))
    assert len(answer.task.artifacts) == count


@each("work", [hosted, a_snapshot, a_replay_log, a_stream_as_an_answer])
async def test_many_artifacts_cost_what_they_are(work: Callable[[int], Any]) -> None:
    await work(2)  # imports
    counted = []
    for count in (SMALL, LARGE):
        with counted_lines() as lines:
            await work(count)
        counted.append(lines.count)
    small, large = counted
    assert large < 6 * small, counted


async def test_a_run_that_makes_too_many_artifacts_fails_its_task() -> None:
    class Executor:
        async def execute(self, run: Run) -> Any:
            whole = hub.Task(id=run.task_id, status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
            whole.artifacts.extend(working(MOST_ARTIFACTS).artifacts)
            yield whole
            yield run.artifact("y", artifact_id="7", append=True)
            yield run.artifact("z")

    async with connect(Agent(Executor(), name="many")) as peer:
        task = (await peer.send("x")).task
    assert task is not None
    assert (task.status.state, len(task.artifacts)) == (hub.TASK_STATE_FAILED, MOST_ARTIFACTS)
    assert len(task.artifacts[7].parts) == 2
    assert "more than 10000 artifacts" in task.status.message.parts[0].text


#: replaced content, in bytes of one event and events
LARGE_TEXT, REPLACED = "x" * 1_000_000, 200


def resident() -> int:
    """Bytes of this process."""
    return int(psutil.Process().memory_info().rss)


@pytest.mark.parametrize("snapshots", [False, True], ids=["artifacts", "snapshots"])
async def test_replaced_content_of_a_running_task_takes_no_memory(snapshots: bool) -> None:
    grown = 0

    async def answer(run: Run) -> AsyncIterator[Any]:
        nonlocal grown
        yield run.status("working")
        before = resident()
        for number in range(REPLACED):
            artifact = run.artifact(f"{number}{LARGE_TEXT}", artifact_id="a")
            if not snapshots:
                yield artifact
                continue
            task = working()
            task.id, task.context_id = run.task_id, run.context_id
            task.artifacts.append(artifact.artifact)
            yield task
        grown = resident() - before
        yield run.status("completed")

    async with connect(agent(answer)) as peer:
        task = (await peer.send("x")).task
    assert task is not None
    assert task.artifacts[0].parts[0].text == f"{REPLACED - 1}{LARGE_TEXT}"
    assert grown < REPLACED * len(LARGE_TEXT) / 3


@pytest.mark.parametrize("snapshots", [False, True], ids=["artifacts", "snapshots"])
def test_replaced_content_of_a_folded_task_takes_no_memory(snapshots: bool) -> None:
    task, index, before = working(), ArtifactIndex(), resident()
    for number in range(REPLACED):
        event = piece("a", f"{number}{LARGE_TEXT}")
        if snapshots:
            whole = working()
            whole.artifacts.append(event.artifact_update.artifact)
            event = hub.StreamResponse(task=whole)
        task = fold(task, event, index)
    assert task.artifacts[0].parts[0].text == f"{REPLACED - 1}{LARGE_TEXT}"
    assert resident() - before < REPLACED * len(LARGE_TEXT) / 3
