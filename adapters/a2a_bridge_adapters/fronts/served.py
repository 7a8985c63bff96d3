"""The fronts of `serve` and `gateway`, beside A2A on their own listener; see `a2a_bridge.app.fronts`.

It imports no front before one is opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from a2a_bridge.app.fronts import Front, OpenFront
from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.extras import missing_fronts
from a2a_bridge_adapters.fronts.application import Opened
from a2a_bridge_adapters.fronts.callers import Edge
from a2a_bridge_adapters.fronts.turn import Background, Upstream

#: seconds for agents to cancel the tasks of requests, after the time for draining
CLOSING = 2.0


class FrontsOf(Mapping[str, Any]):
    """The fronts of several agents by name. members: as they are open now."""

    def __init__(self, members: Mapping[str, OpenFront]) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members[name].front

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@dataclass(frozen=True, slots=True)
class Open:
    """A front that is open; implements `OpenFront`."""

    opened: Opened
    background: Background

    @property
    def application(self) -> Application:
        return self.opened.application

    @property
    def front(self) -> Any:
        return self.opened.front

    def end_calls(self) -> None:
        if self.opened.end_calls is not None:
            self.opened.end_calls()

    async def drain(self, grace: float) -> None:
        self.end_calls()
        await self.background.close(max(grace, CLOSING))


def edge_of(options: HostOptions, allowed_hosts: Sequence[str], *, local_only: bool = False) -> Edge:
    """What a front asks of its callers: what its server asks. allowed_hosts, local_only: see `Edge`."""
    return Edge(
        max_body=options.max_body,
        authenticate=options.authenticate,
        max_values=options.max_values,
        allowed_hosts=allowed_hosts,
        local_only=local_only,
        bearer_as=getattr(options.authenticate, "key_header", ""),
        permit=options.permit,
    )


@dataclass(frozen=True, slots=True)
class Served:
    """A front of a server; implements `Front`. module: has the functions that open it. package,
    extra: what it needs beside the library, and what installs that.
    """

    title: str
    address: str
    paths: Sequence[str]
    module: str
    package: str
    extra: str

    def check(self) -> None:
        if find_spec(self.package) is None:
            raise missing_fronts(self.package, self.extra)

    def _opens(self, name: str) -> Any:
        return getattr(import_module(f"{__package__}.{self.module}"), name)

    @asynccontextmanager
    async def open(
        self, peer: Peer, options: HostOptions, allowed_hosts: Sequence[str], name: str
    ) -> AsyncIterator[OpenFront]:
        upstream, edge = Upstream(peer), edge_of(options, allowed_hosts, local_only=True)
        async with self._opens(f"open_{self.extra}")(upstream, edge=edge, name=name) as opened:
            yield Open(opened, upstream)

    @asynccontextmanager
    async def open_all(
        self, members: Mapping[str, OpenFront], options: HostOptions, allowed_hosts: Sequence[str]
    ) -> AsyncIterator[OpenFront]:
        edge, background = edge_of(options, allowed_hosts, local_only=True), Background()
        opens = self._opens(f"open_{self.extra}_of_all")
        async with opens(FrontsOf(members), edge=edge, background=background) as opened:
            yield Open(opened, background)


MCP: Front = Served("MCP (streamable HTTP)", "/mcp", ("/mcp",), "mcp_serving", "mcp", "mcp")
OPENAI: Front = Served(
    "OpenAI (base URL)",
    "/v1",
    ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models/*"),
    "openai_serving",
    "jsonschema",
    "openai",
)
