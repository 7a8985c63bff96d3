"""One of several agents: as it is given to a server, and while it is served.

Rules:
1. An entry has the name of an agent, its options, and the way to open it. A member has its part of the hosts,
   and its calls in progress.
2. gRPC finds the agents behind a common address by tenant or host name. The tenant that names an agent ends
   here: the agent sees a call without it. Other tenants belong to the agent that is found otherwise.
3. A host name counts where the server sees the authority of a call, which grpc.aio does not show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from a2a_bridge.app.fronts import OpenFront
from a2a_bridge.app.planning import EVERYTHING, ServeOptions
from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.app.serving import Server, Shared
from a2a_bridge.bindings.binding import DialOptions, Host, ListenAddress
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.build import host_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service, reject, reject_stream
from a2a_bridge.dialects import GRPC, Dialect
from a2a_bridge.dialects.known import version_not_supported
from a2a_bridge.dialects.v0_3.card import is_old
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub

#: names are segments of paths, tenants and parts of URNs
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
PATH = "/agents"
#: stands for the common hosts in the options of one agent
SHARED = ListenAddress("", -1)

#: opens an agent on its part of the hosts. Raises A2AError UNAVAILABLE if it cannot be reached now
Opening = Callable[[Shared], AbstractAsyncContextManager[Server]]


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent to serve among others. Raises ValueError for an invalid name.

    name: in its path and as its tenant. names: host names at which it is served, too. at_root: it is also
    served where the only agent of a server is: at the root, and over gRPC for every other tenant.
    """

    name: str
    opening: Opening
    names: tuple[str, ...] = ()
    at_root: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is no name of an agent: lower-case letters, digits and -, at most 63"
            )


def hosted(
    name: str,
    agent: Agent,
    options: ServeOptions,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    *,
    names: tuple[str, ...] = (),
    at_root: bool = False,
) -> AgentEntry:
    """An agent of this process. options: its own. An interface without a URL is on the common hosts."""

    def open_server(shared: Shared) -> AbstractAsyncContextManager[Server]:
        return serve_agent(agent, served, options_of(name, options, shared.options), shared=shared)

    served = interfaces_of(name, interfaces, names, at_root=at_root)
    return AgentEntry(name, open_server, names, at_root)


def remote(
    name: str,
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    options: ServeOptions,
    dial_options: DialOptions | None = None,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    *,
    names: tuple[str, ...] = (),
    at_root: bool = False,
) -> AgentEntry:
    """A remote agent; see `serve_gateway` and `hosted`."""

    def open_server(shared: Shared) -> AbstractAsyncContextManager[Server]:
        own = options_of(name, options, shared.options)
        return serve_gateway(card, candidates, served, own, dial_options, shared=shared)

    served = interfaces_of(name, interfaces, names, at_root=at_root)
    return AgentEntry(name, open_server, names, at_root)


def options_of(name: str, options: ServeOptions, server: ServeOptions) -> ServeOptions:
    """The options of one agent. Who may call, and TLS, are the server's. Its public URL is its own, or the
    server's with the path of the agent.
    """
    path = f"{PATH}/{name}"
    return replace(
        options,
        name=name,
        http=SHARED,
        grpc=SHARED,
        host=replace(options.host, tls=server.host.tls),
        tls=server.tls,
        grpc_tls=server.grpc_tls,
        admin=None,
        mcp=server.mcp,
        openai=server.openai,
        metrics=server.metrics,
        usage=server.usage,
        authentication=server.authentication,
        allow_unauthenticated=server.allow_unauthenticated,
        access_rules=options.access_rules or server.access_rules,
        public_url=options.public_url or (server.public_url and server.public_url.rstrip("/") + path),
        public_grpc=options.public_grpc or server.public_grpc,
    )


def interfaces_of(
    name: str,
    interfaces: Sequence[hub.AgentInterface],
    names: tuple[str, ...] = (),
    *,
    at_root: bool = False,
) -> tuple[hub.AgentInterface, ...]:
    """The interfaces of one agent: gRPC on the common address has its name as the tenant. Versions without
    tenants are served over gRPC only at an address or a host name of the agent's own.
    """
    found = []
    for one in interfaces:
        if one.protocol_binding != GRPC.name or one.url or at_root:
            found.append(one)
        elif not is_old(one):
            found.append(interface(one.protocol_binding, version=one.protocol_version, tenant=name))
        elif names:
            found.append(one)
    return tuple(found)


class Running:
    """The calls of one agent in progress, so that it can wait for them when it is removed."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

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
    """A service whose calls are counted; a middleware."""

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


class OpenFronts(Mapping[str, OpenFront]):
    """The fronts of one kind of the agents that are available, by name; empty for an agent at the root."""

    def __init__(self, members: Mapping[str, Member], kind: str) -> None:
        self._members = members
        self._kind = kind

    def __getitem__(self, name: str) -> OpenFront:
        if not name:
            name = next((name for name, one in self._members.items() if one.entry.at_root), "")
        server = self._members[name].server
        if server is None:
            raise KeyError(name)
        return server.fronts.open[self._kind]

    def __iter__(self) -> Iterator[str]:
        available = ((name, one) for name, one in self._members.items() if one.server is not None)
        return ("" if one.entry.at_root else name for name, one in available)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(eq=False)
class Member:
    """One agent: its part of the hosts, and its task."""

    entry: AgentEntry
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


class Directory:
    """The agents behind the common gRPC address; implements Service."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return reject(error)
        return service.unary(routed)

    def stream(self, call: Call[Any, Any], /) -> Events:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return reject_stream(error)
        return service.stream(routed)

    def _find(self, call: Call[Req, Res]) -> tuple[Service, Call[Req, Res]]:
        tenant, origin = call.context.tenant, call.context.origin
        member = self._members.get(tenant) if tenant else None
        if member is not None:
            call = _without_tenant(call)
        else:
            host = host_of(origin.base_url)
            found = [one for one in self._members.values() if one.entry.at_root or host in one.entry.names]
            member = next((one for one in found if not one.entry.at_root), found[0] if found else None)
        if member is None:
            text = (
                "is the name of none of the agents here" if tenant else "has to be the name of an agent here"
            )
            raise invalid_params("tenant", text)
        if member.service is None:
            if elsewhere := _own_address(member):
                raise invalid_params(
                    "tenant", f"names an agent that is not here over gRPC, but at {elsewhere}"
                )
            raise A2AError(Reason.UNAVAILABLE, "the agent is not available", blame=Blame.SELF)
        if not any(one.version == origin.version for one in member.versions):
            raise version_not_supported(
                f"this agent is not served in {origin.version} over gRPC", member.versions
            )
        return member.service, call


def _own_address(member: Member) -> str:
    """The gRPC address of an agent that is not on the common one; empty if it has none, or is not there."""
    if member.server is None or member.is_common:
        return ""
    found = (one.url for one in member.server.card.supported_interfaces if one.protocol_binding == GRPC.name)
    return next(found, "")


def _without_tenant(call: Call[Req, Res]) -> Call[Req, Res]:
    request: Any = type(call.request)()
    request.CopyFrom(call.request)
    request.ClearField("tenant")
    return Call(call.operation, request, call.context.replace(tenant=""))
