"""Chunked bodies in the parser of requests: their cost, their limits, and every cut of the stream of bytes."""

import asyncio
import json
import math
import re
import tracemalloc
from random import Random

import pytest
from multidict import CIMultiDict

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.addresses import Trust
from a2a_bridge.testing.each import each
from a2a_bridge_transports._http import events, mounts
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.parameters import base_url, is_host, is_local_name
from a2a_bridge_transports._http.parser import MalformedError, RequestParser
from a2a_bridge_transports._http.protocol import Connection
from tests.patience import PATIENCE
from tests.transports.http_scene import MESSAGE, Pipe, Scripted, ask, frame, hosting, request, wire

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


# --- Requests in pieces: the same bytes get the same answers, for any division by the network ---

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
    pipe = Pipe()
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
    """Whether answers are the same, or the first ones reject before a body, which closes the connection."""
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
        pipe = Reset()
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
    random, statuses = Random(mutations), set()
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


# --- Documents of an HTTP host: validators, conditional requests, paths made out of a card ---

SEND = json.dumps({"message": MESSAGE})


async def test_a_document() -> None:
    async with hosting(Scripted()) as host:
        host.publish("/.well-known/agent-card.json", lambda base: json.dumps({"url": base}).encode())
        path = "/.well-known/agent-card.json"
        first = await ask(host, request("GET", path, version="", host="here:1"))
        assert (first.status, first.json()) == (200, {"url": "http://here:1"})
        assert first.headers["content-type"] == "application/json"
        assert "max-age=" in first.headers["cache-control"]
        assert first.headers["access-control-allow-origin"] == "*"
        tag = first.headers["etag"]
        for asked in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = await ask(host, request("GET", path, host="here:1", If_None_Match=asked))
            assert (again.status, again.headers["etag"]) == (304, tag)
        other = await ask(host, request("GET", path, host="there", If_None_Match=tag))
        assert other.json() == {"url": "http://there"}


async def test_head_and_options_of_a_document() -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        host.publish("/card.json", lambda _: b"{}")
        connection.send(request("HEAD", "/card.json"))
        head = await connection.answer(bodyless=True)
        assert (head.status, head.headers["content-length"]) == (200, "2")
        connection.send(
            request("OPTIONS", "/card.json", Origin="http://o", Access_Control_Request_Method="GET")
        )
        preflight = await connection.answer()
        assert preflight.status == 204
        assert "content-length" not in preflight.headers
        assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"


async def test_when_a_document_was_modified(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000_000.9]
    monkeypatch.setattr(mounts.time, "time", lambda: clock[0])
    shown = [b"{}"]

    async with hosting(Scripted()) as host:
        host.publish("/card.json", lambda _: shown[0])

        async def get(**headers: str) -> tuple[int, str, bytes]:
            answer = await ask(host, request("GET", "/card.json", **headers))
            return answer.status, answer.headers["last-modified"], answer.body

        first, later = "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:45 GMT"
        clock[0] += 5
        assert await get() == (200, first, b"{}")
        assert await get(If_Modified_Since=first) == (304, first, b"")
        assert await get(If_Modified_Since="Sun, 09 Sep 2001 01:46:39 GMT") == (200, first, b"{}")
        assert await get(If_Modified_Since="yesterday") == (200, first, b"{}")
        assert await get(If_Modified_Since=later, If_None_Match='"other"') == (200, first, b"{}")
        shown[0] = b"[]"
        assert await get(If_Modified_Since=first) == (200, later, b"[]")
        assert await get(If_Modified_Since=later) == (304, later, b"")


@pytest.mark.parametrize("path", ["", "/a2a"])
async def test_a_url_that_was_joined_naively(path: str) -> None:
    async with hosting(Scripted(), path=path) as host:
        for raw in (
            request("POST", f"{path}//message:send", SEND),
            request("GET", f"{path}//tasks/7"),
            request("POST", f"/{path}/message:send", SEND),
        ):
            assert (await ask(host, raw)).status == 200
        assert (await ask(host, request("GET", f"{path}/tasks//pushNotificationConfigs"))).status == 404
        host.publish("/card.json", lambda _: b"{}")
        assert (await ask(host, request("GET", "//card.json"))).body == b"{}"


async def test_a_document_varies_by_the_version_that_its_reader_names() -> None:
    def variant(_base: str, query: str, version: str) -> bytes:
        return json.dumps({"query": query, "version": version}).encode()

    async with hosting(Scripted()) as host:
        host.publish("/card.json", lambda _: b'{"all": 1}', variant)
        first = await ask(host, request("GET", "/card.json", version=""))
        assert (first.json(), first.headers["vary"]) == ({"all": 1}, "A2A-Version")
        asked = await ask(host, request("GET", "/card.json", version="1.0"))
        assert (asked.json(), asked.headers["vary"]) == ({"query": "", "version": "1.0"}, "A2A-Version")
        assert asked.headers["etag"] != first.headers["etag"]
        # Other readers' documents are no change of this one.
        assert asked.headers["last-modified"] == first.headers["last-modified"]
        queried = await ask(host, request("GET", "/card.json?x=1", version=""))
        assert queried.json() == {"query": "x=1", "version": ""}


# --- The URL that a client used: Host headers, proxies, and trusted addresses ---
def url(
    scheme: str = "http", host: str = "in:8080", root: str = "", *, trusted: bool = True, **headers: str
) -> str:
    found = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return base_url(scheme, host, root, found, trusted=trusted)


@pytest.mark.parametrize("host", ["a", "a.b:80", "127.0.0.1", "[::1]:80", "[fe80::1]", "a_b", "x-1.example"])
def test_hosts(host: str) -> None:
    assert is_host(host)


@each(
    "host",
    ["", " ", "a b", "u@a", "a/b", "a,b", "a:b", "a:", "::1", "[::1", "a?b", "a#b", "a\\b", "é", "a:123456"],
)
def test_invalid_hosts(host: str) -> None:
    assert not is_host(host)


def test_without_proxies() -> None:
    assert url() == "http://in:8080"
    assert url("https", root="/app/") == "https://in:8080/app"


@each(
    ("headers", "expected"),
    [
        ({"X_Forwarded_Proto": "https"}, "https://in:8080"),
        ({"X_Forwarded_Proto": "https", "X_Forwarded_Host": "out"}, "https://out"),
        ({"X_Forwarded_Host": "out:81, in"}, "http://out:81"),
        (
            {"X_Forwarded_Host": "out", "X_Forwarded_Port": "8443", "X_Forwarded_Proto": "https"},
            "https://out:8443",
        ),
        ({"X_Forwarded_Host": "out", "X_Forwarded_Port": "443", "X_Forwarded_Proto": "https"}, "https://out"),
        ({"X_Forwarded_Host": "out:9", "X_Forwarded_Port": "443"}, "http://out:9"),
        ({"X_Forwarded_Prefix": "/a/b/"}, "http://in:8080/a/b"),
        ({"Forwarded": "for=1.2.3.4;proto=https;host=out"}, "https://out"),
        ({"Forwarded": 'for="[::1]:5";host="out:9";proto=HTTPS, for=x;host=y'}, "https://out:9"),
        ({"Forwarded": "for=1.2.3.4, host=other"}, "http://in:8080"),
        ({"Forwarded": "host=out", "X_Forwarded_Host": "other"}, "http://out"),
    ],
)
def test_proxies(headers: dict[str, str], expected: str) -> None:
    assert (url(**headers), url(trusted=False, **headers)) == (expected, "http://in:8080")


@each(
    "headers",
    [
        {"X_Forwarded_Proto": "javascript"},
        {"X_Forwarded_Host": "a/b"},
        {"X_Forwarded_Host": "u@a"},
        {"X_Forwarded_Prefix": "//evil"},
        {"X_Forwarded_Prefix": "evil"},
        {"X_Forwarded_Prefix": '/"<script>'},
        {"X_Forwarded_Port": "x"},
        {"X_Forwarded_Port": "1234567"},
        {"Forwarded": "host=a b"},
        {"Forwarded": ";;;"},
        {"Forwarded": 'host="'},
    ],
)
def test_nonsense_is_as_if_it_were_not_there(headers: dict[str, str]) -> None:
    assert url(**headers) == "http://in:8080"


def test_a_prefix_that_the_server_knows_counts_once() -> None:
    assert url(root="/api", X_Forwarded_Prefix="/api") == "http://in:8080/api"
    assert url(root="/api/v1", X_Forwarded_Prefix="/api") == "http://in:8080/api/v1"
    assert url(root="/apiary", X_Forwarded_Prefix="/api") == "http://in:8080/api/apiary"


@each(
    ("entries", "peer", "trusted"),
    [
        ((), "127.0.0.1", False),
        (("*",), "", True),
        (("127.0.0.1",), "127.0.0.1", True),
        (("127.0.0.1",), "127.0.0.2", False),
        (("10.0.0.0/8",), "10.1.2.3", True),
        (("10.0.0.0/8",), "::ffff:10.1.2.3", True),
        (("::1",), "::1", True),
        (("10.0.0.0/8",), "unknown", False),
        (("10.0.0.0/8",), "::1", False),
    ],
)
def test_whom_to_believe(entries: tuple[str, ...], peer: str, trusted: bool) -> None:
    assert (peer in Trust(entries)) is trusted


def test_a_name_is_no_address() -> None:
    with pytest.raises(ValueError, match="proxy"):
        Trust(("proxy",))


@each(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:9090", True),
        ("10.0.0.7:9090", True),
        ("[::1]:9090", True),
        ("localhost", True),
        ("LOCALHOST:9090", True),
        ("evil.example:9090", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("localhost.", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_local_names(host: str, is_local: bool) -> None:
    assert is_local_name(host) is is_local
