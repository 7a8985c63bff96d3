"""Fronts of a server: other protocols that reach its agents on its first HTTP listener, beside A2A.

Rules:
1. A front is an entry point of the group `a2a_bridge.fronts`. `ServeOptions` has a field with its name.
2. A front calls the service that bindings call, with the caller that `HostOptions.authenticate` names. So
   access rules, limits, counts, metrics and traces are those of every call.
3. The paths of a front belong to it alone. An interface or a tenant at one of them is an error at the start.
4. Calls of a front that are running when the grace of the server is nearly over end with an error of its
   protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from a2a_bridge.app.lifetime import Lifetime
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.binding import DocumentHost, HostOptions
from a2a_bridge.cards import Mounted
from a2a_bridge.core.extras import check_version, missing_fronts
from a2a_bridge.dialects import JSONRPC
from a2a_bridge.extensions import entry_points, load

GROUP = "a2a_bridge.fronts"
#: the fronts, and the fields of `ServeOptions` that ask for them
NAMES = ("mcp", "openai")


class TakenPathError(ValueError):
    """A front and an interface of A2A are at the same path; the text names both."""


class OpenFront(Protocol):
    """A front while it is open."""

    @property
    def application(self) -> Application:
        """What answers its requests."""

    @property
    def front(self) -> Any:
        """What it keeps of one agent, for the front of several."""

    def end_calls(self) -> None:
        """Ends running calls with an error."""

    async def drain(self, grace: float) -> None:
        """Waits for work in the background. All requests have ended."""


class Front(Protocol):
    """Another protocol for the agents of a server."""

    @property
    def title(self) -> str:
        """The name of the protocol."""

    @property
    def address(self) -> str:
        """The path that clients are given."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of its application; see `DocumentHost.mount_application`."""

    def check(self) -> None:
        """Raises MissingExtraError without a package that it needs."""

    def open(
        self, peer: Peer, options: HostOptions, allowed_hosts: Sequence[str], name: str
    ) -> AbstractAsyncContextManager[OpenFront]:
        """The front of one agent. peer: its service, and its card, which can change. options: who may call,
        and limits. allowed_hosts: names that requests to this machine's own addresses may have in Host;
        empty: all. name: of the agent on a server with several.
        """

    def open_all(
        self, members: Mapping[str, OpenFront], options: HostOptions, allowed_hosts: Sequence[str]
    ) -> AbstractAsyncContextManager[OpenFront]:
        """The front of several agents, by name. members: their fronts, as they are open now."""


def find_front(name: str) -> Front:
    """The front of a name. Raises MissingExtraError, OtherVersionError, BrokenExtensionError."""
    for point in entry_points(group=GROUP):
        if point.name == name:
            check_version(point.dist)
            front: Front = load(point, f"the front {name!r}")
            front.check()
            return front
    raise missing_fronts(extra=name)


class Fronts:
    """The fronts of one service on one host; `open` has those that are open. Raises the errors of
    `find_front`.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.kinds: Mapping[str, Front] = {name: find_front(name) for name in NAMES if getattr(options, name)}
        self.open: dict[str, OpenFront] = {}
        self._public = urlsplit(options.public_url).netloc
        self._lifetimes: list[Lifetime] = []

    def check_paths(self, plan: Sequence[Mounted], aliases: Iterable[str]) -> None:
        """Raises TakenPathError. plan: what is served. aliases: see `HostOptions.jsonrpc_paths`."""
        taken = {path.rstrip("/"): "the path of JSON-RPC in the agent's own card" for path in aliases}
        served = [one for one in plan if one.family == "http"]
        if self.kinds and not served:
            raise ValueError(f"{', '.join(self.kinds)}: needs an HTTP interface")
        for one in served:
            if one.address != served[0].address:
                continue
            kind, tenant = one.interface.protocol_binding, one.interface.tenant
            taken[one.path] = f"an interface of {kind}"
            if tenant and kind == JSONRPC.name:
                taken[f"{one.path}/{tenant}"] = f"the tenant {tenant!r} of {kind}"
        for name, front in self.kinds.items():
            for path in front.paths:
                whole = path.removesuffix("/*")
                for other, what in taken.items():
                    if other == whole or (whole != path and other.startswith(f"{whole}/")):
                        raise TakenPathError(f"the front {name!r} has {whole}, and {what} is at {other}, too")

    async def start(
        self,
        host: DocumentHost,
        opening: Callable[[str, Front, HostOptions, Sequence[str]], AbstractAsyncContextManager[OpenFront]],
    ) -> None:
        """Opens the fronts and mounts them on a host, which is not started. opening: opens the one of a name,
        as `Front` does.
        """
        options = host.options
        # A web page can make a name of its own lead to this machine, and call what asks for no credential.
        # The server of an ASGI application knows its address with each request only.
        is_near = host.address.is_local or not host.address.host
        is_open = options.authenticate is None and not options.trust_forwarded and is_near
        local = ("127.0.0.1:*", "localhost:*", "[::1]:*")
        hosts = tuple(filter(None, (*local, self._public))) if is_open else ()
        for name, front in self.kinds.items():
            lifetime = Lifetime(partial(opening, name, front, options, hosts))
            found: OpenFront = await lifetime.start()
            self._lifetimes.append(lifetime)
            self.open[name] = found
            host.mount_application("", found.application, at=front.paths, ending=found.end_calls)

    async def close(self, grace: float) -> None:
        """Ends the fronts, after their last request, in the time that the slowest of them takes."""
        await asyncio.gather(*(lifetime.close(grace) for lifetime in self._lifetimes))

    def addresses(self, base_url: str) -> list[tuple[str, str]]:
        """The protocols, and their addresses at a base URL."""
        return [(front.title, f"{base_url}{front.address}") for front in self.kinds.values()]
