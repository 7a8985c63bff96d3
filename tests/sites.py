"""Servers in this process: of plain HTTP for agents, webhooks and proxies, and of a service. No tests."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from a2a_bridge.bindings.binding import HostOptions, ListenAddress, find
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def site(
    handlers: Handler | Mapping[str, Handler], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """The URL of a server. handlers: by path, or by method and path ("POST /token"); or one of everything."""
    application = web.Application(client_max_size=1 << 26)
    for place, handler in (handlers if isinstance(handlers, Mapping) else {"/{path:.*}": handlers}).items():
        method, _, path = place.rpartition(" ")
        application.router.add_route(method or "*", path, handler)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def listening(
    service: Service,
    binding: str,
    dialects: Sequence[Dialect] = (V1_0,),
    options: HostOptions | None = None,
    path: str = "",
) -> AsyncIterator[ListenAddress]:
    """The address of a started host with a service on one binding."""
    found = find(binding)
    host = found.host(ListenAddress(), options or HostOptions())
    found.mount(host, path, service, dialects)
    await host.start()
    try:
        yield host.address
    finally:
        await host.drain(0)
