"""A connection to an agent, and the exchange on it: one request, one response. It knows no pool and no URL.

aiohttp makes the connection (DNS, TLS, proxies) and keeps it; what goes over it is written and read here.

Rules:
1. A connection has one exchange at a time. It is used again only if the whole request was sent, the whole
   response came and nothing beside it; otherwise the next call, of another caller perhaps, would get bytes of
   this one.
2. Its reader decides how much is read: what waits for it is bounded, and beyond that the agent has to wait. A
   compressed body is expanded only as far as it is read.
3. A response may come before its request has been sent. What has not been sent by its end is dropped, and the
   connection with it.
4. An exchange has at most two limits of time: a deadline, and the silence of the agent. A connection has one
   timer for both, which stays in place from call to call.
5. A connection that the peer closed before its system had taken a byte of the request, and any of the
   response came, ends the exchange with `UntouchedError`: the agent cannot have seen the call.
"""

from __future__ import annotations

import asyncio
import re
import select
from math import inf
from typing import Any, Protocol, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict

from a2a_bridge.bindings.bounded import Sending
from a2a_bridge_transports._http.acknowledged import acknowledged
from a2a_bridge_transports._http.decoding import Decoder, decoder_of
from a2a_bridge_transports._http.exchange import CONTENT_ENCODING, CONTENT_TYPE
from a2a_bridge_transports._http.reading import SHARE, ReadInTurns
from a2a_bridge_transports._http.response_parser import MalformedResponseError, ResponseParser

#: bytes of a response that wait for its reader before the agent has to wait
READ_AHEAD = 256 * 1024
#: bytes of a body from which on it is sent in pieces
LARGE_BODY = 512 * 1024
#: bytes of compressed content that are read before other work has its turn
_TURN = 1024 * 1024
#: the first frame of a server of HTTP/2 (RFC 9113, 3.4)
_SETTINGS = re.compile(rb"\x00\x00.\x04\x00\x00\x00\x00\x00", re.DOTALL)


class UntouchedError(aiohttp.ServerDisconnectedError):
    """The connection was closed before the peer had taken a byte of the request."""


class SpeaksHttp2Error(aiohttp.ClientError):
    """The peer has begun with the settings of HTTP/2."""


class NoResponseError(aiohttp.ClientError):
    """What came is no response to the request. The text says why, and quotes nothing of it."""


class Pool(Protocol):
    """Keeps connections between exchanges."""

    def give_back(self, connection: Connection, /) -> None: ...


class Connection(ReadInTurns, ResponseHandler):
    """One connection. Outside of exchanges, as for the CONNECT of a proxy, it is as aiohttp made it.

    Closing it drops the rest of a request: a peer that reads nothing would keep it in memory for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.loop = loop
        self.parser = ResponseParser()
        #: what it goes back to, and its place there
        self.pool: Pool | None = None
        self.place: Any = None
        #: the one that runs
        self.exchange: Exchange | None = None
        #: True until the first exchange
        self.is_fresh = True
        #: True unless an exchange has left something behind
        self.is_clean = True
        #: bytes of all requests before the present one; not known under TLS
        self.written = 0
        self._clock: asyncio.TimerHandle | None = None
        self._poll: Any = None
        self._is_reading, self._waits_for_turn = True, False

    # ------------------------------------------------------------------ asked by the pool

    def is_connected(self) -> bool:
        # Not by `super`: this is asked for each call.
        return not self._tail and self.transport is not None and not self.transport.is_closing()

    @property
    def should_close(self) -> bool:
        # Not by `super`, for the same reason. What came between exchanges is in `_tail`.
        return not self.is_clean or bool(self._tail) or self._exception is not None

    @property
    def speaks_http_2(self) -> bool:
        """Whether the server has begun with the settings of HTTP/2, before any request."""
        return _SETTINGS.match(self._tail) is not None

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last response, in the system either: neither a response that
        nobody asked for, which the next call would get, nor the end of the connection.
        """
        if self.is_fresh:
            return True
        transport = self.transport
        if transport is None:
            return False
        if self._poll is None:
            opened = transport.get_extra_info("socket")
            if opened is None or not hasattr(select, "poll"):
                return True
            self._poll = select.poll()
            self._poll.register(opened.fileno(), select.POLLIN)
        return not self._poll.poll(0)

    @property
    def is_full(self) -> bool:
        """Whether the agent does not take what has been written."""
        return self._paused

    def close(self) -> None:
        transport = self.transport
        if isinstance(transport, asyncio.Transport) and transport.get_write_buffer_size():
            self.abort()
        else:
            super().close()

    # ------------------------------------------------------------------ called by the transport

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            super().data_received(data)
            return
        if len(data) >= SHARE:
            self.wait_for_turn()
        exchange.received(data)

    def eof_received(self) -> None:
        if self.exchange is not None:
            self.exchange.lost(None)
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.exchange is not None:
            self.exchange.lost(exc)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self._poll = None
        self.parser.release()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.exchange is not None:
            self.exchange.send_on()

    # ------------------------------------------------------------------ used by the exchange

    def watch(self, due: float) -> None:
        """Sees to it that the limits of the exchange are looked at then, on the clock of the loop."""
        clock = self._clock
        if clock is None or clock.when() > due:
            if clock is not None:
                clock.cancel()
            self._clock = self.loop.call_at(due, self._look)

    def _look(self) -> None:
        self._clock = None
        if self.exchange is not None:
            due = self.exchange.end_late(self.loop.time())
            if due < inf:
                self.watch(due)


class Exchange:
    """One request and its response. head: of the request. deadline: on the clock of the loop. silence: how
    many seconds the agent may send nothing; None: no limit. `close` has to be called.
    """

    __slots__ = (
        "_connection",
        "_deadline",
        "_decoded",
        "_decoder",
        "_ended",
        "_heard",
        "_lost",
        "_sent",
        "_silence",
        "_unsent",
        "_waiter",
        "parser",
    )

    def __init__(
        self, connection: Connection, head: bytes, body: bytes | None, deadline: float, silence: float | None
    ) -> None:
        self._connection = connection
        parser = self.parser = connection.parser
        self._waiter: asyncio.Future[None] | None = None
        #: what ended it on this side; nothing is read any more
        self._ended: BaseException | None = None
        #: how the connection ended; what came before is read
        self._lost: BaseException | None = None
        self._decoder: Decoder | None = None
        self._decoded = 0
        self._deadline = deadline
        self._silence = silence
        self._heard = 0.0
        #: the rest of a large body
        self._unsent: Sending | None = None
        connection.exchange = self
        connection.is_clean = False
        if connection._tail:  # noqa: SLF001  of the class below ours
            self._lost = SpeaksHttp2Error() if connection.speaks_http_2 else _early()
            return
        parser.begin()
        transport = cast("asyncio.Transport", connection.transport)
        if transport is None or transport.is_closing():
            self._lost = UntouchedError()
            return
        if body is None:
            data = head
        elif len(body) < LARGE_BODY:
            data = head + body
        else:
            data = head
            self._unsent = Sending(body)
        self._sent = len(data)
        transport.write(data)
        if self._unsent is not None:
            self.send_on()
        if silence is not None:
            self._heard = connection.loop.time()
            deadline = min(deadline, self._heard + silence)
        if deadline < inf:
            connection.watch(deadline)

    # ------------------------------------------------------------------ the response

    @property
    def status(self) -> int:
        return self.parser.status

    @property
    def headers(self) -> CIMultiDict[str]:
        return self.parser.headers

    @property
    def head_line(self) -> str:
        """The status line."""
        parser = self.parser
        return f"HTTP/{parser.version} {parser.status} {parser.reason}".rstrip()

    @property
    def content_type(self) -> str:
        """The media type of the body in lower case, without parameters."""
        return self.parser.headers.get(CONTENT_TYPE, "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The next bytes of the body, which are there already if they came with the head; empty at its end.
        Raises aiohttp.ClientError, TimeoutError, UndecodableError, and the error of `end`.
        """
        parser, decoder = self.parser, self._decoder
        if decoder is None and CONTENT_ENCODING in parser.headers:
            decoder = self._decoder = decoder_of(parser.headers.getall(CONTENT_ENCODING))
        while True:
            if self._ended is not None:
                raise self._ended
            if decoder is not None and (found := decoder.step()):
                self._decoded += len(found)
                if self._decoded > _TURN:
                    self._decoded = 0
                    await asyncio.sleep(0)
                return found
            if parser.held:
                data = parser.take()
                self._connection.read_on()
                if decoder is None:
                    return data
                decoder.feed(data)
            elif parser.complete:
                if decoder is not None:
                    decoder.end()
                return b""
            else:
                await self.more()

    def whole(self, most: int) -> bytes | None:
        """The whole body, if it is here, not compressed and not larger than `most` bytes; None otherwise."""
        parser = self.parser
        if not parser.complete or self._ended is not None or parser.held > most:
            return None
        return None if CONTENT_ENCODING in parser.headers else parser.take()

    def more(self) -> asyncio.Future[None]:
        """More of the response, to be awaited: until `parser.has_head`, and by `read` for the body. Raises
        aiohttp.ClientError, TimeoutError, and the error of `end`.
        """
        if self._ended is not None:
            raise self._ended
        if self._lost is not None:
            raise self._lost
        waiter = self._waiter = self._connection.loop.create_future()
        return waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ------------------------------------------------------------------ ends

    def end(self, error: BaseException) -> None:
        """Ends it on this side: its reader gets the error."""
        if self._ended is None:
            self._ended = error
            self._wake()

    def end_late(self, now: float) -> float:
        """Ends what has taken too long; returns when to look again. now: on the clock of the loop."""
        due = self._deadline
        if due <= now:
            self.end(TimeoutError())
            return inf
        if self._silence is not None:
            if not self._connection._is_reading:  # noqa: SLF001  it is this side that does not read
                self._heard = now
            if self._heard + self._silence <= now:
                self.end(aiohttp.SocketTimeoutError())
                return inf
            due = min(due, self._heard + self._silence)
        return due

    def close(self) -> None:
        """Gives the connection back; it is clean if all has been sent and read to its end."""
        connection, parser = self._connection, self.parser
        if connection.exchange is not self:
            return  # it was closed before
        connection.exchange = None
        if (
            parser.complete
            and parser.keep_alive
            and not parser.surplus
            and self._unsent is None
            and self._ended is None
            and self._lost is None
            and connection.transport is not None
            and not connection.transport.get_write_buffer_size()
        ):
            parser.take()
            connection.read_on()
            connection.is_clean = True
            connection.is_fresh = False
            connection.written += self._sent
        self._unsent = None
        if connection.pool is not None:
            connection.pool.give_back(connection)

    # ------------------------------------------------------------------ called by the connection

    def received(self, data: bytes) -> None:
        """More of the response has come."""
        parser = self.parser
        if self._silence is not None:
            self._heard = self._connection.loop.time()
        if self._lost is not None:
            return
        is_first = not parser.has_begun
        try:
            parser.feed(data)
        except MalformedResponseError as error:
            http_2 = is_first and _SETTINGS.match(data) is not None
            self._lost = SpeaksHttp2Error() if http_2 else NoResponseError(str(error))
            self._connection.stop_reading()
        else:
            if parser.held > READ_AHEAD:
                self._connection.stop_reading()
            if not (parser.has_head or parser.surplus):
                return  # part of a head
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def lost(self, exc: BaseException | None) -> None:
        """The connection has ended, or the agent's half of it."""
        parser = self.parser
        if self._lost is not None:
            return
        if exc is None and parser.end():
            self._wake()
            return
        if parser.complete:
            return
        if exc is None and not parser.has_begun and self._is_untouched():
            self._lost = UntouchedError()
        elif exc is None and not parser.has_begun:
            self._lost = aiohttp.ServerDisconnectedError()
        elif isinstance(exc, OSError):
            self._lost = aiohttp.ClientOSError(*exc.args)
        else:
            self._lost = aiohttp.ClientPayloadError("the response is not complete")
        self._lost.__cause__ = exc
        self._wake()

    def _is_untouched(self) -> bool:
        """Whether the peer's system had taken nothing of the request when the peer closed. Known of plain TCP
        on Linux only: the end of the connection says what was taken before it, which a reset does not.
        """
        connection = self._connection
        transport = connection.transport
        if transport is None or transport.get_extra_info("ssl_object") is not None:
            return False
        # The first byte that a peer acknowledges is the making of the connection.
        taken = acknowledged(transport)
        return taken > 0 and taken - 1 <= connection.written

    def send_on(self) -> None:
        """Sends more of a large body, as far as the agent takes it."""
        connection = self._connection
        transport = connection.transport
        sent = 0
        while self._unsent is not None and transport is not None and not transport.is_closing():
            if connection.is_full:
                return
            if sent >= 4 * SHARE:
                connection.loop.call_soon(self.send_on)
                return
            piece = self._unsent.read(SHARE)
            if not piece:
                self._unsent = None
                return
            sent += len(piece)
            self._sent += len(piece)
            transport.write(piece)


def _early() -> NoResponseError:
    return NoResponseError("it came before the request")
