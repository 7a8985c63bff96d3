"""A relay between a client and a server that can fall silent or break, as networks do; no test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class Relay:
    """`address` leads where the relay was told to lead."""

    def __init__(self, host: str, port: int) -> None:
        self.address = ""
        self.muted = False
        self._there = (host, port)
        self._writers: list[asyncio.StreamWriter] = []

    def mute(self) -> None:
        """Swallows everything from now on; the connections stay."""
        self.muted = True

    def cut(self) -> None:
        """Breaks all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._there)
        self._writers += [writer, far_writer]
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on(reader, far_writer))
            both.create_task(self._pass_on(far_reader, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not self.muted:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass  # broken by one side or by `cut`: the other side is to notice as well
        writer.transport.abort()


@asynccontextmanager
async def relaying(address: Any) -> AsyncIterator[Relay]:
    """A relay to `address` ("host:port")."""
    host, _, port = str(address).rpartition(":")
    relay = Relay(host, int(port))
    server = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        relay.cut()
        await server.wait_closed()
