"""Several agents behind one server: their parts of its hosts, their life, and the catalogue of them.

Rules:
1. HTTP finds an agent by the path `/agents/NAME` or by a host name, gRPC by the tenant NAME, by a host name
   where the server sees the authority of a call, or by an address of its own.
2. Each agent lives in a task of its own: an agent that fails, comes or goes does not touch the others.
3. An agent that cannot be reached at the start is UNAVAILABLE and tried again. Every other problem at the
   start ends it, because it is one of the configuration.
4. The tenant that names an agent ends here: the agent sees a call without it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.admin import admin_listener, announced
from a2a_bridge.asgi_lifetime import Lifetime
from a2a_bridge.bindings import (
    ApplicationHost,
    DialOptions,
    DocumentHost,
    Host,
    HostOptions,
    ListenAddress,
    asgi_host,
    find,
    http_site,
)
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import dumps
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of, invalid_params
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Service, refused, refused_stream
from a2a_bridge.dialects import GRPC, KNOWN, Dialect
from a2a_bridge.dialects.detect import version_not_supported
from a2a_bridge.dialects.v0_3.card_interfaces import is_old
from a2a_bridge.gateway.router import without_tenant
from a2a_bridge.hosting import Agent
from a2a_bridge.observation import observed
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.planning import EVERYTHING, ServeOptions
from a2a_bridge.runtime import serve_agent, serve_gateway
from a2a_bridge.serving import Server, Shared

logger = logging.getLogger("a2a_bridge.agents")

#: names are segments of paths, tenants and parts of URNs
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
PATH = "/agents"
CATALOG_PATH = "/.well-known/ai-catalog.json"
#: seconds between two attempts to reach an agent: the first and the longest pause
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0

#: reasons of errors that may pass by themselves
_TRANSIENT = frozenset({Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED})
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
    """An agent of this process. options: for it alone; an interface without a URL is served on the common
    hosts.
    """

    def opening(shared: Shared) -> AbstractAsyncContextManager[Server]:
        own = options_of(name, options, shared.options)
        served = interfaces_of(name, interfaces, names, at_root=at_root)
        return serve_agent(agent, served, own, shared=shared)

    return AgentEntry(name, opening, names, at_root)


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

    def opening(shared: Shared) -> AbstractAsyncContextManager[Server]:
        own = options_of(name, options, shared.options)
        served = interfaces_of(name, interfaces, names, at_root=at_root)
        return serve_gateway(card, candidates, served, own, dial_options, shared=shared)

    return AgentEntry(name, opening, names, at_root)


def options_of(name: str, options: ServeOptions, server: ServeOptions) -> ServeOptions:
    """The options of one agent. Who may call and TLS are the server's; its public URL, unless the agent has
    one of its own, gets the agent's path.
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


class _Running:
    """The calls of one agent in progress, so that it can wait for them when it is removed."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def wrap(self, service: Service) -> Service:
        """Middleware that counts calls."""
        return _Counted(service, self)

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


class _Counted:
    def __init__(self, service: Service, running: _Running) -> None:
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
class _Member:
    """One agent: its part of the hosts, and its task. Implements runtime.Shared."""

    entry: AgentEntry
    options: ServeOptions
    grpc_here: Callable[[], bool] | None
    part: Callable[[_Member, str, ListenAddress, HostOptions], Host | None]
    running: _Running = field(default_factory=_Running)
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
    #: why it does not take calls; see HostOptions.refusal
    refusal: Callable[[], A2AError | None] | None = None
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


class _GrpcPart:
    """The common gRPC host as one agent sees it: implements bindings.Host, and `add` of gRPC hosts."""

    def __init__(self, member: _Member, host: Host, started: Callable[[], Awaitable[None]]) -> None:
        self._member = member
        self._host = host
        self._started = started

    @property
    def address(self) -> ListenAddress:
        return self._host.address

    def add(self, service: Service, dialects: Sequence[Dialect]) -> None:
        """Serves an agent in the versions that have gRPC."""
        self._member.service = service
        self._member.versions = tuple(one for one in dialects if one.form(GRPC) is not None)

    async def start(self) -> None:
        await self._started()

    async def drain(self, grace: float) -> None:  # noqa: ARG002  the owner drains the host
        """Answers further calls as UNAVAILABLE."""
        self._member.service = None


class _Directory:
    """The agents behind the common gRPC address; implements Service."""

    def __init__(self, members: Mapping[str, _Member]) -> None:
        self._members = members

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return refused(error)
        return service.unary(routed)

    def stream(self, call: Call[Any, Any], /) -> Events:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return refused_stream(error)
        return service.stream(routed)

    def _find(self, call: Call[Req, Res]) -> tuple[Service, Call[Req, Res]]:
        tenant, origin = call.context.tenant, call.context.origin
        member = self._members.get(tenant) if tenant else None
        if member is not None:
            call = without_tenant(call)
        else:
            host = _host_of(origin.base_url)
            found = [one for one in self._members.values() if one.entry.at_root or host in one.entry.names]
            member = next((one for one in found if not one.entry.at_root), found[0] if found else None)
        if member is None:
            text = (
                "is the name of none of the agents here" if tenant else "has to be the name of an agent here"
            )
            raise invalid_params("tenant", text)
        if member.service is None:
            raise A2AError(Reason.UNAVAILABLE, "the agent is not available", blame=Blame.SELF)
        if not any(one.version == origin.version for one in member.versions):
            raise version_not_supported(
                f"this agent is not served in {origin.version} over gRPC", member.versions
            )
        return member.service, call


class Agents:
    """A server with several agents; like `Server`, and agents can be added and removed.

    options: addresses, host options and limits of the server; its agents have options of their own. host: an
    application that takes everything in place of listeners. grpc: whether gRPC is served.
    """

    def __init__(
        self, options: ServeOptions, *, host: ApplicationHost | None = None, grpc: bool = True
    ) -> None:
        self._options = options
        #: the listener for operators; None without `ServeOptions.admin`
        self.admin: ListenAddress | None = None
        self._members: dict[str, _Member] = {}
        self._application = host
        self._listening = asyncio.Event()
        self._drained = False
        self._http: Any = host
        self._grpc: Any = host
        http = replace(options.host_of("http"), refusal=self.refusal)
        if host is None:
            self._http = find("JSONRPC").host(options.http, http)
            self._grpc = None
            if grpc:
                own = replace(options.host_of("grpc"), refusal=self.refusal)
                self._grpc = find("GRPC").host(options.grpc, own)
        else:
            host.options = http
        documents: DocumentHost = self._http
        documents.publish(PATH, self._list)
        documents.publish(CATALOG_PATH, self._catalog)
        dialects = [one for one in KNOWN if one.form(GRPC) is not None]
        if grpc:
            find("GRPC").mount(self._grpc, "", _Directory(self._members), dialects)

    @property
    def http(self) -> ListenAddress | None:
        """The HTTP listener."""
        return None if self._application is not None else self._http.address

    @property
    def grpc(self) -> ListenAddress | None:
        """The gRPC listener."""
        return None if self._application is not None or self._grpc is None else self._grpc.address

    @property
    def secure(self) -> bool:
        """Whether the listeners speak TLS."""
        return self._options.host_of("http").tls is not None

    @property
    def draining(self) -> bool:
        """True once it has begun to drain."""
        return self._drained

    @property
    def cards(self) -> Mapping[str, hub.AgentCard]:
        """The cards of the available agents by name, as a caller on this machine sees them."""
        return {name: one.server.card for name, one in self._members.items() if one.server is not None}

    async def open(self, entries: Sequence[AgentEntry]) -> None:
        """Opens the agents, then the listeners. Raises the first error that is no lost connection, and
        OSError for an address that cannot be listened on.
        """
        for entry in entries:
            self._enter(entry)
        for member in self._members.values():
            await _until(member, member.mounted)
        for host in self._own_hosts():
            await host.start()
        self._listening.set()
        for member in self._members.values():
            await _until(member, member.served)

    async def add(self, entry: AgentEntry) -> None:
        """Serves one more agent. Raises ValueError for a name that is taken, and the errors of `open`."""
        member = self._enter(entry)
        try:
            await _until(member, member.served)
        except BaseException:
            await self.remove(entry.name, 0.0)
            raise

    async def replace(self, entry: AgentEntry, grace: float) -> None:
        """Serves an agent in place of the one of its name, whose running calls get `grace` seconds. Callers
        see no gap: two of them are open for a moment. Raises LookupError, and the errors of `open`; then the
        old one stays.
        """
        old = self._members.get(entry.name)
        if old is None:
            raise LookupError(f"there is no agent {entry.name!r}")
        new = self._begin(entry)
        try:
            await _until(new, new.served)
        except BaseException:
            await self._end(new, 0.0)
            raise
        old.site.close()
        new.site.open()
        self._members[entry.name] = new
        await self._end(old, grace)

    async def remove(self, name: str, grace: float) -> None:
        """Stops serving an agent; its running calls get `grace` seconds. Raises LookupError."""
        member = self._members.pop(name, None)
        if member is None:
            raise LookupError(f"there is no agent {name!r}")
        member.site.close()
        await self._end(member, grace)

    async def _end(self, member: _Member, grace: float) -> None:
        """Ends the task of an agent."""
        name = member.entry.name
        member.grace = grace
        member.leaving.set()
        if member.task is not None:
            if not member.served.is_set():  # it may wait for hosts that never start
                member.task.cancel()
            await asyncio.wait({member.task})
            if not member.task.cancelled() and (error := member.task.exception()) is not None:
                logger.debug("agent %s ended with an error", name, exc_info=error)

    async def drain(self, grace: float) -> None:
        """Refuses new work; running calls of all agents get `grace` seconds. May be repeated."""
        if self._drained:
            return
        self._drained = True
        end = monotonic() + grace
        await asyncio.gather(*(host.drain(grace) for host in self._own_hosts()))
        rest = max(0.0, end - monotonic())
        await asyncio.gather(*(self.remove(name, rest) for name in list(self._members)))

    def _own_hosts(self) -> list[Host]:
        """The listeners; none for an application."""
        return [] if self._application is not None else [one for one in (self._http, self._grpc) if one]

    # ------------------------------------------------------------------ one agent

    def _enter(self, entry: AgentEntry) -> _Member:
        """Begins to open one more agent at its address."""
        if entry.name in self._members:
            raise ValueError(f"there are two agents {entry.name!r}")
        member = self._begin(entry)
        try:
            member.site.open()
        except ValueError:
            if member.task is not None:
                member.task.cancel()
            raise
        self._members[entry.name] = member
        return member

    def _begin(self, entry: AgentEntry) -> _Member:
        """Begins to open an agent."""
        host = self._application
        here = None if host is None else lambda: bool(host.trailers)
        member = _Member(entry, self._options, here, self._part)

        async def started() -> None:
            member.mounted.set()
            await self._listening.wait()

        path = f"{PATH}/{entry.name}"
        member.site = http_site(
            self._http, self._http.options, path, entry.names, started, at_root=entry.at_root
        )
        member.task = asyncio.create_task(self._live(member), name=f"agent {entry.name}")
        return member

    def _part(
        self, member: _Member, family: str, address: ListenAddress, options: HostOptions
    ) -> Host | None:
        if address != SHARED or (family == "grpc" and self._grpc is None):
            return None
        if family == "http":
            member.site.options = replace(options, authenticate=self._http.options.authenticate)
            member.refusal = options.refusal
            found: Host = member.site
            return found
        return _GrpcPart(member, self._grpc, member.site.start)

    async def _live(self, member: _Member) -> None:
        """Serves an agent until it leaves."""
        name, pause = member.entry.name, _FIRST_PAUSE
        while not member.leaving.is_set():
            try:
                async with member.entry.opening(member) as server:
                    member.server = server
                    if pause > _FIRST_PAUSE:
                        logger.warning("agent %s can be reached now", name)
                    member.served.set()
                    await member.leaving.wait()
                    end = monotonic() + member.grace
                    await member.running.wait(member.grace)
                    member.server = None
                    await server.drain(max(0.0, end - monotonic()))
            except A2AError as error:
                if error.reason not in _TRANSIENT or member.server is not None:
                    raise
                if pause == _FIRST_PAUSE:
                    logger.warning("agent %s cannot be reached, it is tried again: %s", name, cause_of(error))
                member.mounted.set()
                member.served.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(member.leaving.wait(), pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    # ------------------------------------------------------------------ all agents

    def refusal(self) -> A2AError | None:
        """Why the server is not ready: the first agent of this process whose store does not take work."""
        for member in self._members.values():
            if member.refusal is not None and (error := member.refusal()) is not None:
                return error
        return None

    def _list(self, base_url: str) -> bytes:
        return dumps({"agents": [_row(one, base_url) for one in self._members.values()]})

    def _catalog(self, base_url: str) -> bytes:
        """The AI Catalog: one entry for each available agent."""
        found = [_entry(one, base_url) for one in self._members.values() if one.server is not None]
        host = {"displayName": _host_of(base_url)}
        return dumps({"specVersion": "1.0", "host": host, "entries": found})


async def _until(member: _Member, event: asyncio.Event) -> None:
    """Waits for an event of an agent. Raises the error with which its task has ended before."""
    task = member.task
    assert task is not None  # noqa: S101  for the type checker
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if task.done():
        task.result()


def _card_url(member: _Member, base_url: str) -> str:
    return f"{base_url}{PATH}/{member.entry.name}/.well-known/agent-card.json"


def _row(member: _Member, base_url: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": member.entry.name, "card": _card_url(member, base_url)}
    if member.server is None:
        return {**row, "state": "unavailable"}
    card = member.server.card
    return {**row, "state": "available", "displayName": card.name, "description": card.description}


def _entry(member: _Member, base_url: str) -> dict[str, Any]:
    assert member.server is not None  # noqa: S101  for the type checker
    card = member.server.card
    entry: dict[str, Any] = {
        "identifier": f"urn:air:{_host_of(base_url)}:agent:{member.entry.name}",
        "displayName": card.name,
        "type": "application/a2a-agent-card+json",
        "url": _card_url(member, base_url),
        "description": card.description,
        "version": card.version,
        "tags": list(dict.fromkeys(tag for skill in card.skills for tag in skill.tags)),
    }
    return {name: value for name, value in entry.items() if value}


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # callers choose the Host header, and not every [...] is an address
        return ""


@asynccontextmanager
async def serve_agents(
    entries: Sequence[AgentEntry],
    options: ServeOptions | None = None,
    *,
    host: ApplicationHost | None = None,
    grpc: bool = True,
) -> AsyncIterator[Agents]:
    """Serves several agents while the context is open. host, grpc: see `Agents`. Raises the errors of
    `Agents.open`.
    """
    options = observed(options or ServeOptions())
    server = Agents(options, host=host, grpc=grpc)
    known = replace(options, host=replace(options.host, refusal=server.refusal))
    async with admin_listener(options) as admin:
        try:
            await server.open(entries)
            async with announced(server, known, admin, host, None):
                yield server
        finally:
            await server.drain(options.grace)


def asgi_agents(
    entries: Sequence[AgentEntry],
    options: ServeOptions | None = None,
    *,
    opened: Callable[[Agents], None] | None = None,
) -> Any:
    """Several agents as an ASGI 3 application: see `asgi` and `serve_agents`. opened: is called with the
    server when it has started.
    """
    chosen = options or ServeOptions()

    @asynccontextmanager
    async def serve() -> AsyncIterator[Agents]:
        async with serve_agents(entries, chosen, host=host) as server:
            if opened is not None:
                opened(server)
            yield server

    lifetime = Lifetime(serve)
    host = asgi_host(chosen.host_of("http"), startup=lifetime.start, close=lifetime.close, grace=chosen.grace)
    return host
