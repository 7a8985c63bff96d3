"""A webhook without code of the product: it accepts posts on its own socket and answers as a test chooses."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE


@dataclass(frozen=True)
class Posted:
    """A request, unchanged. Header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """statuses: the answers, one after the other; then 204. headers: of the answers. silent: it never
    answers. endless: its answers never end. text: of its answers. connections: their number so far. fault:
    called for each request; returns a status, "drop" to close the connection, or nothing. posted: all
    requests. taken: the acknowledged ones.
    """

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    posted: list[Posted] = field(default_factory=list)
    taken: list[Posted] = field(default_factory=list)
    silent: bool = False
    endless: bool = False
    text: str = ""
    connections: int = 0
    fault: Callable[[], str] | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def arrived(self, count: int) -> list[Posted]:
        """All requests, once there are `count` or more."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.posted) >= count)
        return self.posted

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.split("\r\n")
                assert line.startswith("POST ")
                headers = {}
                for one in rest:
                    name, colon, value = one.partition(":")
                    if colon:
                        headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers["content-length"]))
                fault = self.fault() if self.fault is not None else ""
                usual = 200 if self.text else 204
                status = int(fault) if fault.isdecimal() else self.statuses.pop(0) if self.statuses else usual
                came = Posted(line.split(" ")[1], headers, body)
                if status < 300 and fault != "drop" and not self.silent:
                    self.taken.append(came)
                async with self._changed:
                    self.posted.append(came)
                    self._changed.notify_all()
                if self.silent:
                    await reader.read()
                    return
                if fault == "drop":
                    return
                said = dict(self.headers)
                if 300 <= status < 400:
                    said["Location"] = "http://127.0.0.1:1/"
                if not self.endless:
                    said["Content-Length"] = str(len(self.text))
                lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
                writer.write(
                    f"HTTP/1.1 {200 if self.endless else status} X\r\n{lines}\r\n{self.text}".encode()
                )
                await writer.drain()
                while self.endless:
                    writer.write(b"x" * 65536)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver._take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
