"""One listening TCP socket. The frames on its connections are handled elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from a2a_bridge.ext import HostOptions, ListenAddress

from .server import Connection, Side

#: seconds that a caller has to read the last frame when the host stops
FAREWELL = 1.0


class TcpHost:
    """Implements Host. One service can be mounted: TCP has no paths. Raises ValueError for TLS."""

    def __init__(self, address: ListenAddress, options: HostOptions) -> None:
        if options.tls is not None:
            raise ValueError("this transport has no TLS")
        self.options = options
        self.side: Side | None = None
        self._address = address
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[Any], Connection] = {}

    @property
    def address(self) -> ListenAddress:
        if self._server is None or not self._server.sockets:
            return self._address
        return ListenAddress(*self._server.sockets[0].getsockname()[:2])

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, self._address.host, self._address.port, backlog=self.options.backlog
        )
        self._address = self.address

    async def drain(self, grace: float) -> None:
        if self._server is None:
            return
        self._server.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=grace)
        for connection in self._connections.values():
            connection.end()
        if self._connections:
            await asyncio.wait(self._connections, timeout=FAREWELL)
        for connection in self._connections.values():
            connection.abort()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.side is None:
            writer.close()
            return
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("asyncio runs connection callbacks in tasks")
        self._connections[task] = connection = Connection(self.side, reader, writer)
        try:
            await connection.serve()
        finally:
            del self._connections[task]
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
