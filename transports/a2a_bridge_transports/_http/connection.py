"""Connections of the HTTP listener and the requests on them. It mounts nothing and writes no response.

What aiohttp lets pass is caught here: heads and bodies that come too slowly, bodies that are too large, and
its own words for what it could not parse.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Task
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.core.errors import A2AError, Reason, internal_error, request_too_large
from a2a_bridge_transports._http.exchange import Refusal, refuse
from a2a_bridge_transports._http.mounts import without_empty_start
from a2a_bridge_transports._http.origin import Trust, base_url
from a2a_bridge_transports._http.parameters import HeaderParameters, check_encoding

_log = logging.getLogger("a2a_bridge.http")

#: a body slower than this is not waited for (bytes a second, after the header deadline has passed once more)
SLOWEST_BODY = 1024


class Owner(Protocol):
    """What a request has to know of its host."""

    options: HostOptions
    draining: bool
    trust: Trust

    @property
    def address(self) -> ListenAddress: ...


class Connection(web.RequestHandler):
    """A connection that knows since when it has owed us the rest of a request head."""

    __slots__ = ("exchange", "peer", "since")

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server, **options)
        self.exchange: Exchange | None = None
        self.since: float | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        self.since = self._loop.time()

    def data_received(self, data: bytes) -> None:
        if data and self.since is None and self.exchange is None:
            self.since = self._loop.time()
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answers what aiohttp could not parse, without its text: that quotes the request and names classes."""
        _log.debug("refused a request from %s: %s", self.peer, exc)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("a request from %s failed", self.peer, exc_info=exc)
            error: A2AError = internal_error()
        elif isinstance(exc, LineTooLong):
            error = Refusal(431, Reason.REQUEST_TOO_LARGE, "the request head is too large")
        else:
            error = A2AError(Reason.INVALID_REQUEST, "this is not valid HTTP")
        reply = refuse(error)
        response = web.Response(status=reply.status, headers=dict(reply.headers), body=reply.body)
        response.force_close()
        return response


class Server(web.Server):
    """aiohttp's server with our connections."""

    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._options = options

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._options)

    def open_connections(self) -> list[Connection]:
        return cast("list[Connection]", self.connections)


class Exchange:
    """One request on a connection; implements Request."""

    __slots__ = (
        "_host",
        "_request",
        "close",
        "connection",
        "headers",
        "method",
        "path",
        "query",
        "stopping",
        "task",
    )

    def __init__(self, host: Owner, request: web.BaseRequest, connection: Connection) -> None:
        self._host = host
        self._request = request
        self.connection = connection
        self.method: str = request.method
        self.headers: Mapping[str, str] = request.headers
        target = request.raw_path
        if target[:1] != "/":  # absolute form, as proxies send it, or "*"
            target = request.rel_url.raw_path_qs
        path, _, self.query = target.partition("?")
        self.path = without_empty_start(path)
        self.stopping = False
        self.close = host.draining or not request.keep_alive
        self.task: Task[Any] | None = asyncio.current_task()

    @property
    def peer(self) -> str:
        return self.connection.peer

    def parameters(self) -> Mapping[str, str]:
        return HeaderParameters(self._request.headers)

    def base_url(self) -> str:
        scheme = "https" if self.connection.ssl_context else "http"
        host = self.headers.get("Host") or str(self._host.address)
        return base_url(scheme, host, "", self.headers, trusted=self.peer in self._host.trust)

    async def read(self) -> bytes:
        check_encoding(self.headers)
        content = self._request.content
        limit = self._host.options.max_body
        if content.is_eof():
            body = content.read_nowait()
            if len(body) > limit:
                raise self._too_large()
            return body
        if (self._request.content_length or 0) > limit:
            raise self._too_large()
        if self.headers.get("Expect", "").lower() == "100-continue" and self.connection.transport is not None:
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        parts: list[bytes] = []
        size = 0
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._host.options.header_timeout
        try:
            while not content.at_eof():
                async with asyncio.timeout_at(patience + size / SLOWEST_BODY):
                    part = await content.readany()
                size += len(part)
                if size > limit:
                    raise self._too_large()
                parts.append(part)
        except TimeoutError:
            self.close = True
            raise A2AError(Reason.INVALID_REQUEST, "the body came too slowly") from None
        except web.RequestPayloadError:
            self.close = True
            raise A2AError(Reason.INVALID_REQUEST, "the body is not framed correctly") from None
        return b"".join(parts)

    def stop(self) -> None:
        """Ends the call because the host does; whoever runs it tells the caller."""
        self.stopping = True
        if self.task is not None:
            self.task.cancel()

    def _too_large(self) -> A2AError:
        self.close = True
        return request_too_large(self._host.options.max_body)
