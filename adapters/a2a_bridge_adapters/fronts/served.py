"""The fronts of `serve` and `gateway`, beside A2A on their own listener; see `a2a_bridge.app.fronts`.

It imports no front before one is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from a2a_bridge.app.fronts import Front, OpenFront
from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.extras import missing_fronts
from a2a_bridge_adapters.fronts.callers import Edge
from a2a_bridge_adapters.fronts.turn import Upstream

#: seconds for agents to cancel the tasks of requests, after the time for draining
CLOSING = 2.0


@dataclass(frozen=True, slots=True)
class Open:
    """A front that is open; implements `OpenFront`."""

    application: Application
    upstream: Upstream
    #: set when running calls have to end
    stopping: asyncio.Event

    def end_calls(self) -> None:
        self.stopping.set()

    async def drain(self, grace: float) -> None:
        self.stopping.set()
        await self.upstream.close(max(grace, CLOSING))


def edge_of(options: HostOptions, allowed_hosts: Sequence[str]) -> Edge:
    """What a front asks of its callers: what its server asks."""
    return Edge(
        max_body=options.max_body,
        authenticate=options.authenticate,
        max_values=options.max_values,
        allowed_hosts=allowed_hosts,
        bearer_as=getattr(options.authenticate, "key_header", ""),
    )


@dataclass(frozen=True, slots=True)
class Served:
    """A front of a server; implements `Front`. opens: the function that opens it, as `MODULE:NAME`. package,
    extra: what it needs beside the library, and what installs that.
    """

    title: str
    address: str
    paths: Sequence[str]
    opens: str
    package: str
    extra: str

    def check(self) -> None:
        if find_spec(self.package) is None:
            raise missing_fronts(self.package, self.extra)

    @asynccontextmanager
    async def open(
        self, peer: Peer, options: HostOptions, allowed_hosts: Sequence[str]
    ) -> AsyncIterator[OpenFront]:
        module, _, name = self.opens.partition(":")
        opens = getattr(import_module(f"{__package__}.{module}"), name)
        upstream, stopping = Upstream(peer), asyncio.Event()
        async with opens(upstream, edge=edge_of(options, allowed_hosts), stopping=stopping) as app:
            yield Open(app, upstream, stopping)


MCP: Front = Served("MCP (streamable HTTP)", "/mcp", ("/mcp",), "mcp_serving:open_mcp", "mcp", "mcp")
OPENAI: Front = Served(
    "OpenAI (base URL)",
    "/v1",
    ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models/*"),
    "openai:open_openai",
    "jsonschema",
    "openai",
)
