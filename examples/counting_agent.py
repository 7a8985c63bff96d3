"""An agent whose work outlives its process: after a restart it continues to count where it stopped.

    a2a-bridge serve examples/counting_agent.py
    a2a-bridge send -a :8080 40 --stream

Kill it while it counts, with `kill -9` if you like, and start it again: `resume` is called with the current
task, and readers continue after the last number that they have seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from a2a_bridge import Agent, Run
from a2a_bridge.ext import AgentEvent, AgentExecutor

#: seconds between two numbers
PACE = 0.05


class Counter(AgentExecutor):
    """An executor that can be resumed."""

    async def execute(self, run: Run) -> AsyncIterator[AgentEvent]:
        """Counts to the number in the message, one piece of an artifact for each number."""
        yield run.status("working")
        async for event in self._count(run, 1):
            yield event

    async def resume(self, run: Run) -> AsyncIterator[AgentEvent]:
        """Continues from the task, which contains every number that a client has seen."""
        parts = run.task.artifacts[0].parts if run.task is not None and run.task.artifacts else ()
        async for event in self._count(run, len(parts) + 1):
            yield event

    async def _count(self, run: Run, first: int) -> AsyncIterator[AgentEvent]:
        last = int(run.text)
        for number in range(first, last + 1):
            await asyncio.sleep(PACE)
            yield run.artifact(f"{number} ", artifact_id="count", append=number > 1, last=number == last)
        yield run.status("completed")


counter = Agent(Counter(), name="Counter", description="Counts, and does not forget where it was")
