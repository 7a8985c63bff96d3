"""A connection of the HTTP listener: bytes in and out, bodies, and the limits of time. It knows no route.

Rules:
1. One request at a time. What a client sends ahead waits here, within a limit, and then in its own system.
2. A request starts when its head is complete. If the body came with it, it need not wait, and if the handler
   does not wait either, all is done before the next look at the network.
3. A connection has no timer: the host calls `end_late` from time to time.
4. A client whose request is rejected may still be sending. Its connection is closed for writing only, or the
   response could be lost; the data that it sends is thrown away for a while.
5. A client that reads nothing of its response for a while is cut off, because the response takes memory.
6. A connection has a share of each turn of the event loop: after `SHARE` bytes it is read again in the next
   one. uvloop would read megabytes of one connection before it looks at another.
7. `input` says what the next bytes of the client are (transitions: `input_states`), and `deadline` when that
   has taken too long.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import cast

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.memory import in_work
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge.bindings.traffic import rejected_connections
from a2a_bridge.core.errors import A2AError, IllegalStateError, Reason
from a2a_bridge_transports._http.acknowledged import acknowledged
from a2a_bridge_transports._http.exchange import CLOSE, HttpStatusError, body_too_slow, reject, response
from a2a_bridge_transports._http.incoming import READ_AHEAD, Incoming
from a2a_bridge_transports._http.input_states import AHEAD, BODY, HEAD, IGNORED, KEPT, NEW, TRANSITIONS, Input
from a2a_bridge_transports._http.mounts import Mounts
from a2a_bridge_transports._http.parser import HeadTooLargeError, MalformedError, RequestParser
from a2a_bridge_transports._http.reading import SHARE, ReadInTurns

_log = logging.getLogger("a2a_bridge.http")

#: how long an idle connection is kept; longer than the 60 s of common proxies, which should close first
KEEP_CONNECTION = 75.0
#: seconds that a client may read nothing while a response waits for it; common proxies wait 60 s
UNREAD = 120.0
#: the same while the host shuts down
UNREAD_AT_END = 2.0
#: the same for a TLS connection that is closed: how long its client may neither read nor close its own side
TLS_CLOSE = 30.0
#: how long data of a rejected client is thrown away before the connection is closed (seconds)
LINGER = 5.0
#: seconds that a look for late connections may itself be late, and that it waits then
_STALL, _CATCH_UP = 0.5, 0.1
#: pipelined requests that are answered before other connections have their turn
TURN = 16


class ConnectionHost(Mounts):
    """The part of a host that its connections see: their limit, and the sweep over their deadlines."""

    #: makes the request whose head a connection has read
    begin: Callable[[Connection], Incoming]

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options)
        #: the open connections
        self.connections: set[Connection] = set()
        #: requests get copies of it, so that no request sees context variables of an earlier one
        self.context = contextvars.copy_context()
        self._is_full = False
        self._sweep: asyncio.TimerHandle | None = None

    def has_room(self) -> bool:
        """True if one more connection is within the limit. Logs once that it is not, until there is room."""
        limit = self.options.max_connections
        full = 0 < limit <= len(self.connections)
        if full:
            rejected_connections["http"] += 1
        if full and not self._is_full:
            _log.warning("rejecting connections: %d are open, which is the limit", limit)
        self._is_full = full
        return not full

    def _sweep_late(self, due: float = inf) -> None:
        """Looks for connections whose deadline has passed; reschedules itself. due: when it was to run. If it
        runs much later, this process has stood still: what clients have sent meanwhile is read first.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - due > _STALL:
            self._sweep = loop.call_later(_CATCH_UP, self._sweep_late)
            return
        # First, so that an error in one connection does not end the sweep for the others.
        period = min(self.options.header_timeout, KEEP_CONNECTION) / 4
        self._sweep = loop.call_later(period, self._sweep_late, now + period)
        for connection in list(self.connections):
            connection.end_late(now)


class Connection(ReadInTurns, asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_ahead",
        "_has_ended",
        "_is_reading",
        "_loop",
        "_read_deadline",
        "_read_position",
        "_waits_for_turn",
        "_writable",
        "deadline",
        "host",
        "input",
        "is_full",
        "parser",
        "peer",
        "request",
        "transport",
    )

    def __init__(self, host: ConnectionHost) -> None:
        self.host = host
        self._loop = asyncio.get_running_loop()
        self.parser = RequestParser(host.options.max_header)
        #: None before the connection is made, and after it is lost
        self.transport: asyncio.Transport | None = None
        #: the address of the other end; empty if unknown
        self.peer = ""
        #: the request that is being answered
        self.request: Incoming | None = None
        #: the present state of the input; changed by `_to`, `_start` and `on_answered` only
        self.input = NEW
        #: when that state has lasted too long, on the clock of the loop; in BODY it is set by the request
        self.deadline = inf
        #: how far the client had read at the last look (`_position`), and when it has to have read further
        self._read_position = 0
        self._read_deadline = inf
        #: True while the client does not read what has been written
        self.is_full = False
        self._writable: asyncio.Future[None] | None = None
        #: bytes whose turn comes later, in AHEAD
        self._ahead = b""
        self._is_reading, self._waits_for_turn = True, False
        #: True if the client has closed its half
        self._has_ended = False

    def _to(self, state: Input, deadline: float = inf) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if state not in TRANSITIONS[self.input]:
            raise IllegalStateError("the input of a connection", self.input, state)
        self.input, self.deadline = state, deadline
        if state is IGNORED:
            self._ahead = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if not self.host.has_room():
            self._to(IGNORED)
            self.transport.abort()  # `close` would wait for the client under TLS
            return
        self.host.connections.add(self)
        self.deadline = self._loop.time() + self.host.options.header_timeout
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        opened = transport.get_extra_info("socket")
        if opened is not None:
            with suppress(OSError):  # on some systems, if the client has left already
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  a client that leaves is no error
        self.host.connections.discard(self)
        self.transport = None
        self._to(IGNORED)
        self.parser.release()
        if self.request is not None:
            self.request.leave()

    def eof_received(self) -> None:
        """The client sends nothing more, and the transport closes when it has read the rest."""
        self._has_ended = True
        self._watch_reader()

    # ------------------------------------------------------------------ reading

    def data_received(self, data: bytes) -> None:
        state = self.input
        if state is IGNORED:
            return
        if len(data) >= SHARE:
            self.wait_for_turn(self.host.context)
        if state is AHEAD:
            self._keep_ahead(self._ahead + data)
        else:
            self._read(data)

    def _keep_ahead(self, data: bytes) -> None:
        self._ahead = data
        if len(data) > READ_AHEAD:
            self.stop_reading()

    def _read(self, data: bytes) -> None:
        """Reads requests and starts each of them, until one has to wait."""
        parser, at, size = self.parser, 0, len(data)
        turn = TURN
        try:
            while at < size:
                at = parser.feed(data, at)
                request = self.request
                if request is not None:
                    if parser.complete:
                        self._to(AHEAD)
                    request.body_came()
                elif parser.has_head:
                    turn -= 1
                    try:
                        while at < size and not parser.complete:
                            at = parser.feed(data, at)
                    finally:  # a malformed body ends the request that has begun
                        self._start()
                if self.input is IGNORED or (at < size and self._ignores()):
                    return
                if at < size and not turn and self.input is not AHEAD:
                    self._to(AHEAD)
                    self._loop.call_soon(self._read_on, context=self.host.context)
                if at < size and self.input is AHEAD:
                    self._keep_ahead(data[at:])
                    return
        except MalformedError as error:
            self._reject(error)
            return
        if self.request is None and parser.fed and self.input is not HEAD:
            self._to(HEAD, min(self.deadline, self._loop.time() + self.host.options.header_timeout))

    def _ignores(self) -> bool:
        """True if nothing that comes counts any more: for pipelined requests, before a loss is reported.

        A client that has ended its half gets the rest as long as something waits in its transport. A closed
        transport in which nothing waits drops what is written, and asyncio logs each write after the fifth.
        """
        transport = self.transport
        if (
            transport is not None
            and transport.is_closing()
            and not (self._has_ended and transport.get_write_buffer_size())
        ):
            self._to(IGNORED)
        return self.input is IGNORED

    def _read_on(self) -> None:
        """Continues with the bytes received ahead: their turn has come."""
        data = self._ahead
        if self._ignores():
            return
        self._ahead = b""
        self._to(KEPT, self._loop.time() + KEEP_CONNECTION)
        self.read_on()
        self._read(data)

    def _start(self) -> None:
        # As `_to` by NEW, KEPT or HEAD, which would be a call more for each request.
        self.input, self.deadline = AHEAD if self.parser.complete else BODY, inf
        request = self.request = self.host.begin(self)
        work, context = request.answer(), self.host.context.copy()
        # `Incoming` keeps the task. A task factory of the application is for its own tasks.
        if sys.version_info >= (3, 12):
            # Its first step is done at once: a handler that does not wait needs no turn of the loop.
            asyncio.Task(work, loop=self._loop, context=context, eager_start=True)
        else:
            request.task = asyncio.Task(work, loop=self._loop, context=context)

    def _reject(self, error: MalformedError) -> None:
        # Its text must not quote the client's data, perhaps a malformed line with credentials.
        _log.info("rejected a request from %s: %s", self.peer, error)
        if self.input is IGNORED:
            return  # the request is answered without its body
        if self.request is not None:
            self._to(IGNORED)
            framing = HttpStatusError(400, Reason.INVALID_REQUEST, "the body is not framed correctly")
            self.request.fail_body(framing)
            return
        if isinstance(error, HeadTooLargeError):
            failure: A2AError = HttpStatusError(error.status, Reason.REQUEST_TOO_LARGE, str(error))
        else:
            failure = A2AError(Reason.INVALID_REQUEST, "this is not valid HTTP")
        self.write(response(reject(failure), CLOSE))
        self._linger()

    # ------------------------------------------------------------------ writing

    def write(self, data: bytes) -> None:
        """Writes unless the client has left. asyncio logs each write after the fifth to a closed transport,
        so few of them may be in one turn of the loop.
        """
        if self.transport is not None:
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.is_full = True
        self._watch_reader()

    def resume_writing(self) -> None:
        self.is_full = False
        self._read_deadline = inf
        if self.input is IGNORED or (self.transport is not None and self.transport.is_closing()):
            self._watch_reader()  # the rest of a closed connection, however small
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def drain(self, sent: int | None = None) -> None:
        """Waits until the client has read most of what has been written. sent: bytes of the last write of a
        stream; what waits with them counts as in work meanwhile.
        """
        if not self.is_full or self.transport is None:
            return
        waiting = 0 if sent is None else self.transport.get_write_buffer_size()
        if waiting > SMALL:
            # The transport holds the data that it writes, and the source the event until the next one.
            waiting = 2 * max(waiting, sent or 0)
        in_work.add(waiting)
        self._writable = self._loop.create_future()
        try:
            await self._writable
        finally:
            self._writable = None
            in_work.add(-waiting)

    # ------------------------------------------------------------------ ends

    def on_answered(self, *, keep: bool) -> None:
        """The request has been answered. keep: whether the connection stays open."""
        self.request = None
        if self.transport is None:
            return
        parser = self.parser
        if not (keep and KEPT in TRANSITIONS[self.input]):
            if parser.complete and not self._ahead:
                self.close()
            else:
                self._linger()
            return
        parser.reset()
        if self._ahead:
            self._loop.call_soon(self._read_on, context=self.host.context)
            return
        # As `_to`.
        self.input, self.deadline = KEPT, self._loop.time() + KEEP_CONNECTION

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered, and none has to be expected."""
        return self.request is None and self.input in (KEPT, IGNORED)

    def end_late(self, now: float) -> None:
        """Ends what has taken too long. now: on the clock of the loop."""
        if self.deadline <= now:
            self.deadline = inf
            if self.request is not None:
                self.request.fail_body(body_too_slow())
            else:
                self.close()
        if self._read_deadline <= now and self.transport is not None:
            if _position(self.transport) <= self._read_position:
                _log.debug("closed the connection of %s, which does not read its answer", self.peer)
                self.abort()
            else:
                self._watch_reader()

    def _watch_reader(self) -> None:
        """Gives the client time to read some of what has been written."""
        transport = self.transport
        self._read_deadline = inf
        if transport is None:
            return
        if transport.get_write_buffer_size():
            patience = UNREAD
        elif self.host.options.tls is not None and transport.is_closing():
            patience = TLS_CLOSE
        else:
            return
        self._read_deadline = self._loop.time() + (UNREAD_AT_END if self.host.draining else patience)
        self._read_position = _position(transport)

    def hurry(self) -> None:
        """The host shuts down: a client that does not read has less time from now on."""
        if self._read_deadline > self._loop.time() + UNREAD_AT_END:
            self._watch_reader()

    def close(self) -> None:
        """Closes the connection when all written data is sent."""
        self._to(IGNORED)
        transport = self.transport
        # A TLS transport that is closed twice cannot be asked or aborted any more.
        if transport is not None and not transport.is_closing():
            transport.close()
            self._watch_reader()

    def reset(self) -> None:
        """Closes the connection at once, so that its client gets an error instead of an end."""
        opened = self.transport.get_extra_info("socket") if self.transport is not None else None
        if opened is not None:
            with suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _linger(self) -> None:
        """The client, whose request is not read to its end, learns why."""
        self._to(IGNORED, self._loop.time() + LINGER)
        transport = self.transport
        if transport is None:
            return
        self.read_on()
        if transport.can_write_eof():
            with suppress(OSError):  # the client has left already
                transport.write_eof()


def _position(transport: asyncio.Transport) -> int:
    """A number that grows when the client reads, if nothing is written meanwhile.

    The write buffer alone does not show a slow reader: the system asks for more only when a third of its own
    buffer is free, which may be megabytes, and under TLS there is a further buffer below this one. For that
    reason the length of the system's queue (TIOCOUTQ) does not show it either: it is filled up from there.
    """
    return acknowledged(transport) - transport.get_write_buffer_size()
