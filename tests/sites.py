"""HTTP servers of aiohttp in this process: agents, webhooks and proxies of plain HTTP. No tests."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def site(
    handlers: Handler | Mapping[str, Handler], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """The URL of a server, without a slash at its end.

    handlers: by path, or by method and path ("POST /token"); or one of everything.
    """
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
