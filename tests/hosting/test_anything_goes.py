"""Random calls in any order: no task stays working, no caller waits for ever, nothing stays live."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import INTERRUPTED, TERMINAL
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from tests.hosting.scene import IMMEDIATELY, PATIENCE, Talk, agent_of

STATES = ["working", "working", "input-required", "auth-required", "completed", "failed", "submitted"]
EXPECTED = {
    Reason.TASK_NOT_FOUND,
    Reason.TASK_NOT_CANCELABLE,
    Reason.UNSUPPORTED_OPERATION,
    Reason.INVALID_AGENT_RESPONSE,
    Reason.RESOURCE_EXHAUSTED,
    Reason.INTERNAL_ERROR,
    Reason.UNAVAILABLE,
}


class Chaos:
    """An agent and callers whose actions come from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.talk = Talk(agent_of(self.execute, self.cancel), store=MemoryStore(window=8), queue=3)
        self.known: list[str] = ["none"]

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        for _ in range(self.choose.randrange(6)):
            for _ in range(self.choose.randrange(3)):
                await asyncio.sleep(0)
            match self.choose.randrange(10):
                case 0:
                    yield run.reply("hello")
                case 1:
                    raise RuntimeError("by chance")
                case 2:
                    raise A2AError(Reason.INTERNAL_ERROR)
                case 3 | 4 | 5:
                    yield run.artifact("x", artifact_id=self.choose.choice("ab"), append=True)
                case _:
                    yield run.status(self.choose.choice(STATES))

    async def cancel(self, run: Run) -> AsyncIterator[Event]:
        if self.choose.random() < 0.2:
            raise A2AError(Reason.TASK_NOT_CANCELABLE)
        await asyncio.sleep(0)
        if self.choose.random() < 0.3:
            yield run.status("canceled")

    async def act(self, number: int) -> None:
        task_id = self.choose.choice(self.known[-8:])
        members: dict[str, Any] = {"message_id": f"m{number}"}
        if self.choose.random() < 0.5:
            members["task_id"] = task_id
        if self.choose.random() < 0.3:
            members["configuration"] = IMMEDIATELY
        try:
            match self.choose.randrange(8):
                case 0 | 1 | 2:
                    self.note(await self.talk.send("x", **members))
                case 3 | 4:
                    await self.read(self.talk.events("x", **members))
                case 5:
                    await self.read(self.talk.subscribe(task_id))
                case 6:
                    await self.talk.cancel(task_id)
                case _:
                    self.known += [task.id for task in (await self.talk.list(page_size=3)).tasks]
        except A2AError as error:
            assert error.reason in EXPECTED, error  # noqa: PT017  any other error is a defect

    async def read(self, events: Any) -> None:
        first = True
        async for event in events:
            assert not first or isinstance(event, hub.Task | hub.Message)
            first = False
            self.note(event)
            if self.choose.random() < 0.1:
                await events.aclose()
                return

    def note(self, event: Any) -> None:
        if isinstance(event, hub.Task):
            self.known.append(event.id)


@pytest.mark.parametrize("seed", range(12))
async def test_random_calls_leave_every_task_at_rest(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chaos = Chaos(seed)
    acts = [asyncio.create_task(chaos.act(number)) for number in range(120)]
    for act in acts:
        if chaos.choose.random() < 0.15:
            await asyncio.sleep(0)
            act.cancel()
    # Streams of tasks that wait for a caller stay open until the engine closes.
    await asyncio.wait(acts, timeout=0.2)
    await chaos.talk.close(PATIENCE)
    done, pending = await asyncio.wait(acts, timeout=PATIENCE)
    assert not pending
    assert [one.exception() for one in done if not one.cancelled() and one.exception() is not None] == []
    await chaos.talk.rest()
    page = await chaos.talk.list(page_size=100)
    assert page.total_size == len(page.tasks)
    assert {task.status.state for task in page.tasks} <= TERMINAL | INTERRUPTED
    assert not len(chaos.talk.engine._readers)
    assert not [one for one in chaos.talk.store._logs.values() if one.readers or one.readers_waiting]
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
