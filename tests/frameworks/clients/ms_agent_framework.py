"""A2AAgent of Microsoft's agent-framework. Argument: the URL of the agent."""

import asyncio
import sys

from agent_framework_a2a import A2AAgent


async def main() -> None:
    async with A2AAgent(url=sys.argv[1]) as agent:
        print((await agent.run("a question")).text)


asyncio.run(main())
