"""An ADK agent whose sub-agent is elsewhere. Argument: the URL of the agent."""

import asyncio
import sys

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types


async def main() -> None:
    card = f"{sys.argv[1]}/.well-known/agent-card.json"
    runner = InMemoryRunner(RemoteA2aAgent(name="elsewhere", agent_card=card), app_name="asking")
    session = await runner.session_service.create_session(app_name="asking", user_id="somebody")
    content = types.Content(role="user", parts=[types.Part(text="a question")])
    async for event in runner.run_async(user_id="somebody", session_id=session.id, new_message=content):
        if event.error_message:
            raise RuntimeError(event.error_message)
        print("".join(part.text or "" for part in event.content.parts) if event.content else "")


asyncio.run(main())
