"""A2AAgent of BeeAI. Argument: the URL of the agent."""

import asyncio
import sys

from beeai_framework.adapters.a2a.agents import A2AAgent
from beeai_framework.memory import UnconstrainedMemory


async def main() -> None:
    agent = A2AAgent(url=sys.argv[1], memory=UnconstrainedMemory())
    print((await agent.run("a question")).last_message.text)


asyncio.run(main())
