"""The share of a connection in each turn of the event loop: clients that send much do not keep others waiting."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from math import inf
from typing import Any

import pytest

from a2a_bridge_transports._http.protocol import SHARE, Connection
from tests.patience import PATIENCE
from tests.transports.http_scene import Scripted, ask, hosting, request

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
