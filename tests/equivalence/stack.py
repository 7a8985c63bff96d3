"""A scripted agent served on every binding by the full stack, and ways to reach it. No tests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from a2a_bridge.app.runtime import ServeOptions, Server, connect, serve_agent
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import interface
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.agent import scripted_agent
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


@dataclass(frozen=True)
class Stack:
    """A running server, and a service to reach its agent for each way: in process, and each binding."""

    server: Server
    ways: dict[str, Service]

    @property
    def http(self) -> str:
        return f"http://{self.server.http}"

    @property
    def grpc(self) -> str:
        return str(self.server.grpc)

    @property
    def card(self) -> hub.AgentCard:
        return self.server.card


@asynccontextmanager
async def dialled(card: hub.AgentCard) -> AsyncIterator[dict[str, Service]]:
    """A client of ours for each interface of a card, by binding."""
    async with AsyncExitStack() as stack:
        services = {}
        for one in card.supported_interfaces:
            binding: Any = find(one.protocol_binding)
            services[binding.kind.name] = await stack.enter_async_context(
                binding.dial(one, V1_0, DialOptions(timeout=PATIENCE))
            )
        yield services


@asynccontextmanager
async def stack(options: ServeOptions | None = None, agent: Agent | None = None) -> AsyncIterator[Stack]:
    """An agent, the scripted one unless given, on all three bindings."""
    agent = agent or scripted_agent()
    async with (
        serve_agent(agent, [interface(binding) for binding in BINDINGS], options) as server,
        connect(agent) as near,
        dialled(server.card) as services,
    ):
        yield Stack(server, {"in process": near.service} | services)
