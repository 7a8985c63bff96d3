"""Clients over raw sockets that break off or read nothing: each may cost a server only its connection."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.durability.serving import Served

#: pipelined requests of a client that reads no answer
PIPELINED = 1600
#: bytes of an answer that nobody reads
UNREAD = 2_000_000
#: what the log of a server must not have because of clients: of asyncio, and of exceptions that nobody caught
FAULTS = ("raised exception", "Traceback")

_CARD = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n\r\n"
_POST = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"


async def _connected(served: Served, stack: ExitStack, *, little: bool = True) -> socket.socket:
    """A socket. little: with a small buffer, so that the rest of an answer waits in the server."""
    client = stack.enter_context(socket.socket())
    if little:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    address = urlsplit(served.http)
    await asyncio.get_running_loop().sock_connect(client, (address.hostname, address.port))
    return client


async def _pipelines(client: socket.socket) -> None:
    """Sends many requests, as far as the server reads them."""
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.get_running_loop().sock_sendall(client, _CARD * PIPELINED)


async def resets(served: Served) -> None:
    """Pipelines requests, reads nothing, and resets its connection: each answer after that was a line in the log."""
    with ExitStack() as stack:
        client = await _connected(served, stack, little=False)
        await _pipelines(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def line_ends(served: Served) -> None:
    """Sends a body of line ends in chunks. It cost five times as much as other bodies, on the loop at once."""
    content = b"\r\n" * 250_000
    chunks = b"%x\r\n%s\r\n" % (len(content), content) + b"2\r\n\r\n\r\n" * 50_000
    with ExitStack() as stack:
        client = await _connected(served, stack)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, _POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        answer = await loop.sock_recv(client, 100)
        if not answer.startswith(b"HTTP/1.1 200 "):  # an error of JSON-RPC: this is no document
            raise AssertionError(answer)


@asynccontextmanager
async def unread(served: Served, count: int) -> AsyncIterator[None]:
    """Clients that stay and read nothing: some have closed their half, the others ask for large streams."""
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        for number in range(count):
            client = await _connected(served, stack, little=number % 2 == 0)
            if number % 2:
                # With a large buffer the server reads all requests, and the end of them.
                await _pipelines(client)
                client.shutdown(socket.SHUT_WR)
                continue
            parts = [{"text": f"big {UNREAD} h{number}"}]
            message = {"messageId": f"h{number}", "role": "ROLE_USER", "parts": parts}
            request = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendStreamingMessage",
                "params": {"message": message},
            }
            body = json.dumps(request).encode()
            await loop.sock_sendall(client, _POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        yield
