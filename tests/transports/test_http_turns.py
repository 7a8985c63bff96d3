"""What clients cost that send much or read nothing: their share in each turn of the event loop, their memory, and
the end of the host.
"""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator
from math import inf
from typing import Any

import orjson
import pytest

from a2a_bridge.core.call import Call
from a2a_bridge_transports._http import host as http_host
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.protocol import SHARE, Connection
from tests.patience import PATIENCE
from tests.transports.http_scene import MESSAGE, Scripted, ask, frame, hosting, request, update, wire

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
#: bytes that asyncio and uvloop read at once, at most
READ = 256 * 1024


def fill(client: socket.socket, data: bytes) -> int:
    """Sends what the system takes at once."""
    sent = 0
    while sent < len(data):
        try:
            sent += client.send(data[sent:])
        except BlockingIOError:
            break
    return sent


async def bytes_by_turn(monkeypatch: pytest.MonkeyPatch) -> tuple[int, Counter[int]]:
    """The bytes that a client has sent at once, and those that the host has read of them in each turn."""
    loop, turn, read, running = asyncio.get_running_loop(), 0, Counter[int](), True
    received = Connection.data_received

    def count() -> None:
        nonlocal turn
        turn += 1
        if running:
            loop.call_soon(count)

    def counted(connection: Connection, data: bytes) -> None:
        read[turn] += len(data)
        received(connection, data)

    monkeypatch.setattr(Connection, "data_received", counted)
    async with hosting(Scripted()) as host:
        with socket.create_connection((host.address.host, host.address.port)) as client:
            client.setblocking(False)
            async with asyncio.timeout(PATIENCE):
                while not host.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                count()
                sent = fill(client, CHUNKED + b"2\r\n[]\r\n" * 500_000)
                while read.total() < sent:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                running = False
        assert (await ask(host, request("GET", "/livez"))).status == 200
    return sent, read


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_little_is_read_of_a_connection_in_one_turn(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop reads up to 32 times in a row, which was seconds for others if the bytes are chunks of two."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        sent, read = runner.run(bytes_by_turn(monkeypatch))
    assert sent > 2 * READ
    assert max(read.values()) < READ + SHARE


class Pausing(asyncio.Transport):
    """Shows whether it reads."""

    reads = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None: ...

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


async def test_a_rest_ends_with_the_turn_and_a_pause_does_not() -> None:
    async with hosting(Scripted()) as host:
        connection, transport = Connection(host), Pausing()
        connection.connection_made(transport)
        connection.deadline = inf
        connection.data_received(CHUNKED)
        await asyncio.sleep(0)
        part = b"%x\r\n%s\r\n" % (SHARE, b"x" * SHARE)
        connection.resume_reading()
        connection.data_received(part)
        assert not transport.reads
        connection.resume_reading()  # as a handler that asks for more; the turn is not over
        assert not transport.reads
        await asyncio.sleep(0)
        assert transport.reads
        connection.data_received(part)
        connection.pause_reading()
        await asyncio.sleep(0)
        assert not transport.reads
        connection.resume_reading()
        assert transport.reads
        connection.connection_lost(None)


async def silent(host: HttpHost, client: socket.socket) -> None:
    """Asks for a large stream and reads nothing of it."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host.address.host, host.address.port))
    body = orjson.dumps({"message": MESSAGE})
    head = (
        "POST /message:stream HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    )
    await loop.sock_sendall(client, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(PATIENCE):
        while not any(one.is_full for one in host.connections):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_after_the_grace_nobody_waits_for_clients_that_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: three times as long as last words may take, after the grace."""

    async def pour(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        while True:
            yield update("x" * 100_000)

    monkeypatch.setattr(http_host, "LAST_WORDS", 2 * PATIENCE)
    with socket.socket() as client:
        async with hosting(Scripted(on_stream=pour)) as host:
            await silent(host, client)
            async with asyncio.timeout(PATIENCE):
                await host.drain(0)
            assert not host.connections


async def test_an_event_that_waits_for_its_reader_is_held_once() -> None:
    size = 8_000_000

    async def large(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("x" * size)

    with socket.socket() as client:
        async with hosting(Scripted(on_stream=large)) as host:
            tracemalloc.start()
            try:
                await silent(host, client)
                await asyncio.sleep(0)
                held = [
                    one.size
                    for one in tracemalloc.take_snapshot().traces
                    if one.size > size // 2  # the event, and what waits to be sent
                ]
            finally:
                tracemalloc.stop()
    assert len(held) == 1, held


async def test_nothing_is_written_to_a_closed_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Of a client that closes its half while requests of it wait, so that the transport closes."""
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(
            b"".join(
                request("POST", "/", frame("SendMessage", {"message": MESSAGE}, id_=number))
                for number in range(200)
            )
        )
        connection.writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await connection.reader.read()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
