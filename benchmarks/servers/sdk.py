"""The measured agent on the official SDK, served as its documentation describes. Ours are only constants.

Telemetry is off by the environment that the harness sets; uvicorn writes no access log, and has uvloop and
httptools, its C parser. With `--upstream` the agent is a gateway instead: an executor that forwards through
the SDK's own client. With `--store` tasks are in a database, over the asynchronous drivers that the SDK names
for each.
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from typing import Any

import grpc
import uvicorn
import uvloop
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a.utils.errors import UnsupportedOperationError
from sqlalchemy.event import listens_for
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

from benchmarks import agent
from benchmarks.servers.listening import LOOPBACK, listen, ready


class Agent(AgentExecutor):
    """See `benchmarks.agent`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if text not in (agent.TASK, agent.STREAM, agent.HOLD):
            await event_queue.enqueue_event(new_text_message(text, context_id=context.context_id))
            return
        task_id, context_id, message = _known(context)
        updater = TaskUpdater(event_queue, task_id, context_id)
        await event_queue.enqueue_event(
            a2a_pb2.Task(
                id=task_id,
                context_id=context_id,
                status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_SUBMITTED),
                history=[message],
            )
        )
        await updater.start_work()
        if text == agent.HOLD:
            await asyncio.Event().wait()
        elif text == agent.TASK:
            await updater.add_artifact([new_text_part(agent.ANSWER)], name=agent.ARTIFACT)
        else:
            artifact = str(uuid.uuid4())
            for index in range(agent.CHUNKS):
                await updater.add_artifact(
                    [new_text_part(agent.CHUNK)],
                    artifact_id=artifact,
                    name=agent.ARTIFACT,
                    append=index > 0,
                    last_chunk=index == agent.CHUNKS - 1,
                )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id, _ = _known(context)
        await TaskUpdater(event_queue, task_id, context_id).cancel()


def _known(context: RequestContext) -> tuple[str, str, a2a_pb2.Message]:
    """A value that the SDK always sets before it runs an executor, although its type allows None."""
    assert context.task_id is not None
    assert context.context_id is not None
    assert context.message is not None
    return context.task_id, context.context_id, context.message


class Gateway(AgentExecutor):
    """Forwards every message over gRPC, and the responses into the queue."""

    def __init__(self, upstream: str) -> None:
        config = ClientConfig(
            streaming=False,
            supported_protocol_bindings=["GRPC"],
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        self._client = ClientFactory(config).create(card(grpc_address=upstream))

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        _, _, message = _known(context)
        request = a2a_pb2.SendMessageRequest(message=message)
        # The SDK has generated a task id for this side; the upstream does not know it.
        request.message.task_id = ""
        async for response in self._client.send_message(request):
            await event_queue.enqueue_event(getattr(response, response.WhichOneof("payload")))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:  # noqa: ARG002
        raise UnsupportedOperationError


def card(*, http: str = "", grpc_address: str = "") -> a2a_pb2.AgentCard:
    interfaces = []
    if http:
        interfaces += [
            a2a_pb2.AgentInterface(
                url=f"http://{http}/", protocol_binding=kind, protocol_version=agent.VERSION
            )
            for kind in ("JSONRPC", "HTTP+JSON")
        ]
    if grpc_address:
        interfaces.append(
            a2a_pb2.AgentInterface(url=grpc_address, protocol_binding="GRPC", protocol_version=agent.VERSION)
        )
    return a2a_pb2.AgentCard(
        name="Measured",
        description="Answers as fast as it can.",
        version="1",
        supported_interfaces=interfaces,
        capabilities=a2a_pb2.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a_pb2.AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["echo"])],
    )


def task_store(url: str) -> TaskStore:
    """A store over a database. SQLite has the same settings as ours; the SDK's defaults would be slower."""
    for plain, driver in (("sqlite://", "sqlite+aiosqlite://"), ("postgresql://", "postgresql+asyncpg://")):
        if url.startswith(plain):
            url = driver + url.removeprefix(plain)
    engine = create_async_engine(url)
    if engine.dialect.name == "sqlite":

        @listens_for(engine.sync_engine, "connect")
        def set_up(connection: Any, _record: Any) -> None:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 60000"):
                connection.execute(f"PRAGMA {pragma}")

    return DatabaseTaskStore(engine)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", help="host:port of a gRPC agent to be a gateway for")
    parser.add_argument("--legacy", action="store_true", help="serve version 0.3 beside 1.0")
    parser.add_argument("--store", help="URL of a database to keep tasks in")
    arguments = parser.parse_args()
    upstream = arguments.upstream
    opened, http = listen()
    grpc_server = grpc.aio.server()
    port = grpc_server.add_insecure_port(f"{LOOPBACK}:0")
    public = card(http=f"{LOOPBACK}:{http}", grpc_address=f"{LOOPBACK}:{port}")
    store = task_store(arguments.store) if arguments.store else InMemoryTaskStore()
    if isinstance(store, DatabaseTaskStore):
        await store.initialize()
    handler = DefaultRequestHandler(
        agent_executor=Gateway(upstream) if upstream else Agent(),
        task_store=store,
        agent_card=public,
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)  # type: ignore[no-untyped-call]
    app = Starlette(
        routes=[
            *create_agent_card_routes(public),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=arguments.legacy),
            *create_rest_routes(handler),
        ]
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning"
        )
    )
    await grpc_server.start()
    # The socket listens already: connections wait in its queue until uvicorn accepts them.
    ready(http=http, grpc=port)
    await server.serve(sockets=[opened])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
