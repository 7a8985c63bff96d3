"""aiohttp and grpc.aio alone: the floor under both sides. They know no A2A and answer with octets made
before.

`POST /` echoes, `POST /events` streams, the gRPC methods do the same, and with `--upstream` `POST /` forwards
to a gRPC echo: the least that a gateway can do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import grpc
from aiohttp import web

from benchmarks import agent
from benchmarks.servers.listening import LOOPBACK, listen, ready

EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"%s"}}}\n\n' % (b"x" * 250)
MESSAGE = b"x" * 200
JSON = "application/json"


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), content_type=JSON)


async def events(request: web.Request) -> web.StreamResponse:
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    # A load generator leaves in the middle of streams when its time is over.
    with contextlib.suppress(ConnectionResetError):
        await response.prepare(request)
        for _ in range(agent.EVENTS):
            await response.write(EVENT)
        await response.write_eof()
    return response


def forwarding(channel: grpc.aio.Channel) -> Callable[[web.Request], object]:
    call = channel.unary_unary(method("SendMessage"))

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        answer = await call(body, metadata=(("a2a-version", agent.VERSION),), timeout=60)
        return web.Response(body=answer, content_type=JSON)

    return forward


def method(name: str) -> str:
    return f"/lf.a2a.v1.A2AService/{name}"


class Echo(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """SendMessage echoes its octets; SendStreamingMessage answers with MESSAGE, `agent.EVENTS` times."""

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
    app = web.Application()
    channel = grpc.aio.insecure_channel(upstream) if upstream else None
    app.router.add_post("/", forwarding(channel) if channel else echo)  # type: ignore[arg-type]
    app.router.add_post("/events", events)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    opened, http = listen()
    await web.SockSite(runner, opened).start()
    ready(http=http, grpc=port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
