"""One request of the HTTP listener, from its head to the last byte of its response. It reads no sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

from multidict import CIMultiDict

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.bindings.memory import HoldsInWork
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge.core.addresses import Trust
from a2a_bridge.core.errors import A2AError, Reason, internal_error, request_too_large
from a2a_bridge_transports._http.events import EventWriter
from a2a_bridge_transports._http.exchange import (
    CHUNKED,
    CLOSE,
    CONTENT_ENCODING,
    CONTINUE,
    HOST,
    KEEP,
    SLOWEST_BODY,
    Handler,
    HttpStatusError,
    Reply,
    StreamReply,
    body_too_slow,
    date,
    head,
    reject,
    reject_logged,
    response,
)
from a2a_bridge_transports._http.mounts import without_empty_start
from a2a_bridge_transports._http.parameters import HeaderParameters, base_url, check_encoding
from a2a_bridge_transports._http.protocol import READ_AHEAD, Connection
from a2a_bridge_transports._http.sse import run_flushing

_log = logging.getLogger("a2a_bridge.http")


class Owner(Protocol):
    """The members of the host that a request needs."""

    options: HostOptions
    draining: bool
    trust: Trust
    #: Host header → base URL, as far as it is known without the other headers
    bases: dict[str, str]

    @property
    def address(self) -> ListenAddress: ...

    #: handlers of whole host names
    names: dict[str, Handler]

    def find(self, method: str, path: str) -> Handler: ...

    def find_handler(self, request: HostRequest) -> Handler: ...

    def check(self, request: HostRequest) -> A2AError | None:
        """Why a request is rejected before any handler sees it; None if it is not."""
        ...


class HostRequest(HoldsInWork):
    """A request whose head is complete; implements Request. The connection calls `answer`, once."""

    __slots__ = (
        "_arrived",
        "_connection",
        "_host",
        "_is_cut_off",
        "_is_late",
        "_patience",
        "close",
        "headers",
        "method",
        "path",
        "peer",
        "query",
        "started",
        "stopping",
        "task",
        "version",
    )

    def __init__(self, host: Owner, connection: Connection) -> None:
        parser = connection.parser
        self._connection = connection
        self._host = host
        self.peer = connection.peer
        self.method = parser.method
        self.headers: CIMultiDict[str] = parser.headers
        target = parser.target
        if target[:1] != "/":
            authority, target = split_target(target)
            if authority and len(self.headers.getall(HOST, ())) == 1:
                self.headers[HOST] = authority  # which replaces the header (RFC 9112 section 3.2.2)
        path, _, self.query = target.partition("?")
        self.path = without_empty_start(path) if path.startswith("//") else path
        #: of HTTP, as RequestParser.version
        self.version = parser.version
        #: True if the connection is closed after the response
        self.close = host.draining or not parser.keep_alive
        self.stopping = False
        #: True if bytes of the response have been written
        self.started = False
        #: the task that answers, once it has begun
        self.task: asyncio.Task[Any] | None = None
        self._held = 0
        #: done when the handler need not wait for the body any more
        self._arrived: asyncio.Future[None] | None = None
        self._patience = 0.0
        self._is_late = False
        self._is_cut_off = False

    # ------------------------------------------------------------------ for handlers

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

    async def read(self) -> bytes:
        if CONTENT_ENCODING in self.headers:
            check_encoding(self.headers)
        parser = self._connection.parser
        if not parser.complete:
            await self._rest()
        if parser.size > self._host.options.max_body:
            raise self._too_large()
        body = parser.take_body()
        if len(body) > SMALL and not self._held:
            self.hold(len(body))
        return body

    async def _rest(self) -> None:
        """Waits until the body is complete. Raises A2AError if it is too large, too slow or malformed."""
        connection = self._connection
        parser = connection.parser
        limit = self._host.options.max_body
        if parser.size + parser.missing > limit:
            raise self._too_large()
        if self.headers.get("Expect", "").lower() == "100-continue" and self.version != "1.0":
            connection.write(CONTINUE)
        loop = asyncio.get_running_loop()
        self._patience = loop.time() + self._host.options.header_timeout
        self._arrived = loop.create_future()
        self.body_came()
        connection.resume_reading()
        try:
            await self._arrived
        finally:
            self._arrived = None
        if self._is_late:
            self.close = True
            raise body_too_slow()
        if self._is_cut_off:
            self.close = True
            raise HttpStatusError(400, Reason.INVALID_REQUEST, "the body is not framed correctly")

    def _too_large(self) -> A2AError:
        self.close = True
        return request_too_large(self._host.options.max_body)

    # ------------------------------------------------------------------ for the connection

    def body_came(self) -> None:
        """More of the body is there, or all of it."""
        connection = self._connection
        parser = connection.parser
        if self._arrived is None:
            if parser.size > READ_AHEAD and not parser.complete:
                connection.pause_reading()
            return
        self.hold(parser.size - self._held)
        connection.deadline = self._patience + parser.size / SLOWEST_BODY
        if parser.complete or self._is_cut_off or parser.size > self._host.options.max_body:
            self._wake()

    def cut_off(self) -> None:
        """The rest of the body is malformed."""
        self._is_cut_off = True
        self.body_came()

    def body_is_late(self) -> None:
        """The time for the rest of the body has passed."""
        self._is_late = True
        self._wake()

    def _wake(self) -> None:
        self._connection.deadline = float("inf")
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def cancel(self) -> None:
        """Ends the call because the client has left."""
        if self.task is not None:
            self.task.cancel()

    def stop(self) -> None:
        """Ends the call because the host stops; the handler tells the caller."""
        self.stopping = True
        self.cancel()

    async def answer(self) -> None:
        """Calls the handler and writes its response."""
        connection = self._connection
        if self.task is None:  # its first step is done while it is made
            self.task = asyncio.current_task()
        try:
            if connection.transport is None:
                return
            rejection = self._host.check(self)
            reply: Reply | StreamReply
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
        except Exception:  # noqa: BLE001  handlers raise none; it must not reach the client
            self.close = True
            if connection.transport is None:
                _log.debug("a request failed after its client had left", exc_info=True)
                return
            _log.exception("a request from %s failed", self.peer)
            if not self.started:
                self._send(reject(internal_error()))
        finally:
            if self._held:
                self.release()
            self.task = None
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

    def _writer(self, reply: StreamReply) -> EventWriter:
        chunked = self.version == "1.1"
        if not chunked:
            self.close = True

        def begin(gap: bool) -> bytes:
            # Sent with the head; otherwise a client may reuse the connection at the moment it is closed.
            headers = head(200, reply.headers(gap=gap))
            self.started = True
            return b"".join((headers, date(), CHUNKED if chunked else b"", self._persistence(), b"\r\n"))

        if self._connection.parser.complete:
            self._connection.parser.release()  # a stream may last for hours
        return EventWriter(self._connection, begin, self._host.options.keep_alive, chunked=chunked)


def split_target(target: str) -> tuple[str, str]:
    """The authority, and the path with the query, of a target in absolute form, as proxies send it. Other
    targets without a slash at their start have no authority.
    """
    _, separator, rest = target.partition("://")
    if not separator:
        return "", target  # "*", or the authority of a CONNECT
    at = min((place for place in map(rest.find, "/?") if place >= 0), default=len(rest))
    return rest[:at], rest[at:] if rest[at : at + 1] == "/" else "/" + rest[at:]
