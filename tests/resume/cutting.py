"""A proxy that ends connections after so many events, counted as they come from the server. No test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.patience import PATIENCE

_HTTP_2 = b"PRI * HTTP/2.0"
_HEAD_END = b"\r\n\r\n"
_DATA, _HEADERS, _END_STREAM = 0, 1, 1
_LAST_CHUNK = b"0\r\n\r\n"
#: an empty line with line ends of either sort, but not the end of the last chunk
_EVENT_END = re.compile(rb"\n\n|(?<!\n0)\r\n\r\n")


class Piece(NamedTuple):
    """Some bytes. of_stream: they belong to the events of a stream. whole: an event ends with them."""

    data: bytes
    of_stream: bool = False
    whole: bool = False


class Cutter:
    """A proxy at `address`, which passes all bytes until `hold_after`."""

    def __init__(self, host: str, port: int) -> None:
        self.address = ""
        #: the number of connections so far
        self.connections = 0
        self._there = (host, port)
        self._left: int | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._held = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._running: set[asyncio.Task[None]] = set()

    def hold_after(self, events: int) -> None:
        """Passes so many more events, then holds all streams, also an end, until `cut`."""
        self._left = events
        self._held.clear()
        self._open.clear()

    @property
    def holds(self) -> bool:
        """Whether it holds, since `hold_after` and until `cut`."""
        return self._left is not None

    async def held(self) -> None:
        """Waits until data is held back."""
        async with asyncio.timeout(PATIENCE):
            await self._held.wait()

    def cut(self) -> None:
        """Breaks all connections; new ones are passed through."""
        self._left = None
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()
        self._open.set()

    async def close(self) -> None:
        """Breaks all connections and waits until they have ended."""
        while self._running:
            self.cut()
            await asyncio.wait(self._running)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        task = asyncio.create_task(self._relay(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _relay(self, near: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        writers = [near_writer]
        try:
            far, far_writer = await asyncio.open_connection(*self._there)
            writers.append(far_writer)
            self._writers.append(far_writer)
            first = await near.read(65536)
            far_writer.write(first)
            kind = Frames() if first.startswith(_HTTP_2) else Blocks()
            await asyncio.gather(self._to_server(near, far_writer), self._back(far, near_writer, kind))
        except OSError:
            pass  # broken by one side, or by `cut`
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _to_server(self, near: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        while data := await near.read(65536):
            far.write(data)
            await far.drain()
        far.transport.abort()

    async def _back(
        self, far: asyncio.StreamReader, near: asyncio.StreamWriter, kind: Blocks | Frames
    ) -> None:
        while data := await far.read(65536):
            for piece in kind.pieces(data):
                if piece.of_stream and self._left == 0:
                    self._held.set()
                    await self._open.wait()
                if near.transport.is_closing():
                    return
                near.write(piece.data)
                if piece.whole and self._left:
                    self._left -= 1
            await near.drain()
        near.transport.abort()


class Blocks:
    """Cuts the data of an HTTP/1.1 server after each server-sent event."""

    def __init__(self) -> None:
        self._streaming = False
        self._rest = b""

    def pieces(self, data: bytes) -> list[Piece]:
        found = []
        if not self._streaming:
            head, end, rest = data.partition(_HEAD_END)
            if b"text/event-stream" not in head.lower():
                return [Piece(data)]
            self._streaming = True
            found.append(Piece(head + end))
            data = rest
        if self._rest and data.startswith(b"\n"):  # a border between two reads
            found.append(Piece(b"\n", of_stream=True, whole=True))
            data = data[1:]
        last = data
        while (end := _EVENT_END.search(last)) is not None:
            found.append(Piece(last[: end.end()], of_stream=True, whole=True))
            last = last[end.end() :]
        if last:
            found.append(Piece(last, of_stream=True))
        self._rest = b"" if not last.endswith(b"\n") or last.endswith(b"\r\n") else last
        self._streaming = not data.endswith(_LAST_CHUNK)
        return found


class Frames:
    """Cuts the data of an HTTP/2 server after each gRPC message."""

    def __init__(self) -> None:
        self._waiting = b""
        self._messages: dict[bytes, Messages] = {}

    def pieces(self, data: bytes) -> list[Piece]:
        self._waiting += data
        found = []
        while len(self._waiting) >= 9:
            size = 9 + int.from_bytes(self._waiting[:3], "big")
            if len(self._waiting) < size:
                break
            frame, self._waiting = self._waiting[:size], self._waiting[size:]
            kind, flags, stream = frame[3], frame[4], frame[5:9]
            if kind == _DATA:
                messages = self._messages.setdefault(stream, Messages())
                found += [
                    Piece(
                        len(part).to_bytes(3, "big") + bytes(2) + stream + part, of_stream=True, whole=whole
                    )
                    for part, whole in messages.parts(frame[9:])
                ]
            else:
                # The end of a stream is held back like its events.
                found.append(Piece(frame, of_stream=kind == _HEADERS and bool(flags & _END_STREAM)))
        return found


class Messages:
    """Finds the ends of gRPC messages in the payloads of DATA frames."""

    def __init__(self) -> None:
        self._prefix = b""
        self._missing = 0

    def parts(self, payload: bytes) -> Iterator[tuple[bytes, bool]]:
        """(bytes, whether a message ends with them)"""
        while payload:
            if self._missing:
                part = payload[: self._missing]
                self._missing -= len(part)
                whole = not self._missing
            else:
                part = payload[: 5 - len(self._prefix)]
                self._prefix += part
                whole = False
                if len(self._prefix) == 5:
                    self._missing = int.from_bytes(self._prefix[1:], "big")
                    self._prefix = b""
                    whole = not self._missing
            payload = payload[len(part) :]
            yield part, whole


@asynccontextmanager
async def cutting(host: str, port: int) -> AsyncIterator[Cutter]:
    """A proxy to an address."""
    cutter = Cutter(host, port)
    server = await asyncio.start_server(cutter.accept, "127.0.0.1", 0)
    cutter.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield cutter
    finally:
        server.close()
        await cutter.close()
        await server.wait_closed()
