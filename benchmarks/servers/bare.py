"""httptools and grpc.aio alone: the floor under both sides. They know no A2A and answer with prepared bytes.

`POST /` echoes, `POST /events` streams, the gRPC methods do the same, and with `--upstream` `POST /` forwards
to a gRPC echo: the least that a gateway can do. The HTTP server has no limits and no timeouts.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import cast

import grpc
import httptools

from benchmarks import agent
from benchmarks.servers.listening import LOOPBACK, listen, ready

EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"%s"}}}\n\n' % (b"x" * 250)
MESSAGE = b"x" * 200
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)

Forward = Callable[[bytes], Coroutine[None, None, bytes]]


class Http(asyncio.Protocol):
    """One connection. forward: answers `POST /`; None: the response is the request."""

    def __init__(self, forward: Forward | None) -> None:
        self._forward = forward
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._body = b""
        self._target = b""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._target = url

    def on_header(self, name: bytes, value: bytes) -> None:
        pass

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if self._target == b"/events":
            self._start(self._events())
        elif self._forward is not None:
            self._start(self._answer(self._forward(body)))
        else:
            self._write(ANSWER % (len(body), body))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(task := asyncio.ensure_future(work))
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, work: Coroutine[None, None, bytes]) -> None:
        body = await work
        self._write(ANSWER % (len(body), body))

    async def _events(self) -> None:
        self._write(STREAM)
        for _ in range(agent.EVENTS):
            self._write(CHUNK)
            await asyncio.sleep(0)
        self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        # A load generator disconnects in the middle of streams when its time is over.
        if self._transport is not None:
            self._transport.write(data)


def forwarding(channel: grpc.aio.Channel) -> Forward:
    call = channel.unary_unary(method("SendMessage"))

    async def forward(body: bytes) -> bytes:
        answer = await call(body, metadata=(("a2a-version", agent.VERSION),), timeout=60)
        return cast("bytes", answer)

    return forward


def method(name: str) -> str:
    return f"/lf.a2a.v1.A2AService/{name}"


class Echo(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """SendMessage echoes its bytes; SendStreamingMessage answers with MESSAGE, `agent.EVENTS` times."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method == method("SendMessage"):
            return grpc.unary_unary_rpc_method_handler(self.unary)
        if details.method == method("SendStreamingMessage"):
            return grpc.unary_stream_rpc_method_handler(self.stream)
        return None

    async def unary(self, request: bytes, _: grpc.aio.ServicerContext) -> bytes:
        return request

    async def stream(self, _request: bytes, _: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        for _ in range(agent.EVENTS):
            yield MESSAGE


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", help="host:port of a gRPC server that POST / forwards to")
    upstream = parser.parse_args().upstream
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    forward = forwarding(grpc.aio.insecure_channel(upstream)) if upstream else None
    opened, http = listen()
    await asyncio.get_running_loop().create_server(partial(Http, forward), sock=opened)
    ready(http=http, grpc=port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
