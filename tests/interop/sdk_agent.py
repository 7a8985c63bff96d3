"""A scripted agent written with the official SDK, as a program of its own. Not a server of ours.

    python tests/interop/sdk_agent.py [--binding JSONRPC] [--binding HTTP+JSON] [--binding GRPC] [--compat]
        [--sqlite FILE]

JSON-RPC is at `/`, HTTP+JSON at the root of one listener; --compat: the SDK's 0.3 besides 1.0 (`/v1`). It
prints `ready http=http://HOST:PORT grpc=HOST:PORT`, and runs until its standard input ends.
"""

import argparse
import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

# Before a2a.compat: otherwise a circular import leaves the SDK's client without gRPC of 0.3, and says nothing.
import a2a.client  # noqa: F401
import grpc.aio
import httpx
import uvicorn
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    DatabasePushNotificationConfigStore,
    DatabaseTaskStore,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationConfigStore,
    TaskStore,
)
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a.utils.errors import A2A_REASON_TO_ERROR
from starlette.applications import Starlette

if __name__ == "__main__":
    # As a program only the folder of this file is on the path.
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.interop.script import Gates, play, status_update

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class ScriptedExecutor(AgentExecutor):
    """Plays the script of each message (see script.py)."""

    def __init__(self) -> None:
        self._gates = Gates()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        def failure(reason: str, text: str) -> Exception:
            return A2A_REASON_TO_ERROR[reason](text)

        events = play(a2a_pb2, context.message, context.task_id, context.context_id, self._gates, failure)
        async for event in events:
            await event_queue.enqueue_event(event)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(
            status_update(a2a_pb2, context.task_id, context.context_id, "TASK_STATE_CANCELED")
        )


def card(
    interfaces: list[tuple[str, str]], name: str = "Scripted (SDK)", version: str = "1.0"
) -> a2a_pb2.AgentCard:
    """The agent's card over (binding, url) pairs."""
    return a2a_pb2.AgentCard(
        name=name,
        description="Does what it is told",
        version="1.2.3",
        supported_interfaces=[
            a2a_pb2.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding, url in interfaces
        ],
        capabilities=a2a_pb2.AgentCapabilities(
            streaming=True, push_notifications=True, extended_agent_card=True
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a_pb2.AgentSkill(id="script", name="Script", description="Plays a script", tags=["test"])],
    )


async def stores(sqlite: str) -> tuple[TaskStore, PushNotificationConfigStore]:
    """The SDK's stores for tasks and receivers of notifications. sqlite: their file; empty: in memory."""
    if not sqlite:
        return InMemoryTaskStore(), InMemoryPushNotificationConfigStore()
    from sqlalchemy.ext.asyncio import create_async_engine  # slow to import, and seldom needed

    engine = create_async_engine(f"sqlite+aiosqlite:///{sqlite}")
    tasks, receivers = DatabaseTaskStore(engine), DatabasePushNotificationConfigStore(engine)
    # Otherwise the first requests do it, and fail if there are two at once.
    await tasks.initialize()
    await receivers.initialize()
    return tasks, receivers


async def run(
    bindings: list[str],
    compat: bool,
    executor: AgentExecutor | None = None,
    *,
    push: bool = False,
    sqlite: str = "",
) -> None:
    """Serves until standard input ends. executor: what it does; None: it plays scripts. push: whether it sends
    notifications, and does not only keep their receivers. sqlite: the file of its tasks; empty: in memory.
    """
    # Of protocol TCP by name: asyncio turns Nagle's algorithm off for no other, which costs 40 ms a call.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    grpc_address = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    urls = {"JSONRPC": http + "/", "HTTP+JSON": http, "GRPC": grpc_address}

    public = card([(binding, urls[binding]) for binding in bindings], version="0.3" if compat else "1.0")
    extended = a2a_pb2.AgentCard()
    extended.CopyFrom(public)
    extended.skills.add(id="more", name="More", description="For those who may", tags=["extended"])
    tasks, receivers = await stores(sqlite)
    handler = DefaultRequestHandler(
        agent_executor=executor or ScriptedExecutor(),
        task_store=tasks,
        agent_card=public,
        push_config_store=receivers,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), receivers) if push else None,
        extended_agent_card=extended,
    )

    routes = create_agent_card_routes(public)
    if "JSONRPC" in bindings:
        routes += create_jsonrpc_routes(handler, "/", enable_v0_3_compat=compat)
    if "HTTP+JSON" in bindings:
        routes += create_rest_routes(handler, enable_v0_3_compat=compat)
    ready = "ready"
    server = uvicorn.Server(
        uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    serving = None
    if "JSONRPC" in bindings or "HTTP+JSON" in bindings:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        ready += f" http={http}"
    if "GRPC" in bindings:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
        if compat:
            a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), grpc_server)
        await grpc_server.start()
        ready += f" grpc={grpc_address}"
    # The socket listens already: a connection made before the server runs waits in its queue.
    print(ready, flush=True)

    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = True
    if serving is not None:
        await serving
    await grpc_server.stop(grace=0)
    listener.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binding", action="append", choices=BINDINGS)
    parser.add_argument("--compat", action="store_true")
    parser.add_argument("--sqlite", default="")
    logging.disable(logging.CRITICAL)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.binding or list(BINDINGS), arguments.compat, sqlite=arguments.sqlite))
    if arguments.sqlite:
        os._exit(0)  # a thread of the SDK's store may wait for ever
