"""An HTTP/1.1 listener: its connections, limits and draining, and its requests. It knows no binding.

Rules:
1. One sweep looks at the deadlines of all connections, so that none of them needs a timer.
2. Host, version and Transfer-Encoding are checked before any handler is called.
3. Draining tells clients with `Connection: close` before it closes the listener.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

from a2a_bridge.bindings.asgi import Scope
from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.core.addresses import Trust
from a2a_bridge.core.errors import A2AError, Reason, internal_error
from a2a_bridge_transports._http.accepting import LAST_ACCEPT, Backlog, accept_last
from a2a_bridge_transports._http.application import SPECIFICATION, Answering, Head, client_chain
from a2a_bridge_transports._http.events import EventWriter
from a2a_bridge_transports._http.exchange import (
    CHUNKED,
    CLOSE,
    HOST,
    KEEP,
    TRANSFER_ENCODING,
    Answer,
    ApplicationReply,
    Reply,
    StreamReply,
    date,
    reject,
    reject_logged,
    response,
)
from a2a_bridge_transports._http.exchange import head as status_line
from a2a_bridge_transports._http.incoming import Incoming
from a2a_bridge_transports._http.mounts import without_empty_start
from a2a_bridge_transports._http.parameters import HeaderParameters, base_url, is_host, is_local_name
from a2a_bridge_transports._http.protocol import Connection, ConnectionHost
from a2a_bridge_transports._http.sse import run_flushing

_log = logging.getLogger("a2a_bridge.http")

#: seconds that the listener stays open while the host drains, unless HostOptions.drain_window says otherwise
DRAIN_WINDOW = 0.5
#: seconds for connections with an incomplete request after that, in steps of _STEP. Steps count, and not the
#: clock, which goes on while a busy machine lets this process stand still and read nothing
LINGER = 0.5
_STEP = 0.05
#: seconds for clients to read their last response
LAST_WORDS = 1.0
#: how long asyncio waits for the end of a TLS connection (seconds): no less than a slow client needs to read
#: the rest of its response. `Connection.end_late` is what ends one that does not read
_TLS_SHUTDOWN = 24 * 3600.0
#: Host headers that are remembered as valid; callers choose them
_REMEMBERED = 256


class HttpHost(ConnectionHost):
    """One address, shared by all HTTP bindings; implements DocumentHost. Raises TypeError if `tls` is no
    ServerTls and no ssl.SSLContext, ValueError if an entry of `trust_forwarded` is no address.
    """

    def __init__(self, address: ListenAddress, options: HostOptions) -> None:
        super().__init__(options)
        if options.tls is not None and not isinstance(options.tls, ServerTls | ssl.SSLContext):
            name = type(options.tls).__name__
            raise TypeError(f"tls of an HTTP host is a ServerTls or ssl.SSLContext, not {name}")
        self.trust = Trust(options.trust_forwarded)
        self.begin = partial(HostRequest, self)
        self._address = address
        self._listener: asyncio.Server | None = None
        self._backlog: Backlog | None = None
        #: valid Host headers → the base URL; empty if the headers of proxies count, too
        self.bases: dict[str, str] = {}
        #: True when draining is over
        self._is_closed = False

    @property
    def address(self) -> ListenAddress:
        return self._address

    async def start(self) -> None:
        await self.start_applications()
        try:
            await self._listen()
        except BaseException:
            await self.stop_applications()
            raise

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        options = self.options
        self.context = contextvars.copy_context()
        make = partial(Connection, self)
        tls: dict[str, Any] = {}
        if options.tls:
            tls = {
                "ssl": options.tls.context() if isinstance(options.tls, ServerTls) else options.tls,
                "ssl_handshake_timeout": options.header_timeout,
                "ssl_shutdown_timeout": _TLS_SHUTDOWN,
            }
        listen = partial(loop.create_server, make, backlog=options.backlog, **tls)
        if options.listener is not None:
            self._listener = await listen(sock=socket.socket(fileno=options.listener.descriptor))
        else:
            shared = options.reuse_port or None  # False is an error where the system has no SO_REUSEPORT
            self._listener = await listen(host=self._address.host, port=self._address.port, reuse_port=shared)
        self._backlog = Backlog.of(self._listener, make, tls)
        port = self._listener.sockets[0].getsockname()[1]
        self._address = ListenAddress(self._address.host, port)
        self._sweep_late()

    async def drain(self, grace: float) -> None:
        """Fails the readiness probe, ends kept connections with their next response, closes the listener."""
        self.retire()
        listener, self._listener = self._listener, None
        if listener is None:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        timers = self.end_calls_after(grace)
        await self._let_go(end)
        await self._accept_last(listener)
        lingered = 0.0
        while self.connections or self.answering:
            now = loop.time()
            if now >= end:
                break
            for connection in list(self.connections):
                if connection.is_idle or (connection.request is None and lingered >= LINGER):
                    connection.close()
                connection.hurry()
                connection.end_late(now)
            await asyncio.sleep(min(_STEP, end - now))
            lingered += _STEP
        for timer in timers:
            timer.cancel()
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            if connection.is_full:
                connection.abort()  # its client does not read, so last words would not reach it
        await self._end_requests()
        for connection in list(self.connections):
            connection.close()
        last = loop.time() + LAST_WORDS
        while self.connections and loop.time() < last:  # noqa: ASYNC110  a set has no event
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()  # a client that does not read would keep it open for ever
        await self.stop_applications()

    async def _let_go(self, end: float) -> None:
        """Waits while clients learn from `Connection: close` that their kept connections are about to end."""
        loop = asyncio.get_running_loop()
        window = self.options.drain_window
        until = min(end, loop.time() + (DRAIN_WINDOW if window is None else window))
        while (now := loop.time()) < until and (window is not None or self.connections):  # noqa: ASYNC110
            await asyncio.sleep(min(0.05, until - now))

    async def _accept_last(self, listener: asyncio.Server) -> None:
        """Closes the listener. Accepts the connections that the system has made, which it would reset."""
        await accept_last(listener, self.options.listener)
        if self._backlog is not None:
            self._backlog.close()
        listener.close()
        await asyncio.sleep(LAST_ACCEPT)  # a connection is known here some turns after it is accepted

    async def _end_requests(self) -> None:
        """Ends the requests in progress. Their clients get an error, if they read."""
        for is_first in (True, False):
            requests = {found for connection in self.connections if (found := connection.request) is not None}
            # Applications may be at work after the end of their response or connection.
            requests |= {cast("Incoming", answering.request) for answering in self.answering}
            tasks = [request.task for request in requests if request.task is not None]
            for request in requests:
                (request.stop if is_first else request.cancel)()
            if tasks:
                await asyncio.wait(tasks, timeout=LAST_WORDS)

    def has_room(self) -> bool:
        if self._is_closed:
            return False  # a TLS handshake may have begun before the listener was closed
        if self._backlog is not None:
            self._backlog.on_open()
        return super().has_room()

    def check(self, request: HostRequest) -> A2AError | None:
        """Why a request is rejected before any handler sees it; None if it is not."""
        headers = request.headers
        hosts = headers.getall(HOST, ())
        is_known = len(hosts) == 1 and hosts[0] in self.bases
        if not is_known and not self._is_good_host(hosts, request.version):
            return A2AError(Reason.INVALID_REQUEST, "the Host header is not valid")
        if request.version not in ("1.1", "1.0"):  # without one in the request line it is HTTP/0.9
            return A2AError(Reason.INVALID_REQUEST, "HTTP/1.0 and HTTP/1.1 are spoken here")
        if TRANSFER_ENCODING in headers:
            # HTTP/1.0 has no chunked bodies (RFC 9112, 6.1): a proxy may frame the request otherwise.
            codings = [coding.lower() for coding in headers.getall(TRANSFER_ENCODING)]
            if codings != ["chunked"] or request.version == "1.0":
                return A2AError(Reason.INVALID_REQUEST, "the Transfer-Encoding header is not valid")
        return None

    def _is_good_host(self, hosts: Sequence[str], version: str) -> bool:
        if len(hosts) != 1:
            return not hosts and version == "1.0"  # which does not require it
        if not is_host(hosts[0]) or (self.options.local_names and not is_local_name(hosts[0])):
            return False
        if len(self.bases) < _REMEMBERED:
            scheme = "https" if self.options.tls is not None else "http"
            self.bases[hosts[0]] = "" if self.options.trust_forwarded else f"{scheme}://{hosts[0]}"
        return True


class HostRequest(Incoming):
    """A request whose head is complete; implements Request. The connection calls `answer`, once."""

    __slots__ = ("_host", "_is_chunked", "method", "path", "peer", "query")

    _connection: Connection

    def __init__(self, host: HttpHost, connection: Connection) -> None:
        parser = connection.parser
        self._connection = connection
        self._host = host
        self.peer = connection.peer
        self.method = parser.method
        self.headers = parser.headers
        target = parser.target
        if target[:1] != "/":
            authority, target = split_target(target)
            if authority and len(self.headers.getall(HOST, ())) == 1:
                self.headers[HOST] = authority  # which replaces the header (RFC 9112 section 3.2.2)
        path, _, self.query = target.partition("?")
        self.path = without_empty_start(path) if path.startswith("//") else path
        self.version = parser.version
        self.close = host.draining or not parser.keep_alive
        self.stopping = False
        self.started = False
        self.application = None
        #: True if the parts of an application's response are chunks
        self._is_chunked = False
        self.task = None
        self._held = 0
        self._arrived = None
        self._patience = self._waited = 0.0
        self._wants_part = False
        self._failure = None

    def parameters(self) -> Mapping[str, str]:
        return HeaderParameters(self.headers)

    def certificate(self) -> bytes | None:
        transport = self._connection.transport
        found = transport.get_extra_info("ssl_object") if transport is not None else None
        return None if found is None else cast("bytes | None", found.getpeercert(binary_form=True))

    def base_url(self) -> str:
        named = self.headers.get(HOST) or str(self._host.address)
        known = self._host.bases.get(named)
        if known:
            return known
        scheme = "https" if self._host.options.tls is not None else "http"
        return base_url(scheme, named, "", self.headers, trusted=self.peer in self._host.trust)

    async def answer(self) -> None:
        connection = self._connection
        if self.task is None:  # its first step is done while it is made
            self.task = asyncio.current_task()
        try:
            if connection.transport is None:
                return
            rejection = self._host.check(self)
            reply: Answer
            if rejection is None:
                host = self._host
                handler = host.find_handler(self) if host.names else host.find(self.method, self.path)
                reply = await handler(self)
            else:
                self.close = True
                reply = reject_logged(self, rejection)
            if isinstance(reply, Reply):
                self._send(reply)
                if connection.is_full:
                    await connection.drain()
                return
            if isinstance(reply, ApplicationReply):
                failure = await Answering(self, reply, self._host.answering).run()
            else:
                self.release()
                writer = self._writer(reply)
                try:
                    failure = await run_flushing(writer.run(reply), writer)
                finally:
                    await reply.source.aclose()
            if failure is not None:
                self._send(failure)
        except asyncio.CancelledError:
            self.close = True
            if connection.transport is not None:
                raise
            _log.debug("a client left before its answer was complete")
        except (Exception, SystemExit, KeyboardInterrupt):  # noqa: BLE001  handlers raise none; it must not reach the client or the loop
            self.close = True
            if connection.transport is None:
                _log.debug("a request failed after its client had left", exc_info=True)
                return
            _log.exception("a request from %s failed", self.peer)
            if not self.started:
                self._send(reject(internal_error()))
        finally:
            self.task = None
            # As `_finish`, which would be a call more for each request.
            if self._held:
                self.release()
            if self._connection.request is self:
                self._connection.on_answered(keep=not self.close)

    def _finish(self) -> None:
        """The response has been sent, or does not come. An application may still be at work after it."""
        if self._held:
            self.release()
        connection = self._connection
        if connection.request is self:
            connection.on_answered(keep=not self.close)

    def _send(self, reply: Reply) -> None:
        if len(reply.body) > SMALL:
            self.hold(len(reply.body))
        data = response(reply, self._persistence(), without_body=self.method == "HEAD")
        self.started = True
        transport = self._connection.transport
        if transport is not None:
            transport.write(data)

    def _persistence(self) -> bytes:
        """The Connection header. The connection ends if the host drains, or some of the body is unread."""
        if self.close or self._host.draining or not self._connection.parser.complete:
            self.close = True
            return CLOSE
        return b"" if self.version == "1.1" else KEEP

    def listen(self) -> None:
        """The connection tells by itself that the client has left."""

    def application_scope(self, root: str) -> Scope:
        connection = self._connection
        transport, host = connection.transport, self._host
        client = transport.get_extra_info("peername") if transport is not None else None
        certificate = self.certificate() if host.options.tls is not None else None
        address = host.address
        return {
            "type": "http",
            "asgi": SPECIFICATION,
            "http_version": self.version,
            "server": (address.host, address.port),
            "client": tuple(client[:2]) if isinstance(client, tuple) else None,
            "scheme": self.base_url().partition(":")[0],
            "method": self.method,
            "root_path": unquote(root) if "%" in root else root,
            "path": unquote(self.path) if "%" in self.path else self.path,
            "raw_path": self.path.encode("utf-8", "surrogateescape"),
            "query_string": self.query.encode("utf-8", "surrogateescape"),
            "headers": [
                (name.lower().encode(), value.encode("utf-8", "surrogateescape"))
                for name, value in self.headers.items()
            ],
            "extensions": {} if certificate is None else {"tls": client_chain(certificate)},
        }

    async def put_part(self, head: Head | None, data: bytes, *, more: bool) -> None:
        connection = self._connection
        transport = connection.transport
        # See `Connection.write`: a lost connection is reported in the next turn of the loop.
        if transport is None or (transport.is_closing() and not transport.get_write_buffer_size()):
            raise ConnectionResetError("the client has left")
        first = b""
        if head is not None:
            first = self._first(head, more=more)
            self.started = True
            if more:
                self.release()
                if connection.parser.complete:
                    connection.parser.release()  # a stream may last for hours
        if self._is_chunked:
            end = b"" if more else b"0\r\n\r\n"
            data = b"%b%x\r\n%b\r\n%b" % (first, len(data), data, end) if data else first + end
        elif first:
            data = first + data
        if data:
            transport.write(data)
        if connection.is_full:
            await connection.drain(len(data))
            if connection.transport is None:
                raise ConnectionResetError("the client has left")
        if not more:
            self._finish()

    def _first(self, head: Head, *, more: bool) -> bytes:
        """The head of an application's response, with the empty line after it."""
        framing = b""
        if head.length is not None and head.status != HTTPStatus.NO_CONTENT:
            framing = b"Content-Length: %d\r\n" % head.length
        elif head.has_body and more and self.version == "1.1":
            self._is_chunked, framing = True, CHUNKED
        elif head.has_body and more:
            self.close = True
        lines = b"".join([b"%b: %b\r\n" % line for line in head.headers])
        return b"".join((status_line(head.status, ()), lines, date(), framing, self._persistence(), b"\r\n"))

    def break_off(self, error: BaseException) -> None:  # noqa: ARG002  an ASGI host raises it
        self.close = True
        if not self._is_chunked:
            self._connection.reset()  # to an HTTP/1.0 client the end of the connection is that of the body

    def _writer(self, reply: StreamReply) -> EventWriter:
        chunked = self.version == "1.1"
        if not chunked:
            self.close = True

        def begin(gap: bool) -> bytes:
            # Sent with the head; otherwise a client may reuse the connection at the moment it is closed.
            headers = status_line(200, reply.headers(gap=gap))
            self.started = True
            return b"".join((headers, date(), CHUNKED if chunked else b"", self._persistence(), b"\r\n"))

        if self._connection.parser.complete:
            self._connection.parser.release()  # a stream may last for hours
        return EventWriter(self._connection, begin, self._host.options.keep_alive, chunked=chunked)


def split_target(target: str) -> tuple[str, str]:
    """Authority, and path with query, of a target in absolute form, as proxies send it. Other targets without
    a slash at their start have no authority.
    """
    _, separator, rest = target.partition("://")
    if not separator:
        return "", target  # "*", or the authority of a CONNECT
    at = min((place for place in map(rest.find, "/?") if place >= 0), default=len(rest))
    return rest[:at], rest[at:] if rest[at : at + 1] == "/" else "/" + rest[at:]
