"""An agent of raw bytes with configurable behaviour, and its callers. No tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.transports.http_scene import dialling

REQUEST = hub.SendMessageRequest(
    message=hub.Message(message_id="m-1", role=hub.ROLE_USER, parts=[hub.Part(text="hello")])
)
RESULT = '{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}'
EVENT = '{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'


@dataclass
class Peer:
    """An agent of raw bytes: a function makes the answer to each request."""

    answer: Callable[[str, dict[str, str], bytes], bytes]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                block = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = block.split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((first, headers, body))
                data = self.answer(first, headers, body)
                writer.write(data.removesuffix(b"<hang up>"))
                if data.endswith(b"<hang up>"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def peering(answer: Callable[[str, dict[str, str], bytes], bytes] | bytes) -> AsyncIterator[Peer]:
    peer = Peer(answer if callable(answer) else lambda *_: answer)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer.url = f"http://{host}:{port}"
    try:
        yield peer
    finally:
        server.close()


def http(body: str | bytes, status: str = "200 OK", media: str = "application/json", more: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


def sse(*blocks: str, end: bool = True, media: str = "text/event-stream") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = "".join(f"{len(block.encode()):x}\r\n{block}\r\n" for block in blocks)
    return (head + chunks + ("0\r\n\r\n" if end else "<hang up>")).encode()


def result(kind: str, tree: str, id_: Any = 1) -> str:
    return tree if kind == "HTTP+JSON" else f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{tree}}}'


async def send(
    url: str, kind: str, options: DialOptions | None = None, **context: Any
) -> hub.SendMessageResponse:
    async with dialling(url, kind, options) as service:
        return await Client(service).send_message(REQUEST, CallContext(**context))


async def subscribe(url: str, kind: str, options: DialOptions | None = None, **context: Any) -> list[Any]:
    found: list[Any] = []
    async with dialling(url, kind, options) as service:
        request = hub.SubscribeToTaskRequest(id="7")
        stream = Client(service).subscribe_to_task(request, CallContext(**context))
        try:
            async for event in stream:
                found.append(event)  # noqa: PERF401  an error may come in between
        except A2AError as error:
            found.append(error)
    return found


async def failure(awaitable: Any) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await awaitable
    return caught.value
