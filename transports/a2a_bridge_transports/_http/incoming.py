"""A request that a connection has read, while it is answered: its body, and the limits of that."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any, Protocol

from multidict import CIMultiDict

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.memory import HoldsInWork
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge.core.errors import A2AError, request_too_large
from a2a_bridge_transports._http.application import Answering
from a2a_bridge_transports._http.exchange import CONTENT_ENCODING, CONTINUE, SLOWEST_BODY, ClientLeftError
from a2a_bridge_transports._http.parameters import check_encoding
from a2a_bridge_transports._http.parser import RequestParser

#: bytes that are read ahead of the response, or of a handler that has not asked for the body
READ_AHEAD = 64 * 1024


class Listening(Protocol):
    """A host."""

    options: HostOptions


class Carrying(Protocol):
    """The connection of a request."""

    parser: RequestParser
    #: None if the client has left
    transport: asyncio.Transport | None
    #: when the time for the body has passed
    deadline: float

    @property
    def host(self) -> Listening: ...
    def write(self, data: bytes) -> None: ...
    def stop_reading(self) -> None: ...
    def read_on(self) -> None: ...
    def resume_writing(self) -> None: ...


class Incoming(HoldsInWork):
    """A request that is being answered, with its body. `__init__` of the subclass sets the members."""

    __slots__ = (
        "_arrived",
        "_connection",
        "_failure",
        "_patience",
        "_waited",
        "_wants_part",
        "application",
        "close",
        "headers",
        "started",
        "stopping",
        "task",
        "version",
    )

    _connection: Carrying
    #: done when the handler need not wait for the body any more
    _arrived: asyncio.Future[None] | None
    _patience: float
    #: seconds that the handler has waited for the body
    _waited: float
    #: True if the handler takes the body in parts
    _wants_part: bool
    #: why the rest of the body does not come
    _failure: A2AError | None
    headers: CIMultiDict[str]
    #: of HTTP, as RequestParser.version
    version: str
    #: what answers, if that is an application of ASGI
    application: Answering | None
    #: True if the connection is closed after the response
    close: bool
    #: True if bytes of the response have been written
    started: bool
    stopping: bool
    #: the task that answers, once it has begun
    task: asyncio.Task[Any] | None

    async def answer(self) -> None:
        """Writes the response, and calls `Connection.on_answered`."""
        raise NotImplementedError

    async def read(self) -> bytes:
        """The body; see `Request.read`."""
        if CONTENT_ENCODING in self.headers:
            check_encoding(self.headers)
        connection = self._connection
        parser = connection.parser
        if not parser.complete:
            await self._wait_for_body()
        if parser.size > connection.host.options.max_body:
            raise self._too_large()
        body = parser.take_body()
        if len(body) > SMALL and not self._held:
            self.hold(len(body))
        return body

    async def read_part(self) -> tuple[bytes, bool]:
        """The next bytes of the body, and whether more follow. Raises as `read`, but knows no encodings."""
        connection = self._connection
        parser = connection.parser
        if not (parser.complete or parser.has_part):
            self._wants_part = True
            await self._wait_for_body()
        if parser.size > connection.host.options.max_body:
            raise self._too_large()
        self.hold(parser.size - self._held if parser.size > SMALL else 0)
        return parser.take_body(), not parser.complete

    async def _wait_for_body(self) -> None:
        """Waits until the body, or a part of it, has come. Raises A2AError if it is too large, too slow or
        malformed, ClientLeftError.
        """
        connection = self._connection
        parser, options = connection.parser, connection.host.options
        if parser.size + parser.missing > options.max_body:
            raise self._too_large()
        loop = asyncio.get_running_loop()
        began = loop.time()
        if (
            not (self._waited or self.started)
            and self.headers.get("Expect", "").lower() == "100-continue"
            and self.version != "1.0"
        ):
            connection.write(CONTINUE)
        self._patience = began + options.header_timeout - self._waited
        self._arrived = loop.create_future()
        self.body_came()
        connection.read_on()
        try:
            await self._arrived
        finally:
            self._arrived = None
            connection.deadline = inf
            self._waited += loop.time() - began
        if connection.transport is None:
            raise ClientLeftError
        if self._failure is not None:
            self.close = True
            raise self._failure

    def _too_large(self) -> A2AError:
        self.close = True
        return request_too_large(self._connection.host.options.max_body)

    def body_came(self) -> None:
        """More of the body is there, or all of it."""
        connection = self._connection
        parser = connection.parser
        if self._arrived is None:
            if parser.size > READ_AHEAD and not parser.complete:
                connection.stop_reading()
            return
        self.hold(parser.size - self._held)
        connection.deadline = self._patience + parser.size / SLOWEST_BODY
        if (
            parser.complete
            or (self._wants_part and parser.has_part)
            or self._failure is not None
            or parser.size > connection.host.options.max_body
        ):
            self._wake()

    def fail_body(self, error: A2AError) -> None:
        """The rest of the body does not come: it is malformed or late."""
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        self._connection.deadline = inf
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def leave(self) -> None:
        """The client has left: ends the call. An application is told."""
        if self.application is None:
            self.cancel()
            return
        self._wake()
        self._connection.resume_writing()
        self.application.leave()

    def cancel(self) -> None:
        """Ends the call."""
        if self.task is not None:
            self.task.cancel()

    def stop(self) -> None:
        """Ends the call because the host stops; the handler tells the caller."""
        self.stopping = True
        self.cancel()
