"""Connections of an inherited socket, for a server of grpcio, which opens each of its listeners itself.

1. The socket outlives this process: connections wait in it while no process accepts them.
2. grpcio listens on a port of the loopback interface. Each accepted connection is copied to one of that port,
   TLS and all.
3. grpcio sees the address of the copy; `caller` gives that of the caller.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from a2a_bridge.bindings.binding import InheritedListener, ListenAddress
from a2a_bridge_transports._http.accepting import LAST_ACCEPT, Backlog, accept_last

_log = logging.getLogger("a2a_bridge.grpc")

#: where grpcio listens
LOOPBACK = "127.0.0.1"
#: seconds for the first calls of connections that were accepted last, without HostOptions.drain_window
_WINDOW = 0.5
#: seconds for a caller to close its connection after the server has ended its own
_LINGER = 2.0


class Relay:
    """Accepts the connections of a socket, and copies each to a port of the loopback interface."""

    def __init__(self, inherited: InheritedListener) -> None:
        self._inherited = inherited
        self._listener: asyncio.Server | None = None
        self._backlog: Backlog | None = None
        self._port = 0
        #: the address of a copy → that of its caller, both as gRPC names them
        self._callers: dict[str, str] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._open: set[_Side] = set()

    async def start(self, port: int, backlog: int) -> ListenAddress:
        """Accepts connections for the server at a port; returns the address of the socket. Raises OSError."""
        self._port = port
        inherited = socket.socket(fileno=self._inherited.descriptor)
        host, own = inherited.getsockname()[:2]
        make = partial(_Accepted, self)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(make, sock=inherited, backlog=backlog)
        self._backlog = Backlog.of(self._listener, make, {})
        return ListenAddress(host, own)

    def caller(self, seen: str) -> str:
        """The caller at an address that grpcio sees."""
        return self._callers.get(seen, seen)

    async def stop_accepting(self, window: float | None) -> None:
        """Accepts what waits, or leaves it to a successor, and accepts no more. Open connections stay for a
        window in seconds: grpcio cancels calls that come when it stops.
        """
        listener, self._listener = self._listener, None
        if listener is None:
            return
        await accept_last(listener, self._inherited)
        if self._backlog is not None:
            self._backlog.close()
        listener.close()
        await asyncio.sleep(LAST_ACCEPT)  # a connection is known here some turns after it is accepted
        await self._until_closed(_WINDOW if window is None else window)

    async def close(self) -> None:
        """Waits until the callers have read what the server has said last, and closed; ends the others."""
        await self._until_closed(_LINGER)
        for side in list(self._open):
            side.transport.abort()

    async def _until_closed(self, seconds: float) -> None:
        """Waits until no connection is open, but not for longer. Steps count, and not the clock, which goes
        on while this process stands still and reads nothing.
        """
        for _ in range(round(seconds / LAST_ACCEPT)):
            if not self._open:
                return
            await asyncio.sleep(LAST_ACCEPT)

    def accepted(self, side: _Accepted) -> None:
        """Connects a caller with the server."""
        if self._backlog is not None:
            self._backlog.on_open()
        side.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._connect(side))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, side: _Accepted) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _Connected(self, side), LOOPBACK, self._port)
        except OSError as error:
            _log.warning(
                "a connection is lost: the gRPC server of this process does not accept it: %s", error
            )
            side.transport.abort()

    def opened(self, side: _Side) -> None:
        """A connection, to a caller or to the server, is open."""
        self._open.add(side)

    def connected(self, own: str, caller: str) -> None:
        """The connection to the server, at an address of its own, is for a caller."""
        self._callers[own] = caller

    def lost(self, side: _Side, own: str) -> None:
        """A connection has ended; own: see `connected`."""
        self._open.discard(side)
        self._callers.pop(own, None)


class _Side(asyncio.Protocol):
    """One of two connections, each of which sends what the other one receives."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.transport: Any = None
        self.other: _Side | None = None
        #: its address as gRPC names it, for the connection to the server
        self._own = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._relay.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.lost(self, self._own)
        if self.other is not None:
            self.other.end(error)

    def end(self, error: Exception | None) -> None:
        """Ends this connection, because the other one has ended."""
        if error is None:
            self.transport.close()  # it sends the rest first
        else:
            self.transport.abort()


class _Accepted(_Side):
    """The connection of a caller."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(relay)
        #: that of the caller, as gRPC names it
        self.address = ""
        #: what is received before the connection to the server is open: uvloop reads once although it may not
        self._early: list[bytes] = []
        #: whether the server has closed its connection, so that nobody reads what the caller says
        self._is_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        caller = transport.get_extra_info("peername")
        if caller is None:  # it has left
            self.transport.abort()
            return
        self.address = _named(caller)
        self._relay.accepted(self)

    def join(self, other: _Connected) -> None:
        """The connection to the server is open."""
        self.other = other
        other.transport.writelines(self._early)
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None and not self._is_ended:
            self._early.append(data)
        else:
            super().data_received(data)

    def end(self, error: Exception | None) -> None:
        if error is not None or self.transport.is_closing():
            self.transport.abort()
            return
        # Closed with unread data, it would be reset, and the caller lose the last frames of the server:
        # those that say which calls were not processed.
        self.other, self._is_ended = None, True
        self.transport.resume_reading()
        self.transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER, self.transport.abort)


class _Connected(_Side):
    """The connection to the server for that of a caller."""

    def __init__(self, relay: Relay, caller: _Accepted) -> None:
        super().__init__(relay)
        self._caller = caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        caller = self._caller
        if caller.transport.is_closing():  # it has left meanwhile
            self.transport.abort()
            return
        self.other = caller
        self._own = _named(transport.get_extra_info("sockname"))
        self._relay.connected(self._own, caller.address)
        caller.join(self)


def _named(address: Any) -> str:
    """An address of a socket as gRPC names it."""
    host, port = address[:2]
    return f"ipv6:{quote(f'[{host}]')}:{port}" if ":" in host else f"ipv4:{host}:{port}"


class RelayedContext:
    """The context of a call over a relay."""

    def __init__(self, context: Any, relay: Relay) -> None:
        self._context = context
        self._relay = relay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def peer(self) -> str:
        """The address of the caller."""
        return self._relay.caller(self._context.peer())
