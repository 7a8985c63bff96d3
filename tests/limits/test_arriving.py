"""Responses of agents that have not arrived as a whole: they count in memory, and are bounded together."""

import asyncio
import io
import json
import socket
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import FrameType
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from a2a_bridge import Run
from a2a_bridge.app.runtime import ServeOptions, connect, serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import Arriving, MemoryAccount, in_work
from a2a_bridge.cards.select import select
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.gateway.identity_names import IdentityTable, Name
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.middleware import spans
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge_tools.client.recording import calls_of, lines_of
from a2a_bridge_transports._http.session import Exchanger
from a2a_bridge_transports._http.sse import Decoder
from tests.limits.scene import BINDINGS, agent, peers, served
from tests.patience import PATIENCE
from tests.rejections import rejected

MIB = 1 << 20
#: bytes of one piece of a stream
PIECE = 64 * 1024


# --- one event ---
@pytest.mark.parametrize("line", [b"data: ab\n", b"data: ab\r\n", b"data\n"])
def test_lines_of_an_event_take_their_length(line: bytes) -> None:
    decoder = Decoder(64 * MIB)
    chunk = line * (PIECE // len(line))
    tracemalloc.start()
    try:
        for _ in range(8):
            decoder.feed(chunk)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * decoder.held + PIECE
    assert decoder.held == 8 * (PIECE // len(line)) * (3 if b"ab" in line else 1)


def test_small_chunks_of_a_line_take_their_length() -> None:
    decoder = Decoder(64 * MIB)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            decoder.feed(b"ab")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * decoder.held == 80_000


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
    """A response whose chunks are all there at once."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    async def read(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def end(self, error: BaseException) -> None:
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


# --- all responses ---
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
    with rejected(Reason.RESOURCE_EXHAUSTED):
        growing.resize(11 * MIB)
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


# --- Large requests and answers count in the memory account only while they are processed ---
class Echo:
    """Repeats its message, once a test allows it."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.reached.set()
        await self.go.wait()
        yield run.reply(run.text)


@pytest.mark.parametrize("kind", BINDINGS)
async def test_requests_count_in_memory_until_they_are_answered(kind: str) -> None:
    echo = Echo()
    options = ServeOptions(store_options=StoreOptions(max_memory=2 * MIB))
    async with served(agent(echo), options) as server, peers(server) as callers, asyncio.timeout(PATIENCE):
        answer = asyncio.create_task(callers[kind].send("x" * MIB))
        await echo.reached.wait()
        assert MIB <= in_work.held < 2 * MIB
        with rejected(Reason.RESOURCE_EXHAUSTED):
            await callers[kind].send("y" * MIB)
        echo.go.set()
        assert (await callers[kind].send("small")).text == "small"
        assert (await answer).text == "x" * MIB
    assert in_work.held == 0


class Large:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.artifact("x" * 8 * MIB)
        yield run.status("completed")


@pytest.mark.parametrize("path", ["/", "/message:stream"])
async def test_events_that_nobody_reads_count_in_memory(path: str) -> None:
    """They wait in the buffers of connections: hundreds of readers held more than twice the limit."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    tree: dict[str, Any] = {"message": message}
    if path == "/":
        tree = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": tree}
    body = json.dumps(tree)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    loop = asyncio.get_running_loop()
    async with served(agent(Large()), ServeOptions()) as server, asyncio.timeout(PATIENCE):
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.setblocking(False)
            await loop.sock_connect(reader, (server.http.host, server.http.port))
            await loop.sock_sendall(reader, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            while in_work.held < 5 * MIB:  # noqa: ASYNC110  there is no notification; the kernel has the rest
                await asyncio.sleep(0.001)
        while in_work.held:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# --- What a process remembers under keys that strangers choose has a bound in bytes ---

SCOPE = Scope("", "ann")


async def test_ids_of_sent_messages_and_their_responses_count_in_the_account() -> None:
    store = MemoryStore(max_memory=8 * MIB)
    assert await store.sends.reserve(SCOPE, "first", b"digest", "t") is None
    await store.sends.store_response(SCOPE, "first", b"x" * MIB)
    assert MIB < store.memory.used < 1.1 * MIB
    for number in range(20):
        assert await store.sends.reserve(SCOPE, f"{number} " + "x" * MIB, b"digest", "t") is None
        assert store.memory.used <= 8 * MIB
    assert store.memory.rejection() is None
    known = await store.sends.reserve(SCOPE, "19 " + "x" * MIB, b"digest", "t")
    assert known is not None
    assert await store.sends.reserve(SCOPE, "first", b"digest", "t") is None  # it was evicted
    used = store.memory.used
    await store.sends.forget(SCOPE, "19 " + "x" * MIB)
    assert store.memory.used < used - MIB


def test_names_of_callers_count_by_their_length() -> None:
    memory = MemoryAccount(8 * MIB)
    table = IdentityTable(Tasks(memory))
    for number in range(8):
        table.keep(SCOPE, Name(f"{number} " + "x" * MIB, f"t{number}", "s" * MIB))
        assert memory.used <= 8 * MIB
    assert [number for number in range(8) if table.find(SCOPE, f"{number} " + "x" * MIB)] == [5, 6, 7]


@pytest.mark.parametrize(("length", "known"), [(10, True), (MIB, False)])
async def test_spans_of_tasks_with_long_ids_are_not_remembered(length: int, known: bool) -> None:
    agent, task_id = Probe(), "x" * length

    agent.on_unary = answering(hub.SendMessageResponse(task=hub.Task(id=task_id)))
    traced = spans.Traced(agent, TracerProvider().get_tracer("test"))
    trace = {"traceparent": f"00-{1:032x}-{1:016x}-01", "tracestate": "a=" + "x" * 200}
    await traced.unary(Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), CallContext(parameters=trace)))
    found = spans._messages.pop(task_id, None)
    assert (found is not None) is known
    assert found is None or (found.trace_id, len(found.trace_state)) == (1, 0)


def test_lines_of_a_record_are_read_one_after_another() -> None:
    file = io.BytesIO(b'{"at": 1}\n' * 3 + b'{"at": "' + b"x" * MIB + b'"}\n')
    lines = lines_of(file, 1000)
    assert next(lines) == b'{"at": 1}\n'
    assert file.tell() == 10
    with pytest.raises(ValueError, match="line 4 is no line of a record: it has more than 1000 bytes"):
        calls_of(lines)
