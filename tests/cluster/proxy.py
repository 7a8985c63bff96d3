"""A TCP proxy that cuts, delays and swallows what passes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

Opening = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Proxy:
    """Passes connections to 127.0.0.1 on to what `opening` opens."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay = 0.0
        #: cleared while everything that passes is kept back, and nothing says so
        self.passes = asyncio.Event()
        self.passes.set()
        self._rejects = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Breaks all connections, and further ones, until `mend`."""
        self._rejects = True
        for one in self._pairs:
            one.cancel()

    def hole(self) -> None:
        self.passes.clear()

    def mend(self) -> None:
        self._rejects = False
        self.delay = 0.0
        if not self.passes.is_set():
            # What a black hole has swallowed never arrives.
            for one in self._pairs:
                one.cancel()
            self.passes.set()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def _accept(self, near: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        writers = [near_writer]
        try:
            if self._rejects:
                return
            far, far_writer = await self._opening()
            writers.append(far_writer)
            await asyncio.gather(self._copy(near, far_writer), self._copy(far, near_writer))
        except (OSError, asyncio.CancelledError):
            pass  # broken by one side, or by a fault
        finally:
            self._pairs.discard(task)
            for writer in writers:
                writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.passes.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()
