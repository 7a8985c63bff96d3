"""Agents that a server of ours has at `/mcp` and `/v1`, beside A2A: on its listener, before a gateway, as an
ASGI application, and in Envoy. No tests."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from a2a_bridge.app.runtime import EVERYTHING, ServeOptions, asgi, serve_agent, serve_gateway
from a2a_bridge.bindings.binding import names
from a2a_bridge.cards import select
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.fronts.desk import SKILLS, Desk, serving
from tests.transports.envoy_scene import envoy
from tests.transports.test_http_asgi import running

HTTP: Sequence[hub.AgentInterface] = [one for one in EVERYTHING if one.protocol_binding != "GRPC"]


def agent_of(desk: Desk) -> Agent:
    return Agent(desk, name="desk", description="The front desk", skills=SKILLS)


def options_of(**members: Any) -> ServeOptions:
    return ServeOptions(**{"mcp": True, "openai": True, "grace": 1.0, **members})


@asynccontextmanager
async def on_its_listener(desk: Desk | Agent, options: ServeOptions) -> AsyncIterator[str]:
    agent = desk if isinstance(desk, Agent) else agent_of(desk)
    async with serve_agent(agent, HTTP, options) as server:
        yield f"http://{server.http}"


@asynccontextmanager
async def before_a_gateway(desk: Desk, options: ServeOptions) -> AsyncIterator[str]:
    async with serving(desk, "JSONRPC", "0.3") as card:
        found = select(card, known=names())
        async with serve_gateway(card, found, HTTP, options) as server:
            yield f"http://{server.http}"


@asynccontextmanager
async def in_asgi(desk: Desk, options: ServeOptions) -> AsyncIterator[str]:
    async with running(asgi(agent_of(desk), HTTP, options)) as url:
        yield url


@asynccontextmanager
async def in_envoy(desk: Desk, options: ServeOptions) -> AsyncIterator[str]:
    app = asgi(agent_of(desk), HTTP, options)
    async with envoy(app) as server:
        yield f"http://127.0.0.1:{server.listener_port}"
        await app.drain(0)


Served = Callable[[Desk, ServeOptions], AbstractAsyncContextManager[str]]
