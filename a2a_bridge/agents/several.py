"""Several agents behind one server: their parts of its hosts, their life, and the catalogue of them.

Rules:
1. HTTP finds an agent by the path `/agents/NAME` or by a host name, gRPC by the tenant NAME, by a host name
   where the server sees the authority of a call, or by an address of its own.
2. Each agent lives in a task of its own: an agent that fails, comes or goes does not touch the others.
3. An agent that cannot be reached at the start is UNAVAILABLE and tried again. Every other problem at the
   start ends it, because it is one of the configuration.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from a2a_bridge.agents.catalogue import Catalogue
from a2a_bridge.agents.member import (
    PATH,
    SHARED,
    AgentEntry,
    Counted,
    Directory,
    GrpcPart,
    Member,
    OpenFronts,
)
from a2a_bridge.app.admin import admin_listener, announce
from a2a_bridge.app.agent import opened_as
from a2a_bridge.app.fronts import Fronts
from a2a_bridge.app.lifetime import Lifetime
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.serving import Shared, add_metrics
from a2a_bridge.bindings.binding import (
    ApplicationHost,
    Host,
    HostOptions,
    ListenAddress,
    asgi_host,
    find,
    http_site,
)
from a2a_bridge.bindings.probing import ends_within
from a2a_bridge.core.errors import A2AError, cause_of
from a2a_bridge.dialects import GRPC, KNOWN
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.agents")

#: seconds between two attempts to reach an agent: the first and the longest pause
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
#: seconds that the start waits for the next agent, while there are some that are not open
_PATIENCE = 10.0
#: names of agents in a line of the log
_SHOWN = 10


class Agents:
    """A server with several agents; like `Server`, and agents can be added and removed.

    options: addresses, host options and limits of the server; its agents have options of their own. host: an
    application that takes everything in place of listeners. grpc: whether gRPC is served. progress: see
    `serve_agents`.
    """

    def __init__(
        self,
        options: ServeOptions,
        *,
        host: ApplicationHost | None = None,
        grpc: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._options = options
        self._progress = progress
        #: the listener for operators; None without `ServeOptions.admin`
        self.admin: ListenAddress | None = None
        self._members: dict[str, Member] = {}
        #: agents that are being opened, and are not listed yet
        self._coming: set[Member] = set()
        self._application = host
        self._listening = asyncio.Event()
        #: the agents that have been opened
        self._opened: set[Member] = set()
        #: True once it has begun to drain
        self.draining = False
        self.secure = options.host_of("http").tls is not None
        self._http: Any = host
        self._grpc: Any = host
        http = replace(options.host_of("http"), rejection=self.rejection, permit=None)
        if host is None:
            self._http = find("JSONRPC").host(options.http, http)
            self._grpc = None
            if grpc:
                own = replace(options.host_of("grpc"), rejection=self.rejection, permit=None)
                self._grpc = find("GRPC").host(options.grpc, own)
        else:
            host.options = http
            host.cards = self._cards_at
        #: other protocols, of all agents
        self.fronts = Fronts(options)
        Catalogue(self._members, self.fronts).publish(self._http)
        dialects = [one for one in KNOWN if one.form(GRPC) is not None]
        if grpc:
            find("GRPC").mount(self._grpc, "", Directory(self._members), dialects)

    @property
    def http(self) -> ListenAddress | None:
        return None if self._application is not None else self._http.address

    @property
    def grpc(self) -> ListenAddress | None:
        return None if self._application is not None or self._grpc is None else self._grpc.address

    @property
    def cards(self) -> Mapping[str, hub.AgentCard]:
        """The cards of the available agents by name, as a caller on this machine sees them."""
        return {name: one.server.card for name, one in self._members.items() if one.server is not None}

    def _cards_at(self, url: str) -> Mapping[str, hub.AgentCard]:
        """Those of `cards`, as a caller of the application at a base URL sees them."""
        servers = {name: one.server for name, one in self._members.items() if one.server is not None}
        return {name: server.card_at(f"{url}{PATH}/{name}") for name, server in servers.items()}

    async def open(self, entries: Sequence[AgentEntry]) -> None:
        """Opens the agents, then the listeners. The agents that are left when none has been opened for
        `_PATIENCE` come later. Raises the first error that is no lost connection, and OSError if it cannot
        listen.
        """
        for entry in entries:
            self._enter(entry)
        for member in self._members.values():
            if not await self._mounts(member):
                slow = [name for name, one in self._members.items() if not one.mounted.is_set()]
                more = f" and {len(slow) - _SHOWN} more" if len(slow) > _SHOWN else ""
                text = "not open yet, the others are served: %s%s"
                logger.warning(text, ", ".join(slow[:_SHOWN]), more)
                break
        await self.fronts.start(
            self._http, lambda kind, front, *of: front.open_all(OpenFronts(self._members, kind), *of)
        )
        for host in self._own_hosts():
            await host.start()
        self._listening.set()
        for name, member in self._members.items():
            if member.mounted.is_set():
                await _until(member, member.served)
            elif member.task is not None:
                member.task.add_done_callback(partial(_log_failure, name))

    async def _mounts(self, member: Member) -> bool:
        """Waits until an agent is mounted. Returns False if none has been for `_PATIENCE`."""
        if member.mounted.is_set():
            return True
        waiting = asyncio.create_task(_until(member, member.mounted))
        opened = -1
        try:
            while opened != len(self._opened):
                opened = len(self._opened)
                if await ends_within(waiting, _PATIENCE):
                    waiting.result()
                    return True
            return False
        finally:
            waiting.cancel()

    async def add(self, entry: AgentEntry) -> None:
        """Serves and lists one more agent. Raises ValueError for a taken name, and the errors of `open`."""
        self._require_free(entry.name)
        member = self._begin(entry)
        try:
            await _until(member, member.served)
            self._list(member)
        except BaseException:
            await self._end(member, 0.0)
            raise

    async def replace(self, entry: AgentEntry, grace: float) -> None:
        """Serves an agent in place of the one of its name, whose running calls get `grace` seconds, without a
        gap: both are open for a moment. Raises LookupError, and the errors of `open`; then the old one stays.
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
        del self._members[entry.name]
        self._list(new)
        await self._end(old, grace)

    async def remove(self, name: str, grace: float) -> None:
        """Stops serving an agent; its running calls get `grace` seconds. Raises LookupError."""
        member = self._members.pop(name, None)
        if member is None:
            raise LookupError(f"there is no agent {name!r}")
        member.site.close()
        await self._end(member, grace)

    async def _end(self, member: Member, grace: float) -> None:
        name = member.entry.name
        self._coming.discard(member)
        self._opened.discard(member)
        member.grace = grace
        member.leaving.set()
        if member.task is not None:
            if member.server is None:  # it may wait for hosts that never start, or for an agent that is lost
                member.task.cancel()
            await asyncio.wait({member.task})
            if not member.task.cancelled() and (error := member.task.exception()) is not None:
                logger.debug("agent %s ended with an error", name, exc_info=error)

    async def drain(self, grace: float) -> None:
        """Rejects new work; running calls of all agents get `grace` seconds. May be repeated."""
        if self.draining:
            return
        self.draining = True
        end = monotonic() + grace
        await asyncio.gather(*(host.drain(grace) for host in self._own_hosts()))
        rest = max(0.0, end - monotonic())
        await self.fronts.close(rest)
        coming = [self._end(one, 0.0) for one in self._coming]
        await asyncio.gather(*coming, *(self.remove(name, rest) for name in list(self._members)))

    def _own_hosts(self) -> list[Host]:
        """The listeners; none for an application."""
        return [] if self._application is not None else [one for one in (self._http, self._grpc) if one]

    # ------------------------------------------------------------------ one agent

    def _enter(self, entry: AgentEntry) -> Member:
        """Begins to open one more agent at its address."""
        self._require_free(entry.name)
        member = self._begin(entry)
        try:
            self._list(member)
        except ValueError:
            self._coming.discard(member)
            if member.task is not None:
                member.task.cancel()
            raise
        return member

    def _require_free(self, name: str) -> None:
        if name in self._members:
            raise ValueError(f"there are two agents {name!r}")

    def _list(self, member: Member) -> None:
        """Adds an agent to the hosts and to the catalogue. Raises ValueError for a name that is taken."""
        self._require_free(member.entry.name)
        member.site.open()
        self._members[member.entry.name] = member
        self._coming.discard(member)

    def _begin(self, entry: AgentEntry) -> Member:
        """Begins to open an agent."""
        member = Member(entry)

        async def started() -> None:
            member.mounted.set()
            self._opened.add(member)
            if self._progress is not None and not self._listening.is_set():
                self._progress(len(self._opened), len(self._members))
            await self._listening.wait()

        path = f"{PATH}/{entry.name}"
        member.site = http_site(
            self._http, self._http.options, path, entry.names, started, at_root=entry.at_root
        )
        member.task = asyncio.create_task(self._live(member), name=f"agent {entry.name}")
        self._coming.add(member)
        return member

    def _shared(self, member: Member) -> Shared:
        """The part of the hosts that belongs to an agent."""
        host, entry = self._application, member.entry
        return Shared(
            self._options,
            "" if entry.at_root else f"{PATH}/{entry.name}",
            None if host is None else lambda: bool(host.trailers),
            lambda service: Counted(service, member.running),
            partial(self._part, member),
        )

    def _part(self, member: Member, family: str, address: ListenAddress, options: HostOptions) -> Host | None:
        if address != SHARED or (family == "grpc" and self._grpc is None):
            return None
        if family == "http":
            member.site.options = replace(options, authenticate=self._http.options.authenticate)
            member.rejection = options.rejection
            found: Host = member.site
            return found
        return GrpcPart(member, self._grpc, member.site.start)

    async def _live(self, member: Member) -> None:
        """Serves an agent until it leaves."""
        name, pause = member.entry.name, _FIRST_PAUSE
        while not member.leaving.is_set():
            try:
                async with member.entry.opening(self._shared(member)) as server:
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
                if not error.reason.kind.is_silence or member.server is not None:
                    raise
                if pause == _FIRST_PAUSE:
                    logger.warning(
                        "agent %s cannot be reached, it is tried again: %s (upstream of [agents.%s])",
                        name,
                        cause_of(error),
                        name,
                    )
                member.mounted.set()
                member.served.set()
                with suppress(TimeoutError):
                    # Agents that are lost together are not tried together.
                    await asyncio.wait_for(member.leaving.wait(), pause * random.uniform(0.75, 1))  # noqa: S311
                pause = min(2 * pause, _LONGEST_PAUSE)

    # ------------------------------------------------------------------ all agents

    def rejection(self) -> A2AError | None:
        """Why the server is not ready: the first agent of this process whose store does not take work."""
        for member in self._members.values():
            if member.rejection is not None and (error := member.rejection()) is not None:
                return error
        return None


def _log_failure(name: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("agent %s is not served: %s", name, error, exc_info=error)


async def _until(member: Member, event: asyncio.Event) -> None:
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


@opened_as("async with serve_agents(…) as server:")
async def serve_agents(
    entries: Sequence[AgentEntry],
    options: ServeOptions | None = None,
    *,
    host: ApplicationHost | None = None,
    grpc: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> AsyncIterator[Agents]:
    """Serves several agents. host, grpc: see `Agents`. progress: called with the number of agents that are
    open and that of all, while they are opened. Raises the errors of `Agents.open`.
    """
    options = add_metrics(options or ServeOptions())
    server = Agents(options, host=host, grpc=grpc, progress=progress)
    known = replace(options, host=replace(options.host, rejection=server.rejection))
    async with admin_listener(options) as admin:
        try:
            await server.open(entries)
            async with announce(server, known, admin, host, None):
                yield server
        finally:
            await server.drain(options.grace)


def asgi_agents(
    entries: Sequence[AgentEntry],
    options: ServeOptions | None = None,
    *,
    opened: Callable[[Agents], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Several agents as an ASGI 3 application, like `asgi`. opened: called with the server once it runs.
    progress: as for `serve_agents`.
    """
    chosen = options or ServeOptions()

    @asynccontextmanager
    async def serve() -> AsyncIterator[Agents]:
        async with serve_agents(entries, chosen, host=host, progress=progress) as server:
            if opened is not None:
                opened(server)
            yield server

    lifetime = Lifetime(serve)
    host = asgi_host(
        replace(chosen.host_of("http"), permit=None),
        startup=lifetime.start,
        close=lifetime.close,
        grace=chosen.grace,
    )
    return host
