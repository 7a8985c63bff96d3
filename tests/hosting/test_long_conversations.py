"""A turn of a long conversation: it copies the messages that somebody reads, and no others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.lease import Held
from a2a_bridge.hosting.live_task import LiveTask
from a2a_bridge.hosting.pending_send import Sender
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MEMORY, StoreOptions, open_store
from a2a_bridge.stores.memory_tasks import Entry
from a2a_bridge.stores.ports import Scope, Store
from a2a_bridge.stores.store_base import StoreBase
from a2a_bridge.testing.store_scene import Author, made
from tests.hosting.scene import INPUT, WORKING, Gate, Talk, agent_of, shape
from tests.patience import PATIENCE

TURNS = 20


class Asking:
    """Asks in each turn. runs: those so far."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.runs.append(run)
        if run.is_new:
            yield run.start()
        yield run.status("working", "one moment")
        yield run.artifact("x", artifact_id=f"{len(self.runs)}")
        yield run.status("input_required", "and then?")


async def conversation(talk: Talk) -> hub.Task:
    task: hub.Task = await talk.send("begin")
    for number in range(TURNS):
        task = await talk.send("more", task_id=task.id, message_id=f"more-{number}")
    return task


@pytest.mark.parametrize("limit", [0, 3])
async def test_a_turn_copies_what_its_answer_shows(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Asking()
    talk = Talk(agent_of(agent.execute))
    before = await conversation(talk)
    answers: list[Any] = []
    settle = Sender.settle
    monkeypatch.setattr(Sender, "settle", lambda send, answer: [answers.append(answer), settle(send, answer)])
    short = hub.SendMessageConfiguration(history_length=limit)
    shown = await talk.send("x", task_id=before.id, message_id="last", configuration=short)
    # What is settled is what was copied, and the agent's own copy has no history yet.
    assert [len(one.task.history) for one in answers] == [limit]
    whole = await talk.get(before.id)
    assert list(shown.history) == list(whole.history)[len(whole.history) - limit :]
    assert (shown.status, shown.artifacts) == (whole.status, whole.artifacts)
    last = agent.runs[-1]
    assert last._load is not None
    assert last.task is not None
    assert len(last.task.history) == len(before.history) + 2  # the question of before, and its answer
    assert last.task.artifacts == before.artifacts


async def test_a_run_that_reads_its_task_late_gets_it_as_it_was() -> None:
    gate, found = Gate(), list[hub.Task]()

    async def execute(run: Run) -> AsyncIterator[Event]:
        if run.is_new:
            yield run.start()
            yield run.status("input_required", "which?")
            return
        yield run.status("working", "on it")
        yield run.artifact("new", artifact_id="a")
        await gate.wait()
        if run.task is not None:
            found.append(run.task)
        yield run.status("input_required", "and then?")

    talk = Talk(agent_of(execute))
    task = await talk.send("begin")
    events = talk.events("second", task_id=task.id, message_id="second")
    assert shape(await anext(events)) == ("task", INPUT)
    await gate.reached()
    immediately = hub.SendMessageConfiguration(return_immediately=True)
    await talk.send("third", task_id=task.id, message_id="third", configuration=immediately)
    gate.open()
    seen = [shape(one) async for one in events]
    assert seen[0] == WORKING
    assert [one.parts[0].text for one in found[0].history] == ["begin", "which?", "second"]
    assert (found[0].status.state, len(found[0].artifacts)) == (INPUT, 0)


async def test_a_message_that_is_taken_out_again_changes_no_earlier_task() -> None:
    talk = Talk(agent_of(Asking().execute))
    task = await conversation(talk)
    live: Any = LiveTask.__new__(LiveTask)
    live.task, live.state, live._lease = task, task.status.state, SimpleNamespace(now=Held(Writer()))
    ids = [one.message_id for one in task.history]
    load = live.task_now()
    live._take_out(ids[3], "")
    assert [one.message_id for one in live.task.history] == [*ids[:3], *ids[4:]]
    assert [one.message_id for one in load().history] == ids


def long_task(messages: int) -> hub.Task:
    """A conversation that waits for its user."""
    task = made("long", state=INPUT)
    for number in range(messages):
        task.history.add(message_id=f"m{number}", role=hub.ROLE_USER).parts.add(text="x" * 100)
    return task


async def turn(talk: Talk, number: int) -> hub.Task:
    short = hub.SendMessageConfiguration(history_length=3)
    task: hub.Task = await talk.send("x", task_id="long", message_id=f"turn-{number}", configuration=short)
    async with asyncio.timeout(PATIENCE):
        while talk.engine.live:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    return task


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    address = MEMORY if request.param == "memory" else f"sqlite:///{tmp_path / 'store.db'}"
    async with open_store(address, StoreOptions(ack_timeout=PATIENCE)) as opened:
        yield opened


async def test_a_turn_reads_no_history(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its working copy stays from turn to turn: nobody parses, copies, serializes or measures the task, but for
    the body that a database gets.
    """
    task = long_task(400)
    talk = Talk(agent_of(Asking().execute), store=store)
    await (await Author(store, Scope()).begin(task).sync()).release()
    await turn(talk, 0)
    kept = await store.working_copy(Scope(), "long")
    await (await Author(store, Scope()).open(kept)).release()
    read: list[Any] = []
    for one, name in ((Entry, "read"), (Entry, "rest"), (StoreBase, "get"), (LiveTask, "has_message")):
        monkeypatch.setattr(one, name, lambda *given: read.append(given))
    for number in range(1, 6):
        shown = await turn(talk, number)
        assert len(shown.history) == 3
    assert read == []
    again = await store.working_copy(Scope(), "long")
    assert again.task is kept.task
    monkeypatch.undo()
    await (await Author(store, Scope()).open(again)).release()
    whole = await talk.get("long")
    assert whole == again.task
    joined = [one.message_id for one in whole.history if one.message_id.startswith("turn-")]
    assert (joined, len(whole.history)) == ([f"turn-{number}" for number in range(6)], 400 + 6 * 3 - 1)


async def test_a_copy_that_is_dropped_is_written_first(store: Any) -> None:
    talk = Talk(agent_of(Asking().execute), store=store)
    await (await Author(store, Scope()).begin(long_task(400)).sync()).release()
    before = await turn(talk, 0)
    store.memory.limit = 1  # nothing idle is kept
    assert store.memory.exceeded
    assert list(store._resting) == []
    store.memory.limit = 0
    assert (await talk.get("long")).status == before.status
    after = await turn(talk, 1)
    assert after.status != before.status
    assert len((await talk.get("long")).history) == 400 + 2 * 3 - 1


class Writer:
    """Takes no notes."""

    def amend(self, _: hub.Task, __: hub.Message | None = None) -> None:
        return
