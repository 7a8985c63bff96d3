"""The listener for operators: metrics, probes and call counts, on an address of its own.

Rules:
1. It opens before the server and closes after it, so that it can tell that the server starts or drains.
2. It answers everyone who reaches it. Loopback, or a network of operators, is the place for it.
3. It serves documents only: no call reaches an agent over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Protocol, cast

from a2a_bridge.app.gauges import process_gauges
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import (
    ApplicationHost,
    DocumentHost,
    HostOptions,
    ListenAddress,
    Page,
    find,
    operator_options,
)
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.middleware.metrics import Gather

_TEXT = "text/plain; charset=utf-8"


class Admin:
    """The listener. address: where it listens."""

    def __init__(self, address: ListenAddress) -> None:
        self.address = address
        self._host_options: HostOptions | None = None
        self._is_draining: Callable[[], bool] = _never

    def started(self, options: HostOptions, is_draining: Callable[[], bool]) -> None:
        """The server is ready. options: of its hosts, which know whether it takes work."""
        self._host_options = options
        self._is_draining = is_draining

    @property
    def has_started(self) -> bool:
        """True once the server is ready."""
        return self._host_options is not None

    @property
    def is_ready(self) -> bool:
        """True while the server takes new work."""
        return self.rejection() is None

    def rejection(self) -> A2AError | None:
        """Why the server takes no new work; None while it does."""
        options = self._host_options
        if options is None:
            return A2AError(Reason.UNAVAILABLE, "starting", blame=Blame.SELF)
        if self._is_draining():
            return A2AError(Reason.UNAVAILABLE, "draining", blame=Blame.SELF)
        return options.rejection() if options.rejection is not None else None

    def status(self) -> dict[str, int]:
        """Figures for `/readyz?verbose`."""
        options = self._host_options
        return {} if options is None or options.status is None else dict(options.status())


@asynccontextmanager
async def admin_listener(options: ServeOptions) -> AsyncIterator[Admin | None]:
    """The listener of `options.admin` while the context is open; None without one. Raises OSError."""
    if options.admin is None:
        yield None
        return
    admin = Admin(options.admin)
    host_options = replace(operator_options(options.admin), rejection=admin.rejection, status=admin.status)
    host = cast("DocumentHost", find("JSONRPC").host(options.admin, host_options))
    metrics, usage = options.metrics, options.usage
    if metrics is not None:

        async def exposition(accept: str) -> Page:
            kind, body = await metrics.exposition(accept)
            return Page(200, kind, body)

        host.show("/metrics", exposition)
    if usage is not None:
        host.publish("/usage", lambda _: dumps(usage.document()))

    async def startup(_accept: str) -> Page:
        return Page(200, _TEXT, b"ok\n") if admin.has_started else Page(503, _TEXT, b"starting\n")

    host.show("/startupz", startup)
    await host.start()
    admin.address = host.address
    try:
        yield admin
    finally:
        await host.drain(0)


class Draining(Protocol):
    """A server, or an application in place of its listeners."""

    admin: ListenAddress | None

    @property
    def draining(self) -> bool:
        """True once it has begun to drain."""
        ...


@asynccontextmanager
async def announce(
    server: Draining,
    options: ServeOptions,
    admin: Admin | None,
    host: ApplicationHost | None,
    gauges: Gather | None,
    *,
    whole: bool = True,
) -> AsyncIterator[None]:
    """Tells the listener for operators that a server is ready, and adds gauges to the metrics, while the
    context is open.

    admin: the listener, if it is open already. whole: False for one of several agents of a server. Raises
    OSError.
    """
    async with AsyncExitStack() as stack:
        if admin is None:
            admin = await stack.enter_async_context(admin_listener(options))
        holders = [server] if host is None else [server, host]

        def is_draining() -> bool:
            return any(holder.draining for holder in holders)

        known = admin or Admin(ListenAddress())
        known.started(options.host, is_draining)
        if admin is not None:
            for holder in holders:
                holder.admin = admin.address
        if options.metrics is not None:
            process = process_gauges(lambda: known.is_ready) if whole else None
            for source in filter(None, (process, gauges)):
                stack.callback(options.metrics.watch(source))
        if whole and options.authentication is not None:
            # In the background: a provider that is down does not keep the server from starting.
            opening = asyncio.create_task(options.authentication.open(), name="read keys")
            stack.callback(opening.cancel)
        yield


def _never() -> bool:
    return False
