"""Holds streams open without reading them, while the cost of an idle open stream is measured.

Arguments: the binding (`JSONRPC` or `GRPC`) and `host:port`. Each line on standard input is a number of
further streams to open; `open TOTAL` is the response once each has sent its first two events.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

from benchmarks import agent
from benchmarks.tools import Target
from benchmarks.work import STREAM, Work, is_stream

EVENTS = 2
SECONDS = 30.0


async def hold_sse(target: Target) -> Any:
    host, _, port = target.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    fields = {"Host": target.address, "Content-Length": str(len(target.body)), **target.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"POST {target.path} HTTP/1.1\r\n{head}\r\n".encode() + target.body)
    if b" 200 " not in await reader.readline():
        raise RuntimeError("the stream was rejected")
    for _ in range(EVENTS):
        while not (await reader.readline()).startswith(b"data:"):
            if reader.at_eof():
                raise RuntimeError("the stream ended")
    return reader, writer


async def hold_grpc(target: Target, channel: grpc.aio.Channel) -> Any:
    call = channel.unary_stream(target.path)(target.body[5:], metadata=(("a2a-version", agent.VERSION),))
    for _ in range(EVENTS):
        if await call.read() is grpc.aio.EOF:
            raise RuntimeError("the stream ended")
    return call


def main() -> None:
    kind, address = sys.argv[1:]
    target = Work("hold", kind, STREAM, agent.HOLD, None, is_stream, EVENTS).target(address)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    channel = grpc.aio.insecure_channel(address) if kind == "GRPC" else None

    async def more(count: int) -> list[Any]:
        async with asyncio.timeout(SECONDS):
            return [await (hold_grpc(target, channel) if channel else hold_sse(target)) for _ in range(count)]

    held: list[Any] = []
    # Between the lines no loop runs: the streams stay open and are not read.
    for line in sys.stdin:
        held += loop.run_until_complete(more(int(line)))
        print("open", len(held), flush=True)


if __name__ == "__main__":
    main()
