"""An offline agent of Microsoft's agent-framework; its card has no protocolVersion. Argument: port."""

import sys
from collections.abc import AsyncIterable
from typing import Any

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import AgentResponse, AgentResponseUpdate, BaseAgent, Content, Message, ResponseStream
from agent_framework_a2a import A2AExecutor
from starlette.applications import Starlette


class Answering(BaseAgent):
    """Sends a constant answer."""

    def run(self, messages: Any = None, *, stream: bool = False, session: Any = None, **_: Any) -> Any:
        return self._stream() if stream else self._answer()

    async def _answer(self) -> AgentResponse:
        return AgentResponse(messages=[Message(role="assistant", contents=[Content.from_text("the answer")])])

    def _stream(self) -> Any:
        async def updates() -> AsyncIterable[AgentResponseUpdate]:
            yield AgentResponseUpdate(role="assistant", contents=[Content.from_text("the answer")])

        return ResponseStream(updates(), finalizer=AgentResponse.from_updates)


port = int(sys.argv[1])
card = AgentCard(
    name="Answering",
    description="Answers.",
    version="1.0.0",
    default_input_modes=["text"],
    default_output_modes=["text"],
    capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC")],
)
handler = DefaultRequestHandler(
    agent_executor=A2AExecutor(Answering(name="Answering")), task_store=InMemoryTaskStore(), agent_card=card
)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
