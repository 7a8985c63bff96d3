"""An ADK agent without a model, by `to_a2a`. Argument: the port."""

import sys
from collections.abc import AsyncGenerator

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types


class Answering(BaseAgent):
    """Sends a constant answer."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text="the answer")])
        yield Event(invocation_id=ctx.invocation_id, author=self.name, content=content)


port = int(sys.argv[1])
app = to_a2a(Answering(name="answering", description="Answers."), host="127.0.0.1", port=port)
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
