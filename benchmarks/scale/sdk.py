"""An executor of the official SDK with many events: on our engine, and on the SDK's own server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import uvicorn
from a2a.helpers.proto_helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2
from starlette.applications import Starlette

from a2a_bridge import Agent, interface, serve
from benchmarks.scale.dimension import Dimension
from benchmarks.scale.hosted import make, options
from benchmarks.servers.listening import LOOPBACK, listen
from benchmarks.servers.sdk import card


class Artifacts(AgentExecutor):
    """`artifacts 10` makes a task with ten."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        task = a2a_pb2.Task(id=context.task_id, context_id=context.context_id)
        task.status.state = a2a_pb2.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        for index in range(int(context.get_user_input().partition(" ")[2])):
            await updater.add_artifact([new_text_part("x")], artifact_id=str(index))
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def on_ours(_size: int, /) -> AsyncIterator[str]:
    """The executor on our engine."""
    agent = Agent(Artifacts(), card=card())
    async with serve(agent, [interface("JSONRPC")], options()) as server:
        yield f"http://{server.http}"


@asynccontextmanager
async def on_theirs(_size: int, /) -> AsyncIterator[str]:
    """The executor on the server of the SDK, as its documentation describes it."""
    opened, port = listen()
    public = card(http=f"{LOOPBACK}:{port}")
    handler = DefaultRequestHandler(
        agent_executor=Artifacts(), task_store=InMemoryTaskStore(), agent_card=public
    )
    routes = [*create_agent_card_routes(public), *create_jsonrpc_routes(handler, "/")]
    config = uvicorn.Config(Starlette(routes=routes), lifespan="off", access_log=False, log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[opened]))
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving


ROWS = (
    Dimension(
        "artifacts of an executor of the SDK", "one task", (1_000, 3_000, 9_000), 1.0, on_ours,
        partial(make, what="artifacts"),
    ),
    Dimension(
        "the same on the server of the SDK", "one task", (300, 1_000, 3_000), 2.0, on_theirs,
        partial(make, what="artifacts"), small=None,
    ),
)  # fmt: skip
