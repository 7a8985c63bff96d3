"""The HTTP listener of a front: uvicorn, as the server of `serve_until_signal`.

The fronts are ASGI applications, so that they can be mounted elsewhere, and the listener of the bindings
serves services only.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import uvicorn

from a2a_bridge.cli.running import IDLE_TIMEOUT
from a2a_bridge.cli.server_flags import GatewayFlags
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.callers import Application, Message, Receive, Scope, Send


class _Server(uvicorn.Server):
    """A server that leaves signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    def capture_signals(self) -> Any:
        """Nothing is captured."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@dataclass(slots=True)
class Listener:
    """A running listener, for `app.process.ready_line`."""

    http: ListenAddress
    secure: bool
    server: _Server
    serving: asyncio.Task[None]
    draining: asyncio.Event
    grpc: None = None
    admin: None = None

    @property
    def cards(self) -> Mapping[str, hub.AgentCard]:
        """No cards: the addresses of the agent's own are not those of the front."""
        return {}

    async def drain(self, grace: float) -> None:
        """Lets requests end for `grace` seconds, and streams that clients only listen to at once. May be
        repeated.
        """
        if not self.draining.is_set():
            self.draining.set()
            # The server waits for so long, and then cancels what is left.
            self.server.config.timeout_graceful_shutdown = max(1, round(grace))
            self.server.should_exit = True
        await asyncio.wait({self.serving})


def bind(address: ListenAddress) -> socket.socket:
    """A socket that listens. Raises OSError for an address that cannot be used."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=1024)


@asynccontextmanager
async def listen(app: Application, bound: socket.socket, flags: GatewayFlags) -> AsyncIterator[Listener]:
    """Serves an application while the context is open. bound: listens; its owner closes it."""
    certificate = flags.ssl_certfile
    draining = asyncio.Event()
    config = uvicorn.Config(
        _ending_with(draining, app),
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(IDLE_TIMEOUT),
        limit_concurrency=flags.max_connections or None,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if flags.ssl_keyfile is None else str(flags.ssl_keyfile),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    listening = asyncio.create_task(server.listens.wait())
    await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if serving.done():
        await serving
    host, port = bound.getsockname()[:2]
    listener = Listener(ListenAddress(host, port), certificate is not None, server, serving, draining)
    try:
        yield listener
    finally:
        await listener.drain(flags.timeout_graceful_shutdown)


def _ending_with(draining: asyncio.Event, app: Application) -> Application:
    """An application for which the clients of GET requests leave when the listener drains: such a request of
    MCP is a stream that lasts as long as its session. Other requests have the time for draining.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def next_message() -> Message:
            coming = asyncio.ensure_future(receive())
            ending = asyncio.ensure_future(draining.wait())
            try:
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
                return coming.result() if coming.done() else {"type": "http.disconnect"}
            finally:
                coming.cancel()
                ending.cancel()

        open_body = False

        async def note_and_send(message: Message) -> None:
            nonlocal open_body
            is_body = message["type"] == "http.response.body"
            open_body = bool(message.get("more_body", False)) if is_body else True
            await send(message)

        if scope["type"] != "http" or scope["method"] != "GET":
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:
                # uvicorn ends requests after the time for draining, and logs a traceback of what they raise.
                if not draining.is_set():
                    raise
            return
        await app(scope, next_message, note_and_send)
        if open_body and draining.is_set():
            # To the application the client has left: the end of the response is still to be sent.
            await send({"type": "http.response.body", "body": b""})

    return application
