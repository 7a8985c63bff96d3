"""Requests in pieces: the same bytes get the same answers, for any division by the network."""

from __future__ import annotations

import asyncio
import math
import re
from random import Random
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge_transports._http import events
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.protocol import Connection
from tests.patience import PATIENCE
from tests.transports.http_scene import MESSAGE, Scripted, frame, hosting, request

RPC = frame("SendMessage", {"message": MESSAGE})
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n"
SEEDS = [
    request("POST", "/", RPC),
    request("POST", "/", frame("SendStreamingMessage", {"message": MESSAGE})),
    request("GET", "/tasks/7?historyLength=1"),
    request("HEAD", "/livez"),
    request("POST", "/nothing/at/all", b"a body"),
    request("GET", "/livez", Connection="Upgrade", Upgrade="h2c"),
    request("POST", "/", RPC, Connection="Upgrade", Upgrade="h2c", Expect="100-continue"),
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nT: 1\r\n\r\n" % (len(RPC), RPC),
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (len(RPC[at : at + 9]), RPC[at : at + 9]) for at in range(0, len(RPC), 9))
    + b"0\r\n\r\n",
    b"\r\nGET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET /livez HTTP/1.0\r\n\r\n",
    b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
]
#: bytes with a meaning to the parser, which random ones seldom include
TOKENS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b" ",
    b":",
    b"\0",
    b"\xff",
    b"0",
    b"Content-Length: 3\r\n",
    b";",
    b"HTTP/1.1",
]


class Pipe(asyncio.Transport):
    """A transport that keeps the written data."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading
    abort = close


async def settled(connection: Connection) -> None:
    """Waits until the connection needs more bytes."""
    async with asyncio.timeout(PATIENCE):
        while connection._ahead or (connection.request is not None and connection.parser.complete):  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(3):  # a handler that rejects a request whose body has not come
            await asyncio.sleep(0)


async def answers(host: HttpHost, pieces: list[bytes]) -> bytes:
    """The output of a connection for these pieces, until it ends or waits for a further request."""
    connection = Connection(host)
    pipe = Pipe(connection)
    connection.connection_made(pipe)
    for piece in pieces:
        connection.data_received(piece)
        await settled(connection)
    if connection.request is not None:
        # It waits for the rest of a body, but not for ever.
        connection.end_late(connection.deadline)
        async with asyncio.timeout(PATIENCE):
            while connection.request is not None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert pipe.closed
    connection.connection_lost(None)
    return re.sub(rb"Date: [^\r]*\r\n|HTTP/1.1 100 Continue\r\n\r\n", b"", pipe.written)


def agree(pieces: bytes, whole: bytes) -> bool:
    """Whether these answers are the same, or the first ones say that a request was rejected before its body
    had come, and that this closes the connection.
    """
    if pieces == whole:
        return True
    said, expected = (re.sub(rb"Connection: [^\r]*\r\n", b"", text) for text in (pieces, whole))
    return b"Connection: close" in pieces and expected.startswith(said)


async def test_a_rejected_client_may_have_left_already() -> None:
    class Reset(Pipe):
        def write_eof(self) -> None:
            raise OSError(107, "Transport endpoint is not connected")

    async with hosting(Scripted()) as host:
        connection = Connection(host)
        pipe = Reset(connection)
        connection.connection_made(pipe)
        connection.data_received(b"nonsense\r\n\r\n")
        assert pipe.written.startswith(b"HTTP/1.1 400")
        connection.connection_lost(None)


def cut(data: bytes, random: Random) -> list[bytes]:
    places = sorted(random.randrange(len(data)) for _ in range(random.choice([1, 2, 5, 40])))
    return [
        data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if start < end
    ]


@pytest.mark.parametrize("mutations", [0, 1, 4])
async def test_answers_do_not_depend_on_the_pieces(
    mutations: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "BATCH_TIME", math.inf)  # chunks of a stream must not depend on the clock
    random = Random(mutations)
    statuses = set()
    async with hosting(Scripted(), options=HostOptions(max_header=1000, max_body=1000)) as host:
        for _ in range(400):
            data = bytearray(b"".join(random.choices(SEEDS, k=random.randint(1, 4))))
            for _ in range(mutations):
                at = random.randrange(len(data))
                data[at : at + random.randint(0, 2)] = random.choice([*TOKENS, random.randbytes(2)])
            whole = await answers(host, [bytes(data)])
            pieces = cut(bytes(data), random)
            assert agree(await answers(host, pieces), whole), pieces
            statuses.update(re.findall(rb"HTTP/1.1 (\d+)", whole))
        every = b"".join(seed for seed in SEEDS[:-2] if b"/nothing" not in seed)
        assert await answers(host, [every[at : at + 1] for at in range(len(every))]) == await answers(
            host, [every]
        )
    assert b"200" in statuses
    assert (b"400" in statuses) == (mutations > 0)
    assert not [status for status in statuses if status >= b"500"]
    assert not caplog.records
