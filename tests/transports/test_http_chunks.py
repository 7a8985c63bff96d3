"""Chunked bodies in the parser of requests: their cost, their limits, and every cut of the stream of bytes."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from a2a_bridge.testing.each import each
from a2a_bridge_transports._http.parser import MalformedError, RequestParser

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_body_in_tiny_chunks_takes_little_more_memory_than_its_size() -> None:
    parser = RequestParser(16 * 1024)
    size = 400_000
    data = CHUNKED + b"2\r\n[]\r\n" * (size // 2) + b"0\r\n\r\n"
    tracemalloc.start()
    try:
        at = 0
        while not parser.complete:
            at = parser.feed(data, at)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parser.take_body() == b"[]" * (size // 2)
    assert peak < 4 * size


def test_line_ends_in_a_chunk_do_not_interrupt_its_reading() -> None:
    parser = RequestParser(16 * 1024)
    content = b"\r\n" * 100_000
    data = CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    at = reads = 0
    while not parser.complete:
        at = parser.feed(data, at)
        reads += 1
    assert (at, reads, parser.take_body()) == (len(data), 2, content)


def test_any_chunks_in_any_pieces_are_read_to_their_end() -> None:
    random = Random(26)
    for _ in range(300):
        parts = [
            random.choice([b"\r\n", b"0\r\n\r\n", b"x", b"5\r\n"]) * random.randrange(12) for _ in range(6)
        ]
        extension = random.choice([b"", b"", b";a", b";a=b"])
        chunks = [b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts if part]
        last = random.choice([b"0\r\n", b"000\r\n", b"0;a\r\n"]) + random.choice(
            [b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]
        )
        data = CHUNKED + b"".join(chunks) + last + b"\r\n"
        following = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        parser = RequestParser(16 * 1024)
        rest, at = data + following, 0
        while rest and not parser.complete:
            size = random.randint(1, 40)
            piece, rest = rest[:size], rest[size:]
            taken = 0
            while taken < len(piece) and not parser.complete:
                taken = parser.feed(piece, taken)
            at += taken
        assert parser.complete
        assert (at, parser.take_body()) == (len(data), b"".join(parts))


def feed_all(parser: RequestParser, body: bytes, size: int) -> None:
    """Feeds a body in pieces of a size."""
    for start in range(0, len(body), size):
        at, piece = 0, body[start : start + size]
        while at < len(piece):
            at = parser.feed(piece, at)


@each(
    "body",
    [
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"\r\nhello\r\n",
        b"5\nhello\r\n",
        b"4\r\nhello\r\n",
        b"5\r\nhellox0\r\n\r\n",
        b"-1\r\n",
        b"1_0\r\n",
        b"%s\r\n" % (b"f" * 17),
        b"5;%s\r\n" % (b"a" * 6000),
    ],
)
def test_malformed_chunks(body: bytes) -> None:
    for size in (1, 3, len(body)):
        parser = RequestParser(16 * 1024)
        parser.feed(CHUNKED)
        with pytest.raises(MalformedError):
            feed_all(parser, body, size)
