"""The demo agent, which also counts (`count 3`) as far and as fast as it is asked to."""

from collections.abc import AsyncIterator
from typing import Any

from a2a_bridge import Agent, Run
from a2a_bridge.ext import hub
from a2a_bridge_tools.demo_agent import Demo


class Talkative(Demo):
    """Counts, or does what the demo agent does."""

    async def execute(self, run: Run, /) -> AsyncIterator[Any]:
        word, _, rest = run.text.partition(" ")
        if word != "count":
            async for step in super().execute(run):
                yield step
            return
        yield run.status("working")
        for number in range(int(rest)):
            yield run.artifact(f"{number} ", artifact_id="count", append=number > 0)
        yield run.status("completed")


SKILL = hub.AgentSkill(
    id="talk", name="Talk", description="Repeats what it hears", tags=["demo"], examples=["count 3"]
)
agent = Agent(
    Talkative(), name="Talkative", description="Talks much", skills=[SKILL], push_notifications=True
)
