"""One of several agents while it is served: its part of the hosts, and its calls in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.agents.entry import PATH, AgentEntry
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.serving import Server
from a2a_bridge.bindings.binding import (
    Host,
    HostOptions,
    ListenAddress,
)
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge.dialects import GRPC, Dialect


class Running:
    """The calls of one agent in progress, so that it can wait for them when it is removed."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def wrap(self, service: Service) -> Service:
        """Middleware that counts calls."""
        return Counted(service, self)

    def begin(self) -> None:
        self._count += 1
        self._idle.clear()

    def end(self) -> None:
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def wait(self, seconds: float) -> None:
        """Waits until there is none, at most some seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)


class Counted:
    """A service whose calls are counted."""

    def __init__(self, service: Service, running: Running) -> None:
        self._service = service
        self._running = running

    async def unary(self, call: Call[Req, Res], /) -> Res:
        self._running.begin()
        try:
            return await self._service.unary(call)
        finally:
            self._running.end()

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self._running.begin()
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    yield event
        finally:
            self._running.end()


@dataclass(eq=False)
class Member:
    """One agent: its part of the hosts, and its task. Implements runtime.Shared."""

    entry: AgentEntry
    options: ServeOptions
    grpc_here: Callable[[], bool] | None
    part: Callable[[Member, str, ListenAddress, HostOptions], Host | None]
    running: Running = field(default_factory=Running)
    #: set when everything is mounted, and when the agent is served; both when the first attempt has failed
    mounted: asyncio.Event = field(default_factory=asyncio.Event)
    served: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    #: None while the agent is not available
    server: Server | None = None
    site: Any = None
    #: gRPC on the common address: the service, and its versions
    service: Service | None = None
    versions: tuple[Dialect, ...] = ()
    #: whether it has been on the common address; else its gRPC, if it has any, is at an address of its own
    is_common: bool = False
    #: why it does not take calls; see HostOptions.rejection
    rejection: Callable[[], A2AError | None] | None = None
    task: asyncio.Task[None] | None = None
    #: seconds for running calls when it leaves
    grace: float = 0.0

    @property
    def prefix(self) -> str:
        return "" if self.entry.at_root else f"{PATH}/{self.entry.name}"

    def host(self, family: str, address: ListenAddress, options: HostOptions) -> Host | None:
        return self.part(self, family, address, options)

    def wrap(self, service: Service) -> Service:
        return self.running.wrap(service)


class GrpcPart:
    """The common gRPC host as one agent sees it: implements bindings.Host, and `add` of gRPC hosts."""

    def __init__(self, member: Member, host: Host, started: Callable[[], Awaitable[None]]) -> None:
        self._member = member
        self._host = host
        self._started = started

    @property
    def address(self) -> ListenAddress:
        return self._host.address

    def add(self, service: Service, dialects: Sequence[Dialect]) -> None:
        """Serves an agent in the versions that have gRPC."""
        self._member.service = service
        self._member.is_common = True
        self._member.versions = tuple(one for one in dialects if one.form(GRPC) is not None)

    async def start(self) -> None:
        await self._started()

    async def drain(self, grace: float) -> None:  # noqa: ARG002  the owner drains the host
        """Answers further calls as UNAVAILABLE."""
        self._member.service = None
