"""Compares what callers were promised with GetTask, a subscription from the first event, and the rows."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability import storage
from tests.durability.callers import PATIENCE, Caller
from tests.durability.ledger import Ledger, illogical, missing, outline, state

#: comparisons at the same time
AT_ONCE = 8


@dataclass
class Comparison:
    """store: as in the server's `--store`. resumes: whether the agent resumes steady work."""

    store: str
    ledger: Ledger
    resumes: bool = True
    totals: Counter[str] = field(default_factory=Counter)

    async def all(self, ways: Sequence[Caller], chance: random.Random, tasks: Iterable[str]) -> None:
        some = asyncio.Semaphore(AT_ONCE)

        async def one(task_id: str) -> None:
            async with some:
                await self._bounded(chance.choice(ways), task_id)

        async with asyncio.TaskGroup() as group:
            for task_id in tasks:
                group.create_task(one(task_id))

    async def _bounded(self, way: Caller, task_id: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._one(way, task_id)
        except Exception as error:  # noqa: BLE001  any error means that the task cannot be read
            self.ledger.wrong.append(f"{way.name}: {task_id} cannot be had: {type(error).__name__} {error}")

    async def _one(self, way: Caller, task_id: str) -> None:
        """Compares everything that callers saw of a task with its present state."""
        seen = self.ledger.seen[task_id]
        wrong = self.ledger.wrong
        now = await way.get(task_id)
        log = await asyncio.to_thread(storage.log_of, self.store, task_id)
        told = await _told(way, task_id, len(log))
        if told != log:
            wrong.append(f"{way.name}: the log of {task_id} has {len(log)} events, {len(told)} were told")
        wrong += missing(task_id, seen, log)
        wrong += illogical(task_id, log, now)
        if seen.end is not None and outline(seen.end) != outline(now):
            wrong.append(f"{task_id} had ended {state(seen.end)}, and is {state(now)} now")
        elif now.status.state in TERMINAL:
            seen.end = now
            # Compared events are part of the end; the last ones are kept for the next comparison.
            seen.snapshots.clear()
            seen.runs.clear()
        self._finished(now, log)
        self.totals["compared"] += 1

    def _finished(self, now: hub.Task, log: Sequence[hub.StreamResponse]) -> None:
        """Steady work that ended has each piece once; other work has a reason for its failure."""
        text = log[0].task.history[0].parts[0].text if log[0].task.history else ""
        verb, *rest = text.split() or [""]
        if now.status.state == hub.TASK_STATE_COMPLETED and verb in ("steady", "chunks"):
            found = [part.text for artifact in now.artifacts for part in artifact.parts]
            if found != [f"{rest[1]}:{number}." for number in range(int(rest[0]))]:
                self.ledger.wrong.append(f"{now.id} is completed with pieces {found[:5]}… of {text!r}")
        if now.status.state == hub.TASK_STATE_FAILED:
            self.totals["seen failed by a kill"] += 1
            if not now.status.message.parts:
                self.ledger.wrong.append(f"{now.id} failed without a text")
            if verb == "steady" and self.resumes:
                self.ledger.wrong.append(f"{now.id} could be resumed, and failed")


async def _told(way: Caller, task_id: str, count: int) -> list[hub.StreamResponse]:
    """The first events of a task as subscribers get them, from the first one on."""
    told: list[hub.StreamResponse] = []
    before = -1
    # A stream ends at a question of the task, also if that has been answered since.
    while before < len(told) < count:
        before = len(told)
        async with aclosing(way.subscribe(task_id, before)) as events:
            async for shown in events:
                told.append(shown.event)
                if shown.number not in (0, len(told)):
                    raise ValueError(f"event {shown.number} came at place {len(told)}")
                if len(told) == count:
                    break
    return told
