"""Responses of agents that have not arrived as a whole: they count in memory, and are bounded together."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import FrameType
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions, connect, serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import Arriving, MemoryAccount, in_work
from a2a_bridge.cards.select import select
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge_transports._http.session import Exchanger
from a2a_bridge_transports._http.sse import Decoder
from tests.patience import PATIENCE

MIB = 1 << 20
#: bytes of one piece of a stream
PIECE = 64 * 1024


# ------------------------------------------------------------------ one event


@pytest.mark.parametrize("line", [b"data: ab\n", b"data: ab\r\n", b"data\n"])
def test_lines_of_an_event_take_their_length(line: bytes) -> None:
    decoder = Decoder(64 * MIB)
    chunk = line * (PIECE // len(line))
    tracemalloc.start()
    try:
        for _ in range(16):
            decoder.feed(chunk)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * decoder.held + PIECE
    assert decoder.held == 16 * (PIECE // len(line)) * (3 if b"ab" in line else 1)


def test_small_chunks_of_a_line_take_their_length() -> None:
    decoder = Decoder(64 * MIB)
    tracemalloc.start()
    try:
        for _ in range(100_000):
            decoder.feed(b"ab")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * decoder.held == 400_000


@pytest.mark.parametrize("ends", [b"\r", b"\n", b"\r\n"])
def test_empty_lines_take_no_step_each(ends: bytes) -> None:
    decoder = Decoder(MIB)
    steps = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        decoder.feed(b"data: a\n\n" + ends * PIECE)
    finally:
        sys.settrace(before)
    assert steps < 200


class Response:
    """A response whose chunks are all there at once. It is its own content."""

    def __init__(self, *chunks: bytes) -> None:
        self.content = self
        self.chunks = list(chunks)

    async def readany(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def set_exception(self, error: BaseException) -> None:
        raise error


async def test_a_large_chunk_is_read_in_several_turns() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    exchanger: Any = Exchanger(None, DialOptions())  # type: ignore[arg-type]  # it connects to nothing here
    response = Response(b": a comment\n" * (MIB // 12) + b"data: x\n\n")
    found = [event async for events in exchanger.events(response) for event in events]
    counting.cancel()
    assert [event.data for event in found] == [b"x"]
    assert turns >= MIB // PIECE


# ------------------------------------------------------------------ all responses


def test_the_largest_response_ends() -> None:
    memory = MemoryAccount(10 * MIB)
    ended: list[A2AError] = []
    stalled, growing = Arriving(memory, ended.append), Arriving(memory, pytest.fail)
    stalled.resize(6 * MIB)
    growing.resize(3 * MIB)
    assert not ended
    growing.resize(5 * MIB)
    assert [(error.reason, error.blame) for error in ended] == [(Reason.RESOURCE_EXHAUSTED, Blame.SELF)]
    assert stalled.held == 0
    with pytest.raises(A2AError) as caught:
        growing.resize(11 * MIB)
    assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
    growing.release()
    assert in_work.held == 0


async def _endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(head)
    try:
        while True:
            writer.write(b"data: ab\n" * 4096)
            await writer.drain()
    except ConnectionError:
        pass  # what the test wants
    finally:
        writer.close()


@pytest.fixture(params=["text/event-stream", "application/json"])
async def hostile(request: Any) -> AsyncIterator[str]:
    """The URL of an agent whose response does not end."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {request.param}\r\n\r\n".encode()
    server = await asyncio.start_server(lambda *pair: _endless(*pair, head), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"http://{host}:{port}"
    server.close()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_an_endless_response_ends_at_the_limit_of_the_gateway(hostile: str, binding: str) -> None:
    card = hub.AgentCard(
        name="hostile",
        description="d",
        version="1",
        capabilities=hub.AgentCapabilities(streaming=True),
        supported_interfaces=[
            hub.AgentInterface(url=hostile, protocol_binding=binding, protocol_version="1.0")
        ],
    )
    limit = 4 * MIB
    options = ServeOptions(store_options=StoreOptions(max_memory=limit))
    seen: list[int] = []

    async def watch() -> None:
        while True:
            seen.append(in_work.held)
            await asyncio.sleep(0)

    async with (
        asyncio.timeout(PATIENCE),
        serve_gateway(card, select(card, known=[binding]), options=options) as gateway,
        connect(gateway.card) as peer,
    ):
        watching = asyncio.create_task(watch())
        found = await asyncio.gather(*(_failure(peer) for _ in range(3)))
        watching.cancel()
    assert {error.reason for error in found} == {Reason.RESOURCE_EXHAUSTED}
    assert MIB < max(seen) < limit + MIB
    assert in_work.held == 0


async def _failure(peer: Any) -> A2AError:
    async def read() -> None:
        async with aclosing(peer.stream("hi")) as events:
            async for _ in events:
                pass

    with pytest.raises(A2AError) as caught:
        await read()
    return caught.value
