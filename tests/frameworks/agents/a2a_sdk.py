"""An agent of the official SDK over JSON-RPC and HTTP+JSON. Arguments: the port; `0.3` to speak 0.3, too."""

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Answering(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([Part(text="the answer")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


port, old = int(sys.argv[1]), "0.3" in sys.argv
origin = f"http://127.0.0.1:{port}"
card = AgentCard(
    name="Answering",
    description="Answers.",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
        for version in ("1.0", "0.3")[: 1 + old]
        for binding, url in (("JSONRPC", f"{origin}/"), ("HTTP+JSON", origin))
    ],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="answer", name="Answer", description="Answers.", tags=["test"])],
)
handler = DefaultRequestHandler(Answering(), InMemoryTaskStore(), card)
routes = [
    *create_agent_card_routes(card),
    *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=old),
    *create_rest_routes(handler, enable_v0_3_compat=old),
]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")
