"""An ADK agent whose sub-agent is elsewhere. Arguments: its origin, the question. ADK rejects gRPC."""

import asyncio
import sys

import httpx
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types


async def main(origin: str, question: str) -> None:
    card = f"{origin}/.well-known/agent-card.json"
    http = httpx.AsyncClient(params={"binding": ["JSONRPC", "HTTP+JSON"]})
    agent = RemoteA2aAgent(name="elsewhere", agent_card=card, httpx_client=http)
    runner = InMemoryRunner(agent, app_name="asking")
    session = await runner.session_service.create_session(app_name="asking", user_id="somebody")
    content = types.Content(role="user", parts=[types.Part(text=question)])
    async for event in runner.run_async(user_id="somebody", session_id=session.id, new_message=content):
        for part in (event.content and event.content.parts) or []:
            print(part.text, flush=True)
        if event.error_message:
            print(event.error_message, file=sys.stderr)


asyncio.run(main(*sys.argv[1:]))
