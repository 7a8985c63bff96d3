"""The HTTP listener: limits, odd requests, documents, probes, draining. Over raw sockets."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.core.call import Call
from a2a_bridge.dialects import KNOWN
from a2a_bridge.testing.each import each
from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    PATIENCE,
    Scripted,
    Wire,
    ask,
    frame,
    hosting,
    request,
    update,
    wire,
)

SEND = json.dumps({"message": MESSAGE})


def rpc(method: str = "SendMessage", **more: Any) -> bytes:
    return frame(method, {"message": MESSAGE}, **more)


async def test_connections_are_kept(connection: Wire) -> None:
    for path, body in [("/", rpc()), ("/message:send", SEND), ("/", rpc())]:
        connection.send(request("POST", path, body))
        answer = await connection.answer()
        assert answer.status == 200
        assert "connection" not in answer.headers


async def test_pipelined_requests_are_answered_in_order(connection: Wire) -> None:
    connection.send(b"".join(request("POST", "/", rpc(id_=number)) for number in range(40)))
    assert [(await connection.answer()).json()["id"] for _ in range(40)] == list(range(40))


async def test_a_client_may_ask_to_close(connection: Wire) -> None:
    connection.send(request("POST", "/", rpc(), Connection="close"))
    assert (await connection.answer()).headers["connection"] == "close"
    assert await connection.ended()


async def test_http_1_0(connection: Wire) -> None:
    body = rpc("SendStreamingMessage")
    connection.send(
        b"POST / HTTP/1.0\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    status, headers = await connection.head()
    assert status == 200
    assert "transfer-encoding" not in headers
    async with asyncio.timeout(PATIENCE):
        assert (await connection.reader.read()).count(b"data: ") == 3


@each(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: \r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: u@x\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x/y\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x, y\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"POST /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x:99999\r\n\r\n",
    ],
)
async def test_invalid_http_is_rejected_in_our_own_words(head: bytes) -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(head)
        answer = await connection.answer()
        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
        assert answer.reason == "INVALID_REQUEST"
        assert "server" not in answer.headers
        assert await connection.ended()


async def test_malformed_lines_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer hunter2\r\n\r\n")
        assert (await connection.answer()).status == 400
    assert "rejected a request from 127.0.0.1" in caplog.text
    assert "hunter2" not in caplog.text


@each("bad", [b"GET / HTTP/1.1\r\nA b: c\r\n\r\n", b"\x00\x01 nothing", b"GET /\r\n\r\n"])
@each(
    "good",
    [
        request("GET", "/livez"),
        request("POST", "/", rpc()),
        request("GET", "/livez") + request("POST", "/", rpc()),
    ],
)
async def test_a_malformed_request_leaves_earlier_answers_whole(good: bytes, bad: bytes) -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(good + bad)
        for _ in range(good.count(b" HTTP/1.1")):
            assert (await connection.answer()).status == 200
        assert (await connection.answer()).status == 400
        assert await connection.ended()


CHUNKED = b"POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


@pytest.mark.parametrize(
    ("where", "length"), [("first", 4400), ("first", 60_000), ("last", 4400), ("spread", 60_000)]
)
async def test_long_chunk_extensions_are_rejected(where: str, length: int) -> None:
    body = SEND.encode()
    extension = b";a=" + b"x" * length
    if where == "spread":
        each = b";a=" + b"x" * (length // len(body) + 1)
        raw = CHUNKED + b"".join(chunk(body[at : at + 1], each) for at in range(len(body))) + b"0\r\n\r\n"
    elif where == "first":
        raw = CHUNKED + chunk(body, extension) + b"0\r\n\r\n"
    else:
        raw = CHUNKED + chunk(body) + b"0" + extension + b"\r\n\r\n"
    service = Scripted()
    async with hosting(service) as host, wire(host) as connection:
        connection.send(raw)
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
        assert await connection.ended()
    assert not service.calls


async def test_many_small_chunks_and_short_extensions_are_taken() -> None:
    body = SEND.encode().replace(b"hello", b"hello" * 2000)
    small = b"".join(chunk(body[at : at + 1]) for at in range(len(body))) + b"0\r\n\r\n"
    short = chunk(body, b";a=" + b"x" * 2000) + b"0;b\r\n\r\n"
    async with hosting(Scripted()) as host, wire(host) as connection:
        for raw in (CHUNKED + small, CHUNKED + short, CHUNKED + small + CHUNKED + short):
            connection.send(raw)
            for _ in range(raw.count(CHUNKED)):
                assert (await connection.answer()).status == 200


async def test_connections_beyond_the_limit_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    options = HostOptions(max_connections=2)
    async with hosting(Scripted(), options=options) as host, wire(host) as first, wire(host) as second:
        for connection in (first, second):
            connection.send(request("GET", "/livez"))
            assert (await connection.answer()).status == 200
        for _ in range(3):
            async with wire(host) as third:
                assert await third.ended()
        first.send(request("GET", "/livez", Connection="close"))
        assert (await first.answer()).status == 200
        assert await first.ended()
        assert (await ask(host, request("GET", "/livez"))).status == 200
    assert caplog.text.count("2 are open, which is the limit") == 1


async def test_hosts_are_believed_when_valid(host: HttpHost) -> None:
    for name in ("x", "example.com:80", "[::1]:9", "EXAMPLE"):
        assert (await ask(host, request("POST", "/", rpc(), host=name))).status == 200


@pytest.mark.parametrize(
    "headers",
    [{"X_A": "x" * 20_000}, {f"X_{number}": "x" * 1000 for number in range(20)}],
    ids=["one header", "many headers"],
)
async def test_large_heads_are_rejected(headers: dict[str, str], host: HttpHost) -> None:
    answer = await ask(host, request("POST", "/", rpc(), **headers))
    assert (answer.status, answer.reason) == (431, "REQUEST_TOO_LARGE")


async def test_slow_heads_are_cut_off() -> None:
    async with (
        hosting(Scripted(), options=HostOptions(header_timeout=0.5)) as host,
        wire(host) as silent,
        wire(host) as half,
        wire(host) as second,
    ):
        half.send("POST / HTTP/1.1\r\nHost: x\r\n")
        second.send(request("POST", "/", rpc()))
        assert (await second.answer()).status == 200
        second.send("POST / HT")
        assert await half.ended()
        assert await silent.ended()
        assert await second.ended()


async def test_idle_connections_are_not_slow_ones() -> None:
    options = HostOptions(header_timeout=0.5)
    async with hosting(Scripted(), options=options) as host, wire(host) as idle, wire(host) as silent:
        idle.send(request("POST", "/", rpc()))
        assert (await idle.answer()).status == 200
        assert await silent.ended()
        idle.send(request("POST", "/", rpc()))
        assert (await idle.answer()).status == 200


async def test_slow_bodies_are_cut_off() -> None:
    async with hosting(Scripted(), options=HostOptions(header_timeout=0.2)) as host, wire(host) as connection:
        connection.send(request("POST", "/", rpc())[:-5])
        answer = await connection.answer()
        assert (answer.reason, answer.headers["connection"]) == ("INVALID_REQUEST", "close")


async def test_a_body_in_pieces(connection: Wire) -> None:
    data = request("POST", "/", rpc())
    for at in range(0, len(data), 7):
        connection.send(data[at : at + 7])
        await connection.writer.drain()
    assert (await connection.answer()).status == 200


async def test_a_chunked_body(connection: Wire) -> None:
    connection.send(
        "POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for part in (SEND[:10], SEND[10:]):
        connection.send(f"{len(part):x}\r\n{part}\r\n")
    connection.send("0\r\n\r\n")
    assert (await connection.answer()).status == 200


@pytest.mark.parametrize("first", ["", "3\r\n{  \r\n"])
async def test_broken_chunks_are_rejected_at_once(first: str) -> None:
    # Longer than the test waits: only the disconnect can end the call.
    options = HostOptions(header_timeout=10 * PATIENCE)
    async with hosting(Scripted(), options=options) as host, wire(host) as connection:
        connection.send(
            "POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.send(first)
        connection.send("zz\r\nabc\r\n0\r\n\r\n")
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")


async def test_continue_is_sent_to_clients_that_expect_it(connection: Wire) -> None:
    body = rpc()
    connection.send(request("POST", "/", body, Expect="100-continue").removesuffix(body))
    status, _ = await connection.head()
    assert status == 100
    connection.send(body)
    assert (await connection.answer()).status == 200


@pytest.mark.parametrize("path", ["/", "/message:send"])
@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_are_rejected(path: str, chunked: bool) -> None:
    service = Scripted()
    async with hosting(service, options=HostOptions(max_body=1000)) as host, wire(host) as connection:
        body = b" " * 2000
        data = request("POST", path, body)
        if chunked:
            data = data.replace(b"Content-Length: 2000", b"Transfer-Encoding: chunked")
            data = data.removesuffix(body) + b"7d0\r\n" + body + b"\r\n0\r\n\r\n"
        connection.send(data)
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (413, "REQUEST_TOO_LARGE")
        assert not service.calls


async def test_a_large_body_is_rejected_before_it_comes() -> None:
    async with hosting(Scripted(), options=HostOptions(max_body=1000)) as host, wire(host) as connection:
        connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n")
        assert (await connection.answer()).status == 413


@pytest.mark.parametrize("path", ["/", "/message:send"])
async def test_compressed_bodies_are_rejected(path: str) -> None:
    body = gzip.compress(rpc()) + gzip.compress(b"x")
    async with hosting(Scripted()) as host:
        answer = await ask(host, request("POST", path, body, Content_Encoding="gzip"))
        assert (answer.status, answer.reason) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
        assert answer.headers["accept-encoding"] == "identity"


async def test_a_client_that_leaves_while_sending() -> None:
    service = Scripted()
    async with hosting(service) as host:
        async with wire(host) as connection:
            connection.send(request("POST", "/", rpc())[:-5])
            await connection.writer.drain()
        assert (await ask(host, request("POST", "/", rpc()))).status == 200
        assert len(service.calls) == 1


async def test_absolute_form(host: HttpHost) -> None:
    answer = await ask(host, request("GET", "http://x/tasks/7?historyLength=1"))
    assert answer.json()["id"] == "7"


@each(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("POST", "/nothing/at/all/here/or/there", 404, None),
        ("GET", "/message:send", 405, "POST, OPTIONS"),
        ("DELETE", "/tasks/7", 405, "GET, OPTIONS"),
        ("GET", "/", 405, "OPTIONS, POST"),
        ("POST", "/card.json", 405, "GET, HEAD, OPTIONS"),
        ("OPTIONS", "/nothing", 404, None),
        ("OPTIONS", "/", 204, "OPTIONS, POST"),
        ("OPTIONS", "/tasks/7:subscribe", 204, "GET, POST, OPTIONS"),
    ],
)
async def test_unknown_paths(method: str, path: str, status: int, allow: str | None) -> None:
    async with hosting(Scripted()) as host:
        if path == "/card.json":
            host.publish(path, lambda base: base.encode())
        answer = await ask(host, request(method, path))
        assert (answer.status, answer.headers.get("allow")) == (status, allow)
        if status != 204:
            assert (answer.reason, answer.json()["error"]["code"]) == ("METHOD_NOT_FOUND", status)


@each(
    "line",
    [
        "OPTIONS *",
        "CONNECT x:80",
        "GET //x/y",
        "GET /%",
        "GET /%zz",
        "GET /?%zz",
        "GET /tasks/%ff",
        "GET /a#b",
        "BREW /",
    ],
)
async def test_odd_targets_are_errors_of_the_caller(line: str) -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(f"{line} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n\r\n")
        answer = await connection.answer()
        assert answer.status in (400, 404, 405)
        assert answer.headers["content-type"] == "application/json"


async def test_mutated_requests_never_make_a_server_error(caplog: pytest.LogCaptureFixture) -> None:
    random = Random(20_26)
    seeds = [
        request("POST", "/", rpc()),
        request("POST", "/message:send", SEND),
        request("GET", "/tasks/7?a=b"),
    ]
    async with hosting(Scripted(), options=HostOptions(header_timeout=0.05)) as host:
        for _ in range(300):
            data = bytearray(random.choice(seeds))
            for _ in range(random.randint(1, 6)):
                at = random.randrange(len(data))
                data[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
            async with wire(host) as connection:
                connection.send(bytes(data))
                connection.writer.write_eof()
                async with asyncio.timeout(PATIENCE):
                    try:
                        answered = await connection.reader.read(1 << 16)
                    except ConnectionResetError:
                        answered = b""
            assert not answered.startswith(b"HTTP/1.1 5"), bytes(data)
        assert (await ask(host, request("GET", "/livez"))).status == 200
    assert not caplog.records


@pytest.mark.parametrize("mount", ["/weather", "/a/b/", "my agent"])
async def test_mounts_below_a_path(mount: str) -> None:
    below = "/" + mount.strip("/").replace(" ", "%20")
    async with hosting(Scripted(), path=mount) as host:
        assert (await ask(host, request("POST", below, rpc()))).status == 200
        assert (await ask(host, request("POST", below + "/", rpc()))).status == 200
        assert (await ask(host, request("POST", below + "/message:send", SEND))).status == 200
        assert (await ask(host, request("POST", "/", rpc()))).status == 404
        assert (await ask(host, request("POST", below + "x", rpc()))).status == 404


async def test_the_longest_mount_wins() -> None:
    outer, inner = Scripted(), Scripted()
    host = HttpHost(ListenAddress(), HostOptions())
    for path, service in (("", outer), ("/inner", inner)):
        for binding in BINDINGS.values():
            binding.mount(host, path, service, KNOWN)
    await host.start()
    try:
        for path in ("/tasks/1", "/inner/tasks/1", "/other/tasks/1"):
            assert (await ask(host, request("GET", path))).status == 200
        assert [call.context.tenant for call in outer.calls] == ["", "other"]
        assert [call.context.tenant for call in inner.calls] == [""]
    finally:
        await host.drain(0)


async def test_a_path_is_mounted_once(host: HttpHost) -> None:
    with pytest.raises(ValueError, match="already"):
        host.mount("/", {})
    with pytest.raises(ValueError, match="already"):
        host.mount_tree("/", host.find("GET", "/livez"))


async def test_without_cors() -> None:
    async with hosting(Scripted(), options=HostOptions(cors="")) as host:
        host.publish("/card.json", lambda _: b"{}")
        assert "access-control-allow-origin" not in (await ask(host, request("GET", "/card.json"))).headers
        preflight = await ask(host, request("OPTIONS", "/card.json"))
        assert "access-control-allow-methods" not in preflight.headers


async def test_a_document_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: str) -> bytes:
        raise KeyError("a secret")

    async with hosting(Scripted()) as host:
        host.publish("/card.json", broken)
        answer = await ask(host, request("GET", "/card.json"))
    assert (answer.status, answer.reason) == (500, "INTERNAL_ERROR")
    assert b"secret" not in answer.body
    assert "a secret" in caplog.text


@pytest.mark.parametrize(("trust", "expected"), [((), "http://x"), (("127.0.0.0/8",), "https://out/pre")])
async def test_forwarded_headers(trust: tuple[str, ...], expected: str) -> None:
    async with hosting(Scripted(), options=HostOptions(trust_forwarded=trust)) as host:
        host.publish("/card.json", lambda base: json.dumps(base).encode())
        answer = await ask(
            host,
            request(
                "GET",
                "/card.json",
                X_Forwarded_Proto="https",
                X_Forwarded_Host="out",
                X_Forwarded_Prefix="/pre",
            ),
        )
        assert answer.json() == expected


async def test_probes(host: HttpHost) -> None:
    for path in ("/livez", "/readyz"):
        assert (await ask(host, request("GET", path, version=""))).body == b"ok\n"


async def test_a_mount_may_take_a_probes_place() -> None:
    service = Scripted()
    async with hosting(service, path="/livez") as host:
        answer = await ask(host, request("POST", "/livez", rpc()))
        assert answer.status == 200
        assert len(service.calls) == 1


async def test_the_peer_and_the_binding_are_known() -> None:
    service = Scripted()
    async with hosting(service) as host:
        await ask(host, request("POST", "/", rpc()))
        await ask(host, request("POST", "/message:send", SEND))
    origins = [call.context.origin for call in service.calls]
    assert [(origin.binding, origin.version, origin.peer) for origin in origins] == [
        ("JSONRPC", "1.0", "127.0.0.1"),
        ("HTTP+JSON", "1.0", "127.0.0.1"),
    ]


async def test_a_client_that_hangs_up_cancels_its_call() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(call: Call[Any, Any]) -> Any:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with hosting(Scripted(on_unary=wait)) as host:
        async with wire(host) as connection:
            connection.send(request("POST", "/", rpc()))
            async with asyncio.timeout(PATIENCE):
                await entered.wait()
        async with asyncio.timeout(PATIENCE):
            await cancelled.wait()


@pytest.mark.parametrize(("path", "body", "status"), [("/", rpc(), 200), ("/message:send", SEND, 503)])
async def test_calls_that_outlast_the_grace_get_an_error(path: str, body: bytes | str, status: int) -> None:
    entered = asyncio.Event()

    async def wait(call: Call[Any, Any]) -> Any:
        entered.set()
        await asyncio.Event().wait()

    async with hosting(Scripted(on_unary=wait)) as host, wire(host) as connection:
        connection.send(request("POST", path, body))
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
        await host.drain(0.01)
        answer = await connection.answer()
        assert (answer.status, answer.reason) == (status, "UNAVAILABLE")


@pytest.mark.parametrize(("path", "body"), [("/", rpc("SendStreamingMessage")), ("/message:stream", SEND)])
async def test_a_stream_that_outlasts_the_grace_gets_an_error(path: str, body: bytes | str) -> None:
    async def endless(call: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    service = Scripted(on_stream=endless)
    async with hosting(service) as host, wire(host) as connection:
        connection.send(request("POST", path, body))
        await connection.head()
        assert b"one" in await connection.chunk()
        await host.drain(0.01)
        last = await connection.chunk()
        assert b"UNAVAILABLE" in last
        assert await connection.chunk() == b""
        assert service.closed.is_set()


async def test_nothing_is_left_running() -> None:
    before = asyncio.all_tasks()
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(request("POST", "/", rpc()))
        await connection.answer()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_an_address_that_is_taken() -> None:
    async with hosting(Scripted()) as host:
        second = HttpHost(host.address, HostOptions())
        with pytest.raises(OSError):
            await second.start()
        await second.drain(0)


async def test_the_real_port_is_known_after_start(host: HttpHost) -> None:
    assert host.address.port > 0


async def test_malformed_requests_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send("nonsense\r\n\r\n")
        await connection.answer()
    assert not caplog.records
