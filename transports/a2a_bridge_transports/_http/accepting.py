"""How a listener accepts connections in time, and at its end.

Rules:
1. libuv accepts one connection in each turn of the loop. If the turns are long, a health probe waits for as
   many of them as there are connections before it; asyncio accepts all at once. So after a long turn of
   uvloop the rest is accepted here (`Backlog`), which costs more than libuv's own way.
2. Connections that the system has made already are accepted before a listener closes.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
from collections.abc import Callable
from time import monotonic
from typing import Any

from a2a_bridge.bindings.binding import InheritedListener

_log = logging.getLogger("a2a_bridge.http")

#: seconds since the last connection after which there may be more
_LATE = 0.002
#: connections that are accepted at once; other processes may share the socket
_AT_ONCE = 100


class Backlog:
    """The connections that wait at a server of the running loop. make: makes the protocol of a
    connection. tls: arguments of `loop.connect_accepted_socket`.
    """

    def __init__(
        self, server: asyncio.Server, make: Callable[[], asyncio.Protocol], tls: dict[str, Any]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._make = make
        self._tls = tls
        self._last = 0.0
        self._opening: set[asyncio.Task[None]] = set()
        self._sockets = [socket.fromfd(one.fileno(), one.family, one.type) for one in server.sockets]
        for one in self._sockets:
            one.setblocking(False)

    @classmethod
    def of(
        cls, server: asyncio.Server, make: Callable[[], asyncio.Protocol], tls: dict[str, Any]
    ) -> Backlog | None:
        """The one of a listener, if its loop needs one."""
        return cls(server, make, tls) if type(server.get_loop()).__module__.startswith("uvloop") else None

    def on_open(self) -> None:
        """A connection is open: accepts the others if the loop was busy before."""
        now = monotonic()
        was_late = now - self._last > _LATE
        self._last = now
        if was_late:
            for one in self._sockets:
                self._accept(one)

    def close(self) -> None:
        """Accepts no more. Without this the port stays open."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except OSError:
                return  # there is none, or no room for it, which libuv will find out, too
            accepted.setblocking(False)
            opening = self._loop.create_task(self._open(accepted))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, accepted, **self._tls)
        except OSError as error:  # of TLS, too
            _log.debug("a connection broke before it was open: %s", error)


#: seconds to accept the connections that are waiting for it when the listener is closed
LAST_ACCEPT = 0.01
#: how often that is repeated at most, while there are more
LAST_ACCEPTS = 100


async def accept_last(listener: asyncio.Server, inherited: InheritedListener | None) -> None:
    """Returns when no connection waits in the queue of a listener, which is to be closed then, or when a
    successor accepts those that do. inherited: the socket that it listens on, if another process gave it.
    """
    # A supervisor says so just before its signal, but a signal is heard first.
    await asyncio.sleep(LAST_ACCEPT)
    if inherited is not None and inherited.has_successor:
        return
    for opened in listener.sockets:
        with socket.fromfd(opened.fileno(), opened.family, opened.type) as same:
            # The system makes no further ones; for a successor at the same socket it would not either.
            same.listen(0)
    with selectors.DefaultSelector() as waiting:
        for opened in listener.sockets:
            waiting.register(opened.fileno(), selectors.EVENT_READ)
        for _ in range(LAST_ACCEPTS):  # a closed queue still has room for one connection
            await asyncio.sleep(LAST_ACCEPT)
            if not waiting.select(0):
                break
