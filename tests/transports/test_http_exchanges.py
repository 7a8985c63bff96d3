"""What an agent may do wrong on a connection, in any pieces; and that no call gets bytes of another."""

import asyncio
import gzip
import tracemalloc
from math import inf
from random import Random

import pytest

from a2a_bridge.testing.each import each
from a2a_bridge_transports._http.agent_connection import READ_AHEAD, Exchange
from a2a_bridge_transports._http.decoding import STEP, decoder_of
from tests.transports.exchange_scene import (
    GOOD,
    LINE,
    SHAPES,
    Outcome,
    Pipe,
    chunked,
    coded,
    connection_to,
    exchanged,
    head,
    head_of,
    plain,
)

#: bodies of up to this length are cut at each byte
CUT = 600


def test_the_table_has_enough_shapes() -> None:
    assert len({name for name, *_ in SHAPES}) == len(SHAPES) > 60


@each("name, data, ends, kind, body, kept", SHAPES)
async def test_an_agent_that_does_something_odd(
    name: str, data: bytes, ends: bool, kind: str, body: bytes, kept: bool
) -> None:
    """The outcome does not depend on the pieces in which the response comes."""
    cuts = [[data]]
    if len(data) <= CUT:
        cuts += [[data[:at], data[at:]] for at in range(1, len(data))]
        cuts.append([data[at : at + 1] for at in range(len(data))])
    else:
        cuts += [[data[:at], data[at:]] for at in range(97, len(data), len(data) // 7)]
    for pieces in cuts:
        connection = connection_to(Pipe())
        # A loss while the response is not complete is part of the shapes only where they say so.
        found = await exchanged(connection, [*filter(None, pieces), *([b""] if ends else [])], then_end=False)
        expected = Outcome(kind, found.status if kind == GOOD else 0, body, kept)
        assert found == expected, (name, pieces[0][-20:])
        connection.connection_lost(None)


@each("late", [plain(b"another's"), b"\r\n", b"H", head("408 Request Timeout"), b"\x16"])
async def test_what_comes_between_calls_is_for_no_call(late: bytes) -> None:
    connection = connection_to(Pipe())
    assert (await exchanged(connection, [plain()])).kept
    connection.data_received(late)
    assert not connection.is_connected()
    assert connection.should_close


#: what mutations put into a response
TOKENS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"0",
    b"0\r\n\r\n",
    b":",
    b" ",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"Content-Length: 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Content-Encoding: gzip\r\n",
    b"\xff",
]
SEEDS = [data for _, data, _, kind, _, _ in SHAPES if kind == GOOD]


def mutated(random: Random) -> bytes:
    data = bytearray(random.choice(SEEDS))
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at:at] = random.choice(TOKENS)
            case 1:
                del data[at : at + random.choice([1, 2, 10])]
            case 2:
                data[at : at + 1] = bytes([random.randrange(256)])
            case _:
                other = random.choice(SEEDS)
                data[at:] = other[random.randrange(len(other)) :]
    return bytes(data)


@pytest.mark.parametrize("part", range(4))
async def test_mutated_responses_are_for_their_own_call_only(part: int) -> None:
    """20,000 responses. Of each, all bytes come before the next call begins; the next call gets its own response,
    or another connection.
    """
    random = Random(part)
    kinds = set()
    for number in range(5000):
        data = mutated(random)
        connection = connection_to(Pipe())
        places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 1, 5])))
        pieces = [
            data[start:end]
            for start, end in zip([0, *places], [*places, len(data)], strict=True)
            if start < end
        ]
        late = pieces.pop() if len(pieces) > 1 and random.random() < 0.3 else b""
        first = await exchanged(connection, pieces)
        kinds.add((first.kind, first.kept))
        assert first.kept <= (first.kind != "malformed")
        if late and first.kept:
            connection.data_received(late)
        if connection.is_connected() and not connection.should_close:
            own = b"the next %d" % number
            second = await exchanged(connection, [plain(own)])
            assert (second.kind, second.body) == (GOOD, own), (data, pieces)
        connection.connection_lost(None)
    assert len(kinds) >= 5


# --- sizes ---
async def test_a_response_that_is_not_read_waits_in_the_agent() -> None:
    connection, size, sent = connection_to(pipe := Pipe()), 64 * 1024, 0
    exchange = Exchange(connection, b"", None, inf, None)
    connection.data_received(head(Content_Length=8 << 20))
    await head_of(exchange)
    while True:
        for _ in range(2):  # a turn of the loop, after which a share of the connection ends
            await asyncio.sleep(0)
        if not pipe.reads:
            break
        connection.data_received(b"x" * size)
        sent += size
    assert READ_AHEAD < sent <= READ_AHEAD + size
    assert len(await exchange.read()) == sent
    assert pipe.reads
    exchange.close()
    assert connection.should_close  # the rest did not come


async def test_little_is_read_of_a_connection_in_one_turn() -> None:
    connection = connection_to(pipe := Pipe())
    exchange = Exchange(connection, b"", None, inf, None)
    connection.data_received(LINE + b"\r\n" + b"x" * 100_000)
    assert not pipe.reads
    await asyncio.sleep(0)
    assert pipe.reads
    exchange.close()


async def test_a_body_in_tiny_chunks_takes_little_more_memory_than_its_size() -> None:
    connection, size = connection_to(Pipe()), 200_000
    exchange = Exchange(connection, b"", None, inf, None)
    data = chunked(*[b"[]"] * (size // 2))
    tracemalloc.start()
    try:
        for at in range(0, len(data), 64 * 1024):
            connection.data_received(data[at : at + 64 * 1024])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(await exchange.read()) == size
    assert peak < 4 * size
    exchange.close()


async def test_a_bomb_is_expanded_only_as_far_as_it_is_read() -> None:
    bomb = gzip.compress(bytes(100 << 20))
    connection = connection_to(Pipe())
    exchange = Exchange(connection, b"", None, inf, None)
    connection.data_received(coded("gzip", bomb))
    await head_of(exchange)
    tracemalloc.start()
    try:
        read = 0
        while read < 1 << 20:
            found = await exchange.read()
            assert len(found) <= STEP
            read += len(found)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    exchange.close()


def test_a_step_may_end_where_the_input_does() -> None:
    """zlib may hold content back when its input has ended, for the next step."""
    random, content = Random(3), b""
    for _ in range(200):
        content = random.randbytes(random.randrange(300)) + bytes(random.randrange(5 * STEP))
        decoder, packed, found = decoder_of(["gzip"]), gzip.compress(content), b""
        assert decoder is not None
        for at in range(0, len(packed), 50):
            decoder.feed(packed[at : at + 50])
            while piece := decoder.step():
                found += piece
        decoder.end()
        assert found == content
