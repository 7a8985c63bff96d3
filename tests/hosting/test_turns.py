"""Runs that begin together: each turn of the event loop has a bounded share of them."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Event, Run
from a2a_bridge.hosting.limits import Turns
from a2a_bridge.stores import MemoryStore
from tests.hosting.scene import Talk
from tests.patience import PATIENCE

RUNS = 20
LARGE = 1_000_000


class Busy:
    """Its runs work for some time before they wait. turns: in which turn of the loop each of them began."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.turn = 0
        self.turns: list[int] = []

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.turns.append(self.turn)
        end = monotonic() + self.seconds
        while monotonic() < end:
            pass
        yield run.start()
        yield run.artifact("x" * LARGE)
        yield run.status("input-required")


async def _begin(agent: Busy, max_memory: int = 0) -> list[object]:
    talk = Talk(Agent(agent, name="busy", description=""), store=MemoryStore(max_memory=max_memory))
    counting = asyncio.create_task(agent.count())
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(talk.send("x") for _ in range(RUNS)), return_exceptions=True)
    counting.cancel()
    return list(answers)


async def test_long_runs_that_begin_together_begin_in_turns_of_their_own() -> None:
    agent = Busy(0.006)
    answers = await _begin(agent)
    assert not [one for one in answers if isinstance(one, BaseException)]
    assert len(set(agent.turns)) == RUNS


async def test_a_run_that_finds_the_memory_full_when_it_begins_is_rejected() -> None:
    """All are admitted before the first of them holds anything."""
    agent = Busy(0.006)
    answers = await _begin(agent, 10 * LARGE)
    rejected = [one for one in answers if isinstance(one, A2AError)]
    assert 0 < len(rejected) == RUNS - len(agent.turns)
    assert all(one.reason is Reason.RESOURCE_EXHAUSTED and one.retry_after for one in rejected)


async def test_one_that_leaves_the_queue_holds_up_nobody() -> None:
    turns = Turns()
    assert not turns.spent
    left, right = asyncio.create_task(turns.next()), asyncio.create_task(turns.next())
    left.cancel()
    async with asyncio.timeout(PATIENCE):
        await right
    assert left.cancelled()
    assert not turns.spent
