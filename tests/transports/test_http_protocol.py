"""HTTP/1.1 on the wire: framing, pipelining, timeouts and closing of the HTTP listener. Over raw sockets."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from math import inf
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.call import Call
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import answering
from a2a_bridge_transports._http import protocol
from a2a_bridge_transports._http.exchange import JSON, Reply, Request
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.mounts import Mounts
from a2a_bridge_transports._http.parser import MOST_HEADERS
from a2a_bridge_transports._http.protocol import READ_AHEAD, Connection
from tests.patience import PATIENCE, until
from tests.transports.http_scene import (
    MESSAGE,
    Scripted,
    Wire,
    ask,
    frame,
    hosting,
    reply,
    request,
    update,
    wire,
)

SEND = json.dumps({"message": MESSAGE})
RPC = frame("SendMessage", {"message": MESSAGE})
POST = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@each(
    "raw",
    [
        POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Content-Length: 0x2\r\n\r\n{}",
        POST + b"Content-Length: 2, 2\r\n\r\n{}",
        POST + b"Content-Length: 2 2\r\n\r\n{}",
        POST + b"Content-Length:\r\n\r\n",
        POST + b"Content-Length: %b2\r\n\r\n{}" % (b"0" * 5000),
        POST + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: identity\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: \xff, chunked\r\n\r\n0\r\n\r\n",
        POST + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        POST + b" X: a\r\nContent-Length: 0\r\n\r\n",
        POST + b"X : a\r\nContent-Length: 0\r\n\r\n",
        POST + b"X: a\nContent-Length: 0\r\n\r\n",
        POST + b"X: a\rY: b\r\nContent-Length: 0\r\n\r\n",
        b"GET /livez HTTP/1.1\nHost: x\n\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\n",
        b"get /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1 \r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        CHUNKED + b"2\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\r\n{} \r\n0\r\n\r\n",
        CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\r\n{}\n0\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\n0\n\n",
        CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
    ],
)
async def test_ambiguous_framing_is_rejected(raw: bytes) -> None:
    service = Scripted()
    async with hosting(service) as host, wire(host) as connection:
        connection.send(raw + request("POST", "/", RPC))
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
        assert answer.headers["connection"] == "close"
        assert await connection.ended()
    assert not service.calls


async def test_trailers_are_no_headers() -> None:
    service = Scripted()
    async with hosting(service) as host, wire(host) as connection:
        body = b"%x\r\n%b\r\n0\r\nA2A-Extensions: urn:late\r\nHost: y\r\n\r\n" % (len(RPC), RPC)
        connection.send(CHUNKED + body + request("GET", "/livez"))
        assert (await connection.answer()).status == 200
        assert (await connection.answer()).body == b"ok\n"
    assert "a2a-extensions" not in service.calls[0].context.parameters


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (CHUNKED, b"2\r\n{}\r\n0\r\nConnection: close\r\n\r\n"),
        (
            b"POST / HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n\r\n",
            b"{}",
        ),
    ],
)
async def test_a_kept_connection_is_read_further(head: bytes, body: bytes) -> None:
    """A trailer does not end the connection, nor does an ignored Upgrade, after an answer with keep-alive."""
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(head + body + request("GET", "/livez"))
        assert (await connection.answer()).headers.get("connection") != "close"
        assert (await connection.answer()).body == b"ok\n"


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_upgrade_is_ignored_and_the_body_is_read(chunked: bool) -> None:
    """As the HTTP client of the JDK asks for HTTP/2 without TLS."""
    head = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAI\r\n"
    framed = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(RPC), RPC)
    sized = b"Content-Length: %d\r\n\r\n%b" % (len(RPC), RPC)
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send((head + (framed if chunked else sized)) * 2)
        connection.send(
            b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        for _ in range(2):
            assert (await connection.answer()).json()["result"]["message"]["messageId"] == "m-2"
        assert (await connection.answer()).body == b"ok\n"


async def test_the_host_of_an_absolute_target_counts() -> None:
    named: list[str] = []

    async def name(asked: Request) -> Reply:
        named.append(asked.base_url())
        return Reply(204, ())

    async with hosting(Scripted()) as host:
        host.mount("/name", {"GET": name})
        for target in ("http://other:81/name", "/name"):
            assert (await ask(host, request("GET", target))).status == 204
        answer = await ask(host, request("GET", "http://user@other/name"))
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
    assert named == ["http://other:81", "http://x"]


async def test_connect_is_rejected_and_ends_the_connection(connection: Wire) -> None:
    connection.send(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n\x16\x03\x01")
    answer = await connection.answer()
    assert (answer.status, answer.headers["connection"]) == (404, "close")
    assert await connection.ended()


async def test_http_1_0_may_keep_its_connection(connection: Wire) -> None:
    for _ in range(2):
        connection.send(b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await connection.answer()).headers["connection"] == "keep-alive"
    connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
    assert (await connection.answer()).headers["connection"] == "close"
    assert await connection.ended()


@pytest.mark.parametrize(
    "lines", ["keep-alive, Close", "close,keep-alive", "keep-alive\r\nConnection: close"]
)
async def test_close_counts_more_than_keep_alive(lines: str, host: HttpHost) -> None:
    for version in ("1.0", "1.1"):
        async with wire(host) as connection:
            connection.send(f"GET /livez HTTP/{version}\r\nHost: x\r\nConnection: {lines}\r\n\r\n")
            assert (await connection.answer()).headers["connection"] == "close"
            assert await connection.ended()


async def test_an_answer_to_head_has_no_body(connection: Wire) -> None:
    connection.send(request("HEAD", "/livez") + request("GET", "/livez"))
    answer = await connection.answer(bodyless=True)
    assert answer.headers["content-length"] == "3"
    assert "date" in answer.headers
    assert (await connection.answer()).body == b"ok\n"


async def test_empty_lines_before_a_request_do_not_count(connection: Wire) -> None:
    connection.send(b"\r\n\r\n" + request("GET", "/livez") + b"\r\n" + request("GET", "/livez"))
    for _ in range(2):
        assert (await connection.answer()).status == 200


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/?" + "x" * 20_000, {}, 414),
        ("/?" + "x" * 100_000, {}, 414),
        ("/", {"X": "x" * 100_000}, 431),
        ("/", {f"X_{number}": "" for number in range(MOST_HEADERS + 1)}, 431),
    ],
)
async def test_a_head_has_a_limit(target: str, headers: dict[str, str], status: int, host: HttpHost) -> None:
    answer = await ask(host, request("GET", target, **headers))
    assert (answer.status, answer.reason) == (status, "REQUEST_TOO_LARGE")


async def test_a_head_that_never_ends_is_rejected_at_its_limit(connection: Wire) -> None:
    connection.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 40_000)
    assert (await connection.answer()).status == 431
    assert await connection.ended()


async def test_pipelined_requests_are_worked_on_one_after_the_other() -> None:
    working = most = 0

    async def work(_: Call[Any, Any]) -> Any:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0)
        working -= 1
        return reply()

    async with hosting(Scripted(on_unary=work)) as host, wire(host) as connection:
        count = 3 * protocol.TURN
        connection.send(
            b"".join(
                request("POST", "/", frame("SendMessage", {"message": MESSAGE}, id_=number))
                for number in range(count)
            )
        )
        assert [(await connection.answer()).json()["id"] for _ in range(count)] == list(range(count))
    assert most == 1


async def test_little_is_read_ahead_of_an_answer() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def work(_: Call[Any, Any]) -> Any:
        entered.set()
        await go.wait()
        return reply()

    count = 200
    padded = request(
        "POST", "/", frame("SendMessage", {"message": {**MESSAGE, "parts": [{"text": "x" * 8000}]}})
    )
    async with hosting(Scripted(on_unary=work)) as host, wire(host) as connection:
        connection.send(request("POST", "/", RPC))
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
        [held] = host.connections
        assert held.transport is not None
        connection.send(padded * count)
        await until(lambda: held.transport is not None and not held.transport.is_reading())
        assert len(held._ahead) <= READ_AHEAD + 256 * 1024
        go.set()
        for _ in range(count + 1):
            assert (await connection.answer()).status == 200


async def test_a_body_that_no_handler_reads_is_not_kept() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def ignoring(_: Request) -> Reply:
        entered.set()
        await go.wait()
        return Reply(200, JSON, b"{}")

    async with hosting(Scripted()) as host, wire(host) as connection:
        host.mount("/ignoring", {"POST": ignoring})
        connection.send(
            b"POST /ignoring HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 8_000_000
        )
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
        [held] = host.connections
        await until(lambda: held.transport is not None and not held.transport.is_reading())
        assert held.parser.size <= READ_AHEAD + 256 * 1024
        go.set()
        # The client still sends: its connection is not reset, or it might lose the answer.
        answer = await connection.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        async with asyncio.timeout(PATIENCE):
            assert await connection.reader.read() == b""
            await connection.writer.drain()


async def test_a_client_that_keeps_sending_after_a_rejection_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "LINGER", 0.05)
    async with hosting(Scripted(), options=HostOptions(header_timeout=0.1)) as host, wire(host) as connection:
        connection.send(b"nonsense\r\n\r\n")
        assert (await connection.answer()).status == 400
        assert await connection.ended()
        await until(lambda: not host.connections)


async def test_no_body_is_asked_for_in_vain(connection: Wire) -> None:
    connection.send(request("POST", "/no/such/path/here", Expect="100-continue", Content_Length="10"))
    answer = await connection.answer()
    assert (answer.status, answer.headers["connection"]) == (404, "close")
    assert await connection.ended()


async def test_idle_connections_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "KEEP_CONNECTION", 0.05)
    async with hosting(Scripted(), options=HostOptions(header_timeout=0.2)) as host, wire(host) as connection:
        connection.send(request("GET", "/livez"))
        assert (await connection.answer()).status == 200
        assert await connection.ended()


@pytest.mark.parametrize("path", ["/message:send", "/message:stream"])
async def test_a_client_that_never_reads_is_cut_off(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pour(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        while True:
            yield update("x" * 4000)

    monkeypatch.setattr(protocol, "UNREAD", 0.05)
    service = Scripted(on_unary=answering(reply("x" * 8_000_000)), on_stream=pour)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        async with hosting(service, options=HostOptions(header_timeout=0.1)) as host:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (host.address.host, host.address.port))
            await until(lambda: bool(host.connections))
            await loop.sock_sendall(client, f"{head}Content-Length: {len(SEND)}\r\n\r\n{SEND}".encode())
            await until(lambda: not host.connections)
            assert service.calls


async def test_a_client_that_reads_slowly_is_not_cut_off() -> None:
    class Slow(asyncio.Transport):
        unread = 100_000
        aborted = False

        def get_write_buffer_size(self) -> int:
            return self.unread

        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return default

        def is_closing(self) -> bool:
            return False

        def close(self) -> None: ...

        def abort(self) -> None:
            self.aborted = True

    async with hosting(Scripted()) as host:
        connection, transport = Connection(host), Slow()
        connection.connection_made(transport)
        connection.deadline = inf
        connection.pause_writing()
        now = asyncio.get_running_loop().time()
        late = now + 10 * protocol.UNREAD
        connection.end_late(now)
        for _ in range(3):
            transport.unread -= 1
            connection.end_late(late)
            assert not transport.aborted
        connection.resume_writing()
        connection.end_late(late)
        assert not transport.aborted
        connection.pause_writing()
        connection.close()
        connection.resume_writing()  # the little that is left of a closed connection counts, too
        connection.end_late(late)
        assert transport.aborted
        connection.connection_lost(None)


async def test_a_client_that_closes_its_half_is_answered(host: HttpHost, connection: Wire) -> None:
    connection.send(request("GET", "/livez"))
    connection.writer.write_eof()
    assert (await connection.answer()).body == b"ok\n"
    assert await connection.ended()
    await until(lambda: not host.connections)


async def test_requests_of_a_connection_do_not_share_context_variables() -> None:
    seen: list[str] = []
    mark: ContextVar[str] = ContextVar("mark", default="")

    async def work(_: Call[Any, Any]) -> Any:
        seen.append(mark.get())
        mark.set("of an earlier request")
        await asyncio.sleep(0)
        return reply()

    async with hosting(Scripted(on_unary=work)) as host, wire(host) as connection:
        connection.send(request("POST", "/", RPC) * 2)
        for _ in range(2):
            assert (await connection.answer()).status == 200
        connection.send(request("POST", "/", RPC))
        assert (await connection.answer()).status == 200
    assert seen == ["", "", ""]


async def test_exceptions_of_a_handler_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: Request) -> Reply:
        raise KeyError("a secret")

    async with hosting(Scripted()) as host, wire(host) as connection:
        host.mount("/broken", {"GET": broken})
        connection.send(request("GET", "/broken"))
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (500, "INTERNAL_ERROR")
        assert b"secret" not in answer.body
        assert await connection.ended()
    assert "a secret" in caplog.text


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\0b"])
async def test_a_header_cannot_split_an_answer(value: str, caplog: pytest.LogCaptureFixture) -> None:
    async def splitting(_: Request) -> Reply:
        return Reply(200, (("X-Value", value),), b"{}")

    async with hosting(Scripted()) as host, wire(host) as connection:
        host.mount("/splitting", {"GET": splitting})
        connection.send(request("GET", "/splitting"))
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (500, "INTERNAL_ERROR")
        assert not {"x-value", "set-cookie"} & answer.headers.keys()
        assert await connection.ended()
    assert "X-Value" in caplog.text


@pytest.mark.parametrize("size", [100, 2_000_000])
async def test_an_unread_answer_ends_with_its_client(size: int) -> None:
    async def large(_: Request) -> Reply:
        return Reply(200, JSON, b"x" * size)

    async with hosting(Scripted()) as host:
        host.mount("/large", {"GET": large})
        async with wire(host, limit=1) as connection:
            connection.send(request("GET", "/large") * 50)
            await until(lambda: any(each.is_full or size < 1000 for each in host.connections))
        await until(lambda: not host.connections)


async def test_a_quick_client_does_not_starve_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with hosting(Scripted()) as host, wire(host) as quick:
        count = 2000
        quick.send(request("GET", "/livez") * count)
        assert (await ask(host, request("GET", "/livez"))).status == 200
        for _ in range(count):
            assert (await quick.answer()).status == 200
    assert not caplog.records


async def answered(size: int) -> Reply:
    return Reply(200, JSON, b"x" * size)


async def test_clients_that_do_not_read_do_not_hold_the_end_of_a_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_AT_END", 0.1)
    monkeypatch.setattr(Mounts, "_live", lambda *_: answered(8_000_000))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        async with hosting(Scripted()) as host:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (host.address.host, host.address.port))
            await loop.sock_sendall(client, request("GET", "/livez"))
            await until(lambda: any(one.is_full for one in host.connections))
            async with asyncio.timeout(PATIENCE):
                await host.drain(PATIENCE)


class Failing(asyncio.Transport):
    """A transport that is closing, with a rest that nobody reads."""

    writes = 0
    aborted = False

    def get_write_buffer_size(self) -> int:
        return 1000

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.writes > 0

    def write(self, data: Any) -> None:
        self.writes += 1

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True


async def test_a_failed_transport_gets_no_further_answers() -> None:
    """Asyncio logs each write to it from the fifth on."""
    async with hosting(Scripted()) as host:
        connection, transport = Connection(host), Failing()
        connection.connection_made(transport)
        connection.data_received(request("GET", "/livez") * 50)
        await until(lambda: transport.writes > 0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.writes == 1
        connection.connection_lost(None)


async def test_the_rest_for_a_client_that_closed_its_half_is_not_kept_for_ever(host: HttpHost) -> None:
    connection, transport = Connection(host), Failing()
    connection.connection_made(transport)
    connection.deadline = inf
    connection.pause_writing()
    connection.eof_received()
    transport.writes = 1  # asyncio closes the transport then
    connection.resume_writing()  # there is less than the limit for `pause_writing`
    connection.end_late(asyncio.get_running_loop().time() + 10 * protocol.UNREAD)
    assert transport.aborted
    connection.connection_lost(None)
