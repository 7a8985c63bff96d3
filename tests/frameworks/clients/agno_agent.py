"""RemoteAgent of agno over A2A. Argument: the URL of the agent."""

import asyncio
import sys

from agno.agent.remote import RemoteAgent


async def main() -> None:
    agent = RemoteAgent(sys.argv[1], agent_id="answering", protocol="a2a", a2a_protocol="json-rpc")
    async for event in agent.arun("a question", stream=True):
        print(event.content if event.event == "RunContent" else event.event)


asyncio.run(main())
