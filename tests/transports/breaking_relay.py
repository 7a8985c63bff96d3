"""A relay between a client and a server that can fall silent or break, as networks do; no test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.patience import PATIENCE


class Relay:
    """`address` leads where the relay was told to lead."""

    def __init__(self, host: str, port: int) -> None:
        self.address = ""
        self.muted = False
        self._there = (host, port)
        self._writers: list[asyncio.StreamWriter] = []
        self._running: set[asyncio.Task[None]] = set()

    async def ended(self) -> None:
        """Returns when no connection is left. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while self._running:
                await asyncio.wait(self._running)

    def mute(self) -> None:
        """Swallows everything from now on; the connections stay."""
        self.muted = True

    def cut(self) -> None:
        """Breaks all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        """Breaks all connections and waits until nothing is left of them."""
        while self._running:
            self.cut()
            await asyncio.wait(self._running)
        await asyncio.gather(*(one.wait_closed() for one in self._writers), return_exceptions=True)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.create_task(self._relay(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._there)
        self._writers.append(far_writer)
        await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))

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
        await relay.close()
        # Since 3.12 this waits for the end of all connections, also of those that a client leaves open.
        await server.wait_closed()
