"""Several agents on one HTTP host: each is a site with mounts of its own, below a path or at a host name.

Rules:
1. A site sees requests as if it were alone: paths without its prefix, and base URLs with it.
2. The owner of the host starts and drains it. A site waits for the start, so that its card has real
   addresses.
3. Sites come and go while the host runs; requests in progress keep the site that they began with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.exchange import Handler, Reply, Request, StreamReply, reject_logged
from a2a_bridge_transports._http.mounts import Mounts, canonical


class SharedHost(Protocol):
    """The host of several sites."""

    #: handlers of whole host names, in lower case without a port
    names: dict[str, Handler]

    @property
    def address(self) -> ListenAddress: ...

    def mount_tree(self, path: str, handler: Handler) -> None: ...

    def unmount_tree(self, path: str) -> None: ...


class Site(Mounts):
    """One agent on a shared host; implements `bindings.ApplicationHost`.

    prefix: its path. names: host names at which it is served without the prefix, in lower case. started:
    waits until the host listens. at_root: it is served without the prefix at every name. It is served from
    `open` on.
    """

    def __init__(
        self,
        host: SharedHost,
        options: HostOptions,
        prefix: str,
        names: tuple[str, ...],
        started: Callable[[], Awaitable[None]],
        *,
        at_root: bool = False,
    ) -> None:
        super().__init__(options)
        self.prefix = canonical(prefix)
        #: see `bindings.ApplicationHost`; the card of a site follows the base URL of each request
        self.card: Callable[[str], hub.AgentCard] | None = None
        self._host = host
        self._site_names = names
        self._started = started
        #: False until the agent is mounted
        self._is_open = False
        self._at_root = at_root

    @property
    def address(self) -> ListenAddress:
        return self._host.address

    @property
    def trailers(self) -> bool | None:
        """Whether gRPC is possible; None for a host that is no ASGI application."""
        return getattr(self._host, "trailers", None)

    async def start(self) -> None:
        """Waits for the start of the host. Everything is mounted by then."""
        await self._started()
        self._is_open = True

    async def drain(self, grace: float) -> None:  # noqa: ARG002  the host waits for its requests
        """Answers further requests as UNAVAILABLE."""
        self.draining = True
        self._is_open = False

    def open(self) -> None:
        """Adds the site to its host. Raises ValueError for a path or a name that is taken."""
        taken = [name for name in self._site_names if name in self._host.names]
        if taken:
            raise ValueError(f"the host name {taken[0]} belongs to another agent")
        self._host.mount_tree(self.prefix, self._at_path)
        if self._at_root:
            self._host.mount_tree("", self._at_name)
        for name in self._site_names:
            self._host.names[name] = self._at_name

    def close(self) -> None:
        """Removes the site from its host."""
        self._host.unmount_tree(self.prefix)
        if self._at_root:
            self._host.unmount_tree("")
        for name in self._site_names:
            self._host.names.pop(name, None)

    async def _at_path(self, request: Request) -> Reply | StreamReply:
        path = request.path[len(self.prefix) :] or "/"
        return await self._answer(_BelowRequest(request, path, self.prefix))

    async def _at_name(self, request: Request) -> Reply | StreamReply:
        if f"{request.path}/".startswith(f"{self.prefix}/"):
            return await self._at_path(request)
        return await self._answer(request)

    async def _answer(self, request: Request) -> Reply | StreamReply:
        if not self._is_open and not request.path.endswith(("/livez", "/readyz")):
            error = A2AError(Reason.UNAVAILABLE, "the agent is not available", blame=Blame.SELF)
            return reject_logged(request, error)
        return await self.find(request.method, request.path)(request)


class _BelowRequest:
    """A request as a site below a path sees it; implements Request."""

    __slots__ = ("_prefix", "_request", "headers", "method", "path", "peer", "query")

    def __init__(self, request: Request, path: str, prefix: str) -> None:
        self._request = request
        self._prefix = prefix
        self.path = path
        self.method = request.method
        self.headers: Any = request.headers
        self.query = request.query
        self.peer = request.peer

    @property
    def stopping(self) -> bool:
        return self._request.stopping

    async def read(self) -> bytes:
        return await self._request.read()

    def parameters(self) -> Mapping[str, str]:
        return self._request.parameters()

    def certificate(self) -> bytes | None:
        return self._request.certificate()

    def base_url(self) -> str:
        return self._request.base_url() + self._prefix
