"""Responses of an agent in any pieces, and what the client side makes of them. No tests."""

import asyncio
import gzip
import zlib
from dataclasses import dataclass
from math import inf
from typing import Any

import aiohttp

from a2a_bridge_transports._http.agent_connection import Connection, Exchange, NoResponseError
from a2a_bridge_transports._http.decoding import UndecodableError
from a2a_bridge_transports._http.response_parser import MOST_HEAD, MOST_INTERIM, MOST_LINES

#: the end of the connection, as a piece
END = b""

#: what a response comes to
GOOD, MALFORMED, BROKEN, UNDECODED, WAITS = "good", "malformed", "broken", "undecoded", "waits"


class WaitsError(Exception):
    """More of the response is awaited."""


class Pipe(asyncio.Transport):
    """A transport that keeps what is written and shows whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reads = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    abort = close


@dataclass
class Outcome:
    """What one call got. kept: whether the connection serves a further call."""

    kind: str
    status: int = 0
    body: bytes = b""
    kept: bool = False


def connection_to(pipe: Pipe) -> Connection:
    connection = Connection(asyncio.get_running_loop())
    connection.connection_made(pipe)
    return connection


async def exchanged(connection: Connection, pieces: list[bytes], *, then_end: bool = True) -> Outcome:
    """The outcome of a call whose response is these pieces. then_end: the connection ends after them, if the call
    still waits.
    """
    exchange = Exchange(connection, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, inf, None)
    for piece in pieces:
        if piece == END:
            connection.eof_received()
            assert connection.transport is not None
            connection.transport.close()  # as transports do
        else:
            connection.data_received(piece)
    outcome = Outcome(BROKEN)
    try:
        body = b""
        reading = asyncio.ensure_future(_read(exchange))
        for _ in range(3):
            await asyncio.sleep(0)
        if not reading.done():
            if then_end:
                connection.eof_received()
            else:
                exchange.end(WaitsError())
        body = await reading
        outcome = Outcome(GOOD, exchange.status, body)
    except NoResponseError:
        outcome = Outcome(MALFORMED)
    except UndecodableError:
        outcome = Outcome(UNDECODED)
    except WaitsError:
        outcome = Outcome(WAITS)
    except aiohttp.ClientError:
        pass
    finally:
        exchange.close()
    outcome.kept = not connection.should_close and connection.is_connected()
    return outcome


async def head_of(exchange: Exchange) -> None:
    """Waits for the head of the response."""
    while not exchange.parser.has_head:
        await exchange.more()


async def _read(exchange: Exchange) -> bytes:
    body = b""
    await head_of(exchange)
    while found := await exchange.read():
        body += found
    return body


def head(status: str = "200 OK", **headers: Any) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


def plain(body: bytes = b"ok", status: str = "200 OK", **headers: Any) -> bytes:
    return head(status, **headers, Content_Length=len(body)) + body


def chunked(*chunks: bytes, last: bytes = b"0\r\n\r\n", **headers: Any) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head(**headers, Transfer_Encoding="chunked") + body + last


def coded(coding: str, body: bytes) -> bytes:
    return plain(body, Content_Encoding=coding)


def _raw(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


LINE = b"HTTP/1.1 200 OK\r\n"
SMUGGLED = plain(b"another's")
ZIPPED = gzip.compress(b"ok")

#: (what the agent does, its bytes, whether the connection then ends, the outcome, the body, kept)
SHAPES: list[tuple[str, bytes, bool, str, bytes, bool]] = [
    # --- bodies and their lengths ---
    ("a body of its length", plain(), False, GOOD, b"ok", True),
    ("an empty body", plain(b""), False, GOOD, b"", True),
    (
        "no reason in the status line",
        LINE.replace(b" OK", b"") + b"Content-Length: 2\r\n\r\nok",
        False,
        GOOD,
        b"ok",
        True,
    ),
    ("an empty line before", b"\r\n" + plain(), False, GOOD, b"ok", True),
    ("a shorter body, then the end", plain(b"okay")[:-1], True, BROKEN, b"", False),
    ("a longer body", plain() + b"more", False, GOOD, b"ok", False),
    ("a body up to the end", head() + b"ok", True, GOOD, b"ok", False),
    ("an empty body up to the end", head(), True, GOOD, b"", False),
    (
        "two lengths that differ",
        LINE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "one length twice",
        LINE + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("a list of lengths", LINE + b"Content-Length: 2, 2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a length with a sign", LINE + b"Content-Length: +2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a negative length", LINE + b"Content-Length: -2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a length in hexadecimal", LINE + b"Content-Length: 0x2\r\n\r\nok", False, MALFORMED, b"", False),
    ("an empty length", LINE + b"Content-Length: \r\n\r\nok", False, MALFORMED, b"", False),
    (
        "a length beyond 64 bits",
        LINE + b"Content-Length: 18446744073709551618\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("204 with a body", plain(status="204 No Content"), False, GOOD, b"", False),
    ("204 without one", head("204 No Content"), False, GOOD, b"", True),
    ("304 with a length", head("304 Not Modified", Content_Length=5), False, GOOD, b"", True),
    ("205 with a body", plain(status="205 Reset Content"), False, GOOD, b"ok", True),
    ("nothing", b"", True, BROKEN, b"", False),
    ("half a head, then the end", LINE + b"Content-", True, BROKEN, b"", False),
    # --- chunks ---
    ("chunks", chunked(b"o", b"k"), False, GOOD, b"ok", True),
    (
        "chunks with extensions",
        head(Transfer_Encoding="chunked") + b"2;a=b;c\r\nok\r\n0;d\r\n\r\n",
        False,
        GOOD,
        b"ok",
        True,
    ),
    (
        "chunks with trailers",
        chunked(b"ok", last=b"0\r\nSet-Cookie: a\r\nETag: 9\r\n\r\n"),
        False,
        GOOD,
        b"ok",
        True,
    ),
    (
        "a length in trailers",
        chunked(b"ok", last=b"0\r\nContent-Length: 9\r\n\r\n"),
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "long extensions",
        head(Transfer_Encoding="chunked") + b"2;%s\r\nok\r\n" % (b"a" * 9000),
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("long trailers", chunked(b"ok", last=b"0\r\nA: %s\r\n" % (b"a" * 9000)), False, MALFORMED, b"", False),
    ("chunks, then the end", chunked(b"ok", last=b""), True, BROKEN, b"", False),
    ("half a last chunk, then the end", chunked(b"ok", last=b"0\r\n"), True, BROKEN, b"", False),
    (
        "a chunk longer than its length",
        head(Transfer_Encoding="chunked") + b"1\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a chunk length with a sign",
        head(Transfer_Encoding="chunked") + b"+2\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a chunk length with a prefix",
        head(Transfer_Encoding="chunked") + b"0x2\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a chunk length with a blank",
        head(Transfer_Encoding="chunked") + b"2 \r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "no chunk length",
        head(Transfer_Encoding="chunked") + b"\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a chunk length beyond 64 bits",
        head(Transfer_Encoding="chunked") + b"f" * 17 + b"\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "chunks with bare line feeds",
        head(Transfer_Encoding="chunked") + b"2\nok\n0\n\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    # --- smuggling: two readings of one response ---
    (
        "a length beside chunks",
        LINE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "chunks beside a length",
        LINE + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("another transfer coding", head(Transfer_Encoding="gzip") + b"ok", True, MALFORMED, b"", False),
    (
        "two transfer codings",
        head(Transfer_Encoding="gzip, chunked") + b"2\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "chunked twice",
        LINE + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n2\r\nok\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "chunked, but not last",
        head(Transfer_Encoding="chunked, identity") + b"2\r\nok\r\n0\r\n\r\n",
        True,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a coding that looks like chunked",
        head(Transfer_Encoding="xchunked") + b"2\r\nok\r\n0\r\n\r\n",
        True,
        MALFORMED,
        b"",
        False,
    ),
    (
        "a blank before the colon",
        LINE + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("a folded line", LINE + b"A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", False, GOOD, b"ok", True),
    (
        "a folded transfer coding",
        LINE + b"Transfer-Encoding:\r\n gzip\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    (
        "control characters in a header",
        LINE + b"A: b\x01\x7f\r\nContent-Length: 2\r\n\r\nok",
        False,
        GOOD,
        b"ok",
        True,
    ),
    (
        "a control character in a framing header",
        LINE + b"Transfer-Encoding: \x01chunked\r\n\r\n0\r\n\r\n",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", False, MALFORMED, b"", False),
    (
        "a bare carriage return",
        LINE + b"A: b\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("NUL in a header", LINE + b"A: b\0c\r\nContent-Length: 2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a name with a blank", LINE + b"A b: c\r\nContent-Length: 2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a line without a name", LINE + b": c\r\nContent-Length: 2\r\n\r\nok", False, MALFORMED, b"", False),
    ("a line without a colon", LINE + b"abc\r\nContent-Length: 2\r\n\r\nok", False, MALFORMED, b"", False),
    (
        "chunks of HTTP/1.0",
        b"HTTP/1.0" + chunked(b"ok", Connection="keep-alive")[8:],
        False,
        GOOD,
        b"ok",
        False,
    ),
    # --- more than one response ---
    ("two responses", plain() + SMUGGLED, False, GOOD, b"ok", False),
    ("a response and half of another", plain() + SMUGGLED[:9], False, GOOD, b"ok", False),
    ("a response and an interim one", plain() + head("100 Continue"), False, GOOD, b"ok", False),
    ("a second response after chunks", chunked(b"ok") + SMUGGLED, False, GOOD, b"ok", False),
    ("a second response after 204", head("204 No Content") + SMUGGLED, False, GOOD, b"", False),
    ("data after the last response", plain(Connection="close") + SMUGGLED, False, GOOD, b"ok", False),
    # --- interim responses and other protocols ---
    ("100 before", head("100 Continue") + plain(), False, GOOD, b"ok", True),
    (
        "103 with headers before",
        head("103 Early Hints", Link="x", Content_Length=9) + plain(),
        False,
        GOOD,
        b"ok",
        True,
    ),
    (
        "interim responses without end",
        head("102 Processing") * (MOST_INTERIM + 1),
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("100, then the end", head("100 Continue"), True, BROKEN, b"", False),
    (
        "101 with an upgrade",
        head("101 Switching", Connection="Upgrade", Upgrade="x") + b"ok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("101 alone", head("101 Switching") + plain(), False, MALFORMED, b"", False),
    ("an upgrade that is only offered", plain(Connection="Upgrade", Upgrade="h2c"), False, GOOD, b"ok", True),
    ("HTTP/2 in the status line", b"HTTP/2.0" + plain()[8:], False, MALFORMED, b"", False),
    ("HTTP/0.9", b"ok", False, MALFORMED, b"", False),
    ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n", False, MALFORMED, b"", False),
    ("a request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", False, MALFORMED, b"", False),
    ("a status of two digits", plain(status="99 Low"), False, MALFORMED, b"", False),
    ("a status of four digits", plain(status="2000 High"), False, MALFORMED, b"", False),
    ("a status of the future", plain(status="799 New"), False, GOOD, b"ok", True),
    # --- whether the connection is kept ---
    ("HTTP/1.0", b"HTTP/1.0" + plain()[8:], False, GOOD, b"ok", False),
    ("HTTP/1.0 that stays", b"HTTP/1.0" + plain(Connection="keep-alive")[8:], False, GOOD, b"ok", True),
    (
        "HTTP/1.0 that says both",
        b"HTTP/1.0" + plain(Connection="close, keep-alive")[8:],
        False,
        GOOD,
        b"ok",
        False,
    ),
    ("a connection that is closed", plain(Connection="close"), False, GOOD, b"ok", False),
    ("a close in a list", plain(Connection="keep-alive, Close"), False, GOOD, b"ok", False),
    ("a response, then the end", plain(), True, GOOD, b"ok", False),
    # --- sizes ---
    (
        "headers up to the limit",
        LINE + b"A: b\r\n" * (MOST_LINES - 1) + b"Content-Length: 2\r\n\r\nok",
        False,
        GOOD,
        b"ok",
        True,
    ),
    ("a head up to its limit", plain(A="a" * (MOST_HEAD - 30)), False, GOOD, b"ok", True),
    (
        "interim responses up to the limit",
        head("102 Processing") * MOST_INTERIM + plain(),
        False,
        GOOD,
        b"ok",
        True,
    ),
    (
        "many headers",
        LINE + b"A: b\r\n" * MOST_LINES + b"Content-Length: 2\r\n\r\nok",
        False,
        MALFORMED,
        b"",
        False,
    ),
    ("a long header", plain(A="a" * MOST_HEAD), False, MALFORMED, b"", False),
    ("a header that does not end", LINE + b"A: " + b"a" * 300_000, False, MALFORMED, b"", False),
    (
        "bytes that are not UTF-8 in a header",
        LINE + b"A: \xff\r\nContent-Length: 2\r\n\r\nok",
        False,
        GOOD,
        b"ok",
        True,
    ),
    # --- compression ---
    ("gzip", coded("gzip", ZIPPED), False, GOOD, b"ok", True),
    ("gzip in two members", coded("GZip", ZIPPED + ZIPPED), False, GOOD, b"okok", True),
    ("gzip in chunks", chunked(ZIPPED[:5], ZIPPED[5:], Content_Encoding="gzip"), False, GOOD, b"ok", True),
    ("gzip that is cut off", coded("gzip", ZIPPED[:-3]), False, UNDECODED, b"", True),
    ("gzip with another sum", coded("gzip", ZIPPED[:-8] + bytes(8)), False, UNDECODED, b"", True),
    ("gzip and something else", coded("gzip", ZIPPED + b"junk"), False, UNDECODED, b"", True),
    ("gzip that is none", coded("gzip", b"ok"), False, UNDECODED, b"", True),
    ("gzip of nothing", coded("gzip", b""), False, GOOD, b"", True),
    ("deflate", coded("deflate", zlib.compress(b"ok")), False, GOOD, b"ok", True),
    ("deflate without its frame", coded("deflate", _raw(b"ok")), False, GOOD, b"ok", True),
    ("deflate twice", coded("deflate", zlib.compress(b"ok") * 2), False, UNDECODED, b"", True),
    ("a coding that was not offered", coded("br", b"ok"), False, UNDECODED, b"", True),
    ("two codings", coded("gzip, gzip", gzip.compress(ZIPPED)), False, UNDECODED, b"", True),
    ("identity", coded("identity", b"ok"), False, GOOD, b"ok", True),
    ("many empty members", coded("gzip", gzip.compress(b"") * 2000), False, UNDECODED, b"", True),
]
