"""Connections of the HTTP listener and the requests on them. It mounts nothing and writes no response.

It adds the limits that aiohttp lacks: heads and bodies that come too slowly, bodies that are too large; and
it replaces aiohttp's own error texts.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Task
from collections.abc import Mapping
from http import HTTPStatus
from itertools import chain
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import _ErrInfo

from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.core.errors import A2AError, Reason, internal_error, request_too_large
from a2a_bridge.memory import HoldsInWork
from a2a_bridge.offload import SMALL
from a2a_bridge_transports._http.exchange import HttpStatusError, refuse
from a2a_bridge_transports._http.mounts import without_empty_start
from a2a_bridge_transports._http.origin import Trust, base_url
from a2a_bridge_transports._http.parameters import HeaderParameters, check_encoding
from a2a_bridge_transports._http.written import last_response

_log = logging.getLogger("a2a_bridge.http")

#: maximum heads after which a block of data is split
MOST_SPLITS = 8
#: bytes of chunk extensions in one request; they have no use, and do not count as body
MOST_EXTENSIONS = 4096
#: bytes that frame one chunk without extensions: its length in hexadecimal and two line ends
_CHUNK_FRAME = 24

#: bodies slower than this are refused (bytes a second, after the header deadline has passed once more)
SLOWEST_BODY = 1024


class Owner(Protocol):
    """The members of the host that a request needs."""

    options: HostOptions
    draining: bool
    trust: Trust

    @property
    def address(self) -> ListenAddress: ...


class Connection(web.RequestHandler):
    """A connection that knows since when the rest of a request head is missing."""

    __slots__ = ("_server", "began", "exchange", "peer", "received", "since")

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self.exchange: Exchange | None = None
        self.since: float | None = None
        self.peer = ""
        #: bytes received
        self.received = 0
        #: bytes received before the present request; None if that came together with an earlier one
        self.began: int | None = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._server.has_room():
            self.force_close()
            return
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        self.since = self._loop.time()

    def data_received(self, data: bytes) -> None:
        if data and self.exchange is None:
            if self.since is None:
                self.since = self._loop.time()
                self.began = self.received
            # Otherwise valid requests in the same block as a malformed one would be dropped with it.
            for _ in range(MOST_SPLITS):
                cut = data.find(b"\r\n\r\n") + 4
                if cut < 4 or cut == len(data):
                    break
                self.received += cut
                super().data_received(data[:cut])
                data = data[cut:]
        self.received += len(data)
        super().data_received(data)
        if self.exchange is not None and self.is_malformed:
            self.exchange.cut_off()

    @property
    def is_malformed(self) -> bool:
        """Whether the last data could not be parsed. aiohttp queues an error as if it were a request, also if
        the data belongs to the body of the current one.
        """
        return bool(self._messages) and isinstance(self._messages[-1][0], _ErrInfo)

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answers requests that aiohttp could not parse, without its text: that quotes the request and names
        classes.
        """
        # Its text quotes the client's data, perhaps a malformed line with credentials.
        _log.debug("refused a request from %s: %s", self.peer, type(exc).__name__)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("a request from %s failed", self.peer, exc_info=exc)
            error: A2AError = internal_error()
        elif isinstance(exc, LineTooLong):
            error = HttpStatusError(431, Reason.REQUEST_TOO_LARGE, "the request head is too large")
        else:
            error = A2AError(Reason.INVALID_REQUEST, "this is not valid HTTP")
        return last_response(refuse(error))


class Server(web.Server):
    """aiohttp's server with this module's connections."""

    def __init__(self, handler: Any, max_connections: int, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._max_connections = max_connections
        self._options = options
        self._full = False

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._options)

    def has_room(self) -> bool:
        """True if the newest connection is within the limit. Logs once that it is not, until there is room
        again.
        """
        full = 0 < self._max_connections < len(self.connections)
        if full and not self._full:
            _log.warning("refusing connections: %d are open, which is the limit", self._max_connections)
        self._full = full
        return not full

    def open_connections(self) -> list[Connection]:
        return cast("list[Connection]", self.connections)


class Exchange(HoldsInWork):
    """One request on a connection; implements Request."""

    __slots__ = (
        "_host",
        "_is_cut_off",
        "_request",
        "close",
        "connection",
        "headers",
        "method",
        "path",
        "peer",
        "query",
        "stopping",
        "task",
    )

    def __init__(self, host: Owner, request: web.BaseRequest, connection: Connection) -> None:
        self._host = host
        self._request = request
        self.connection = connection
        self.peer = connection.peer
        self.method: str = request.method
        self.headers: Mapping[str, str] = request.headers
        target = request.raw_path
        if target[:1] != "/":  # absolute form, as proxies send it, or "*"
            target = request.rel_url.raw_path_qs
        path, _, self.query = target.partition("?")
        self.path = without_empty_start(path)
        self.stopping = False
        self._held = 0
        self._is_cut_off = False
        self.close = host.draining or not request.keep_alive
        self.task: Task[Any] | None = asyncio.current_task()

    def parameters(self) -> Mapping[str, str]:
        return HeaderParameters(self._request.headers)

    def base_url(self) -> str:
        scheme = "https" if self.connection.ssl_context else "http"
        host = self.headers.get("Host") or str(self._host.address)
        return base_url(scheme, host, "", self.headers, trusted=self.connection.peer in self._host.trust)

    async def read(self) -> bytes:
        if "Content-Encoding" in self.headers:
            check_encoding(self.headers)
        content = self._request.content
        limit = self._host.options.max_body
        if "Transfer-Encoding" not in self.headers and content.is_eof():
            body = content.read_nowait()
            if len(body) > limit:
                raise self._too_large()
            if len(body) > SMALL:
                self.hold(len(body))
            return body
        if (self._request.content_length or 0) > limit:
            raise self._too_large()
        if self.headers.get("Expect", "").lower() == "100-continue" and self.connection.transport is not None:
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.connection.is_malformed:
            self.cut_off()
        parts: list[bytes] = []
        size = chunks = 0
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._host.options.header_timeout
        try:
            while not content.at_eof():
                async with asyncio.timeout_at(patience + size / SLOWEST_BODY):
                    part, ended = await content.readchunk()
                size += len(part)
                self.hold(len(part))
                chunks += ended
                if size > limit:
                    raise self._too_large()
                if size == content.total_bytes:
                    self._check_extensions(size, chunks)
                parts.append(part)
            self._check_extensions(size, chunks)
        except TimeoutError:
            self.close = True
            raise A2AError(Reason.INVALID_REQUEST, "the body came too slowly") from None
        except web.RequestPayloadError:
            self._is_cut_off = True
        if self._is_cut_off:
            self.close = True
            raise A2AError(Reason.INVALID_REQUEST, "the body is not framed correctly")
        return b"".join(parts)

    def cut_off(self) -> None:
        """Ends the wait for the rest of the body: it is not framed correctly."""
        content = self._request.content
        if not content.is_eof():
            self._is_cut_off = True
            # An exception would be logged by aiohttp, which reads on after the answer.
            content.feed_eof()

    def _check_extensions(self, size: int, chunks: int) -> None:
        """Raises INVALID_REQUEST if the chunk extensions of a body of this size are too long."""
        began = self.connection.began
        if began is None or "Transfer-Encoding" not in self.headers:
            return
        head = sum(map(len, chain.from_iterable(self._request.raw_headers))) + len(self._request.raw_path)
        framing = self.connection.received - began - head - size
        # One more chunk may have come than were seen, and a few blanks in the head were not counted.
        if framing > MOST_EXTENSIONS + _CHUNK_FRAME * (chunks + 2) + _CHUNK_FRAME * len(self.headers):
            self.close = True
            raise A2AError(Reason.INVALID_REQUEST, "the extensions of the body's chunks are too long")

    def stop(self) -> None:
        """Ends the call because the host stops; the handler tells the caller."""
        self.stopping = True
        if self.task is not None:
            self.task.cancel()

    def _too_large(self) -> A2AError:
        self.close = True
        return request_too_large(self._host.options.max_body)
