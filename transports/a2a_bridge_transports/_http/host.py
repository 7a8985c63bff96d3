"""An HTTP listener on aiohttp's low-level server: limits, event streams, draining. It knows no binding.

Rules:
1. Responses are written as whole blocks of bytes: a cached serialized head, and the body.
2. A stream gathers the events that are ready into one write, waits for slow readers, and yields to other
   tasks.
3. Invalid Host and Transfer-Encoding headers that aiohttp accepts are refused before any handler is called.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from itertools import chain
from typing import cast

from aiohttp import web

from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.offload import SMALL
from a2a_bridge_transports._http.connection import Connection, Exchange, Server
from a2a_bridge_transports._http.events import EventWriter
from a2a_bridge_transports._http.exchange import HttpStatusError, Reply, StreamReply, refuse
from a2a_bridge_transports._http.mounts import Mounts
from a2a_bridge_transports._http.origin import Trust, is_host
from a2a_bridge_transports._http.written import Written, date, head

#: how long an idle connection is kept; longer than the 60 s of common proxies, which should close first
KEEP_CONNECTION = 75.0
#: how long the listener stays open once draining has begun, unless HostOptions.drain_window says otherwise
#: (seconds)
DRAIN_WINDOW = 0.5
#: seconds for connections with an incomplete request after that
LINGER = 0.5
#: seconds for clients to read their last answer
LAST_WORDS = 1.0

_VERSIONS = ((1, 1), (1, 0))


class HttpHost(Mounts):
    """One address, shared by all HTTP bindings; implements DocumentHost.

    Raises TypeError if `tls` is no ssl.SSLContext, ValueError if an entry of `trust_forwarded` is no address.
    """

    def __init__(self, address: ListenAddress, options: HostOptions) -> None:
        super().__init__(options)
        if options.tls is not None and not isinstance(options.tls, ssl.SSLContext):
            raise TypeError(f"tls of an HTTP host is an ssl.SSLContext, not {type(options.tls).__name__}")
        self.trust = Trust(options.trust_forwarded)
        self._address = address
        self._server: Server | None = None
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._hosts: set[str] = set()

    @property
    def address(self) -> ListenAddress:
        return self._address

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        options = self.options
        server = Server(
            self._handle,
            options.max_connections,
            keepalive_timeout=KEEP_CONNECTION,
            access_log=None,
            max_line_size=options.max_header,
            max_field_size=options.max_header,
            lingering_time=5.0,
            auto_decompress=False,
        )
        listen = partial(
            loop.create_server,
            server,
            backlog=options.backlog,
            ssl=options.tls,
            ssl_handshake_timeout=options.header_timeout if options.tls else None,
        )
        if options.listener is not None:
            self._listener = await listen(sock=socket.socket(fileno=options.listener))
        else:
            shared = options.reuse_port or None  # False is an error where the system has no SO_REUSEPORT
            self._listener = await listen(host=self._address.host, port=self._address.port, reuse_port=shared)
        self._server = server
        port = self._listener.sockets[0].getsockname()[1]
        self._address = ListenAddress(self._address.host, port)
        self._sweep_slow()

    async def drain(self, grace: float) -> None:
        """Fails the readiness probe, ends kept connections with their next answer, then closes the
        listener.
        """
        self.draining = True
        if self._listener is None or self._server is None:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        server = self._server
        await self._let_go(server, end)
        self._listener.close()
        linger = loop.time() + LINGER
        while connections := server.open_connections():
            now = loop.time()
            if now >= end:
                break
            for connection in connections:
                if connection.exchange is None and (connection.since is None or now >= linger):
                    connection.force_close()
            await asyncio.sleep(min(0.05, end - now))
        for connection in server.open_connections():
            if connection.exchange is not None:
                connection.exchange.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        transports = [connection.transport for connection in server.open_connections()]
        await server.shutdown(LAST_WORDS)
        self._listener = self._server = None
        last = loop.time() + LAST_WORDS
        unread = [transport for transport in transports if transport and transport.get_write_buffer_size()]
        while unread and loop.time() < last:
            await asyncio.sleep(0.05)
            unread = [transport for transport in unread if transport.get_write_buffer_size()]
        for transport in unread:
            transport.abort()  # a client that does not read would keep it open for ever

    async def _let_go(self, server: Server, end: float) -> None:
        """Waits while clients learn from `Connection: close` that their kept connections are about to end."""
        loop = asyncio.get_running_loop()
        window = self.options.drain_window
        until = min(end, loop.time() + (DRAIN_WINDOW if window is None else window))
        while (now := loop.time()) < until and (window is not None or server.open_connections()):  # noqa: ASYNC110
            await asyncio.sleep(min(0.05, until - now))

    def _sweep_slow(self) -> None:
        """Closes connections whose request head has been incomplete for too long; reschedules itself."""
        loop = asyncio.get_running_loop()
        timeout = self.options.header_timeout
        if self._server is not None:
            late = loop.time() - timeout
            for connection in self._server.open_connections():
                if connection.since is not None and connection.since < late:
                    connection.force_close()
        self._sweep = loop.call_later(timeout / 4, self._sweep_slow)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        connection.since = None
        exchange = connection.exchange = Exchange(self, request, connection)
        try:
            reply: Reply | StreamReply
            refusal = self._check(request)
            if refusal is None:
                reply = await self.find(exchange.method, exchange.path)(exchange)
            else:
                exchange.close = True
                reply = refuse(refusal)
            if isinstance(reply, Reply):
                await self._send(request, exchange, reply)
            else:
                exchange.release()
                await self._stream(request, exchange, reply)
        except ConnectionError:
            if request.transport is not None:
                raise
            exchange.close = True  # the client left during the write
        finally:
            exchange.release()
            connection.exchange = None
            connection.began = None
        return _CLOSE if exchange.close else _KEEP

    def _check(self, request: web.BaseRequest) -> A2AError | None:
        headers = request.headers
        host = headers.get("Host")
        if host not in self._hosts and not self._is_good_host(request, host):
            return A2AError(Reason.INVALID_REQUEST, "the Host header is not valid")
        if request.version not in _VERSIONS:  # a request line without a version is HTTP/0.9 to the parser
            text = "HTTP/1.0 and HTTP/1.1 are spoken here"
            return A2AError(Reason.INVALID_REQUEST, text)
        coding = headers.get("Transfer-Encoding")
        # HTTP/1.0 has no chunked bodies (RFC 9112 section 6.1): a proxy may frame such a request in another
        # way.
        if coding is not None and (coding.strip().lower() != "chunked" or request.version < (1, 1)):
            return A2AError(Reason.INVALID_REQUEST, "the Transfer-Encoding header is not valid")
        if sum(map(len, chain.from_iterable(request.raw_headers))) > self.options.max_header:
            return HttpStatusError(431, Reason.REQUEST_TOO_LARGE, "the request head is too large")
        return None

    def _is_good_host(self, request: web.BaseRequest, host: str | None) -> bool:
        if host is None:
            return request.version < (1, 1)
        if not is_host(host):
            return False
        if len(self._hosts) < 256:  # beyond a number, names made up by callers are not cached
            self._hosts.add(host)
        return True

    async def _send(self, request: web.BaseRequest, exchange: Exchange, reply: Reply) -> None:
        transport = request.transport
        if transport is None:
            return
        exchange.close = exchange.close or self.draining
        body = reply.body
        status = reply.status
        if status in (204, 304):
            length = b""
            body = b""
        else:
            length = b"Content-Length: %d\r\n" % len(body)
            if request.method == "HEAD":
                body = b""
        if len(body) > SMALL:
            exchange.hold(len(body))
        first = head(status, reply.headers)
        transport.write(b"".join((first, date(), length, _connection(request, exchange), b"\r\n", body)))
        await request.writer.drain()

    async def _stream(self, request: web.BaseRequest, exchange: Exchange, reply: StreamReply) -> None:
        chunked = request.version >= (1, 1)
        if not chunked:
            exchange.close = True

        def begin(gap: bool) -> bytes:
            # Sent with the head; otherwise a client may reuse the connection at the moment it is closed.
            exchange.close = exchange.close or self.draining
            framing = b"Transfer-Encoding: chunked\r\n" if chunked else b""
            return b"".join(
                (
                    head(200, reply.headers(gap)),
                    date(),
                    framing,
                    _connection(request, exchange),
                    b"\r\n",
                )
            )

        writer = EventWriter(request, begin, self.options.keep_alive, chunked=chunked)
        failure = None
        try:
            failure = await writer.run(reply)
        finally:
            writer.release()
            await reply.source.aclose()
        if failure is not None:
            await self._send(request, exchange, failure)


_KEEP = Written(keep=True)
_CLOSE = Written(keep=False)


def _connection(request: web.BaseRequest, exchange: Exchange) -> bytes:
    if exchange.close:
        return b"Connection: close\r\n"
    return b"" if request.version >= (1, 1) else b"Connection: keep-alive\r\n"
