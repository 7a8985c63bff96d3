"""How much of a response is read at a time, and how much memory it takes: small chunks, bombs, a slow reader."""

import asyncio
import gzip
import tracemalloc
from math import inf
from random import Random

from a2a_bridge_transports._http.agent_connection import READ_AHEAD, Exchange
from a2a_bridge_transports._http.decoding import STEP, decoder_of
from tests.transports.exchange_scene import LINE, Pipe, chunked, coded, connection_to, head, head_of


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
