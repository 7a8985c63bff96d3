"""An agent written with the official SDK (a2a-sdk), which speaks one version over one transport and nothing
else.

    python examples/sdk_agent.py [PORT] [BINDING] [VERSION]

BINDING and VERSION are JSONRPC and 1.0, or JSONRPC and 0.3, or GRPC and 1.0. It does not use the bridge.
Then, in another terminal, add all other transports and versions:

    a2a-bridge gateway http://127.0.0.1:9999

Its answers: a direct one for "hello …"; for "wait …" a task that works until it is cancelled; for "ask …" a
task that asks back; for any other text a task that repeats the words, one by one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys

import grpc.aio
import uvicorn
from a2a.helpers.proto_helpers import new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Parrot(AgentExecutor):
    """Repeats the words of the message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if text.startswith("hello"):
            await event_queue.enqueue_event(
                new_text_message(f"{text} to you too", context_id=context.context_id, role=a2a.ROLE_AGENT)
            )
            return

        task = updater(context, event_queue)
        if context.current_task is None and context.message is not None:
            await event_queue.enqueue_event(
                a2a.Task(
                    id=task.task_id,
                    context_id=task.context_id,
                    status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING),
                    history=[context.message],
                )
            )
        else:
            await task.start_work()

        if text.startswith("wait"):
            await asyncio.Event().wait()  # until CancelTask
        if text.startswith("ask"):
            await task.requires_input(task.new_agent_message([new_text_part("And then?")]))
            return
        words = text.split() or ["…"]
        for number, word in enumerate(words):
            await task.add_artifact(
                [new_text_part(word if number == 0 else f" {word}")],
                artifact_id="echo",
                name="echo",
                append=number > 0,
                last_chunk=number == len(words) - 1,
                metadata={"word": number + 1},
            )
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await updater(context, event_queue).cancel()


def updater(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    """The SDK's publisher of events for the current task."""
    return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")


def card(url: str, binding: str, version: str) -> a2a.AgentCard:
    """The card of the agent, with one interface."""
    return a2a.AgentCard(
        name="Parrot",
        description="Repeats what it hears, word by word",
        version="1.0.0",
        supported_interfaces=[
            a2a.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
        ],
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            a2a.AgentSkill(
                id="echo", name="Echo", description="Repeats words", tags=["echo"], examples=["hello"]
            )
        ],
    )


def handler_of(public: a2a.AgentCard) -> DefaultRequestHandler:
    """The agent behind any transport."""
    return DefaultRequestHandler(
        agent_executor=Parrot(),
        task_store=InMemoryTaskStore(),
        agent_card=public,
        push_config_store=InMemoryPushNotificationConfigStore(),
    )


def jsonrpc_0_3(handler: DefaultRequestHandler) -> list[Route]:
    """JSON-RPC of 0.3 only: the SDK itself would serve both versions at one path."""
    # It and a2a.server.routes import each other; only this order works.
    from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter

    adapter = JSONRPC03Adapter(handler)

    async def answer(request: Request) -> Response:
        body = await request.json()
        return await adapter.handle_request(body.get("id"), body["method"], body, request)

    return [Route("/", answer, methods=["POST"])]


async def serve_http(port: int, version: str) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    public = card(f"{url}/", "JSONRPC", version)
    handler = handler_of(public)
    calls = create_jsonrpc_routes(handler, "/") if version == "1.0" else jsonrpc_0_3(handler)
    app = Starlette(routes=create_agent_card_routes(public) + calls)
    # The socket listens already, so readers of this line can connect.
    print(f"ready http={url}", flush=True)
    await uvicorn.Server(
        uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    ).serve(sockets=[listener])


async def serve_grpc(port: int) -> None:
    """Serves gRPC without a card: callers have to know the address."""
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    handler = GrpcHandler(handler_of(card(address, "GRPC", "1.0")))
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(handler, server)  # type: ignore[no-untyped-call]
    await server.start()
    print(f"ready grpc={address}", flush=True)
    await server.wait_for_termination()


async def main(port: int = 9999, binding: str = "JSONRPC", version: str = "1.0") -> None:
    match binding, version:
        case ("JSONRPC", "1.0" | "0.3"):
            await serve_http(port, version)
        case ("GRPC", "1.0"):
            await serve_grpc(port)
        case _:
            sys.exit(f"this agent does not speak {binding} {version}")


if __name__ == "__main__":
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # it would log every rejection that a test provokes
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9999, *sys.argv[2:4]))
