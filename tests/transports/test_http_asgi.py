"""The same handlers as an ASGI application: mounted in other people's applications, and under uvicorn."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from a2a_bridge.bindings.binding import DialOptions, HostOptions
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import KNOWN
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_transports._http import asgi_request
from a2a_bridge_transports._http.asgi import AsgiHost, split
from tests.patience import LIMITS
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    PATIENCE,
    Scripted,
    Unanswered,
    dialling,
    frame,
    hosting,
    reply,
    request,
    said,
    update,
)

HEADERS = {"A2A-Version": "1.0"}
RPC = json.loads(frame("SendMessage", {"message": MESSAGE}))
STREAM = json.loads(frame("SendStreamingMessage", {"message": MESSAGE}))
both = pytest.mark.parametrize("kind", list(BINDINGS))


def post_scope(path: str) -> dict[str, Any]:
    """The scope of a POST of JSON, as servers give it."""
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"x"), (b"content-type", b"application/json"), (b"a2a-version", b"1.0")],
    }


def application(service: Scripted, options: HostOptions | None = None, **hooks: Any) -> AsgiHost:
    host = AsgiHost(options or HostOptions(), **hooks)
    for binding in BINDINGS.values():
        binding.mount(host, "", service, KNOWN)
    host.publish("/.well-known/agent-card.json", lambda base: json.dumps({"url": base}).encode())
    return host


def browser(app: Any, base: str = "http://host.example") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base, headers=HEADERS)


@asynccontextmanager
async def running(app: Any, **options: Any) -> AsyncIterator[str]:
    """The application under uvicorn, on a socket."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, **options)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(PATIENCE):
        while not server.started:  # noqa: ASYNC110  uvicorn offers no event
            await asyncio.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE):
            await task


async def test_both_bindings_and_the_card() -> None:
    async with browser(application(Scripted())) as http:
        rpc = await http.post("/", json=RPC)
        assert rpc.json()["result"]["message"]["parts"] == [{"text": "hi"}]
        rest = await http.post("/message:send", json={"message": MESSAGE})
        assert rest.json()["message"]["parts"] == [{"text": "hi"}]
        card = await http.get("/.well-known/agent-card.json")
        assert card.json() == {"url": "http://host.example"}
        again = await http.get(
            "/.well-known/agent-card.json", headers={"If-None-Match": card.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
        head = await http.head("/.well-known/agent-card.json")
        assert (head.headers["content-length"], head.content) == (str(len(card.content)), b"")
        assert (await http.get("/tasks/a%2Fb")).json()["id"] == "a/b"
        assert (await http.get("/nothing")).status_code == 404
        assert (
            await http.post("http://host.example//message:send", json={"message": MESSAGE})
        ).json() == rest.json()
        assert (await http.get("/message:send")).headers["allow"] == "POST, OPTIONS"
        assert (await http.options("/.well-known/agent-card.json")).status_code == 204
        stream = await http.post("/", json=STREAM)
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.text.count("data: ") == 3


@each("bound,value", [("BATCH_EVENTS", 4), ("BATCH_BYTES", 1), ("BATCH_TIME", -1.0)])
async def test_what_is_ready_is_sent_by_events_by_bytes_and_by_time(
    bound: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BATCH_EVENTS", "BATCH_BYTES", "BATCH_TIME"):
        monkeypatch.setattr(asgi_request, name, value if name == bound else math.inf)
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.request", "body": json.dumps(STREAM).encode(), "more_body": False}
        return await asyncio.Future()

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            parts.append(message["body"])

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for number in range(20):
            yield update(str(number))

    async with asyncio.timeout(PATIENCE):
        await application(Scripted(on_stream=script))(post_scope("/"), receive, send)
    assert b"".join(parts).count(b"data: ") == 20
    assert len(parts) >= 5


@pytest.mark.parametrize("outer", ["Starlette", "FastAPI", "FastAPI in FastAPI", "BaseHTTPMiddleware"])
async def test_mounted_below_a_path(outer: str) -> None:
    service = Scripted()
    inner = application(service)
    app: Any
    if outer == "Starlette":
        app = Starlette(routes=[Mount("/agents/x y", inner)])
    elif outer == "FastAPI":
        app = FastAPI()
        app.mount("/agents/x y", inner)
    elif outer == "FastAPI in FastAPI":
        app, middle = FastAPI(), FastAPI()
        middle.mount("/x y", inner)
        app.mount("/agents", middle)
    else:

        async def passing(request: Any, call_next: Any) -> Any:
            return await call_next(request)

        app = Starlette(
            routes=[Mount("/agents/x y", inner)],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=passing)],
        )
    async with browser(app) as http:
        base = "/agents/x%20y"
        assert (await http.post(f"{base}/", json=RPC)).status_code == 200
        assert (await http.post(f"{base}/message%3Asend", json={"message": MESSAGE})).status_code == 200
        assert (await http.get(f"{base}/acme/tasks/a%2Fb")).json()["id"] == "a/b"
        assert service.calls[-1].context.tenant == "acme"
        card = await http.get(f"{base}/.well-known/agent-card.json")
        assert card.json() == {"url": "http://host.example/agents/x%20y"}
        assert (await http.post(f"{base}/", json=STREAM)).text.count("data: ") == 3


@each(
    ("scope", "expected"),
    [
        ({"path": "/a", "raw_path": b"/a"}, ("", "/a")),
        ({"path": "/r/a", "raw_path": b"/r/a", "root_path": "/r"}, ("/r", "/a")),
        ({"path": "/r", "raw_path": b"/r", "root_path": "/r"}, ("/r", "/")),
        ({"path": "/a", "raw_path": b"/a", "root_path": "/r"}, ("/r", "/a")),
        ({"path": "/rx/a", "raw_path": b"/rx/a", "root_path": "/r"}, ("/r", "/rx/a")),
        ({"path": "/x y/a/b", "raw_path": b"/x%20y/a%2Fb", "root_path": "/x y"}, ("/x%20y", "/a%2Fb")),
        ({"path": "/x y/é", "root_path": "/x y/"}, ("/x%20y", "/%C3%A9")),
        ({"path": "/a", "raw_path": b"/a?x=1"}, ("", "/a")),
    ],
)
def test_the_mount_path(scope: MutableMapping[str, Any], expected: tuple[str, str]) -> None:
    assert split(scope) == expected


async def test_forwarded_headers() -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "out", "X-Forwarded-Prefix": "/pre"}
    for trust, expected in (((), "http://host.example"), (("*",), "https://out/pre")):
        async with browser(application(Scripted(), HostOptions(trust_forwarded=trust))) as http:
            card = await http.get("/.well-known/agent-card.json", headers=forwarded)
            assert card.json() == {"url": expected}


@pytest.mark.parametrize("host", ["a/b", "", "a,b", "a@b", "a:65536"])
async def test_a_host_header_that_is_none_is_rejected(host: str) -> None:
    async with browser(application(Scripted())) as http:
        answer = await http.get("/.well-known/agent-card.json", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            400,
            "the Host header is not valid",
        )


async def test_limits() -> None:
    service = Scripted()
    async with browser(application(service, HostOptions(max_body=1000))) as http:
        assert (await http.post("/", content=b" " * 2000)).status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b" " * 100

        assert (await http.post("/", content=pieces())).status_code == 413
        assert (await http.post("/", content=b"x", headers={"Content-Encoding": "gzip"})).status_code == 415
        assert (await http.post("/", json={}, headers={"X": "v" * 20_000})).status_code == 431
        assert (await http.post("/?" + "v" * 20_000, json={})).status_code == 414
    assert not service.calls


async def test_an_odd_content_length_is_ignored() -> None:
    service, body = Scripted(), json.dumps(RPC).encode()
    messages = iter(
        [
            {"type": "http.request", "body": body[:9], "more_body": True},
            {"type": "http.request", "body": body[9:]},
        ]
    )
    sent: list[Any] = []

    async def get() -> Any:
        return next(messages, {"type": "http.disconnect"})

    async def put(message: Any) -> None:
        sent.append(message)

    headers = {"host": "x", "content-type": "application/json", "a2a-version": "1.0", "content-length": "²"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await application(service)(scope, get, put)
    assert sent[0]["status"] == 200
    assert len(service.calls) == 1


async def test_starting_with_the_first_request_and_once() -> None:
    started: list[str] = []
    go = asyncio.Event()

    async def start() -> None:
        started.append("up")
        await go.wait()

    async with browser(application(Scripted(), startup=start)) as http:
        calls = [asyncio.create_task(http.post("/", json=RPC)) for _ in range(5)]
        await asyncio.sleep(0)
        go.set()
        assert [(await call).status_code for call in calls] == [200] * 5
    assert started == ["up"]


async def test_a_start_that_failed_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    attempts = 0

    async def start() -> None:
        nonlocal attempts
        attempts += 1
        if attempts <= 2:
            raise OSError("a secret")

    async with browser(application(Scripted(), startup=start)) as http:
        for _ in range(2):
            rejected = await http.post("/", json=RPC)
            assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")
            assert "UNAVAILABLE" in rejected.text
            assert "secret" not in rejected.text
        assert (await http.post("/", json=RPC)).status_code == 200
    assert attempts == 3
    assert caplog.text.count("the application cannot start: a secret") == 1


async def lifespan(app: AsgiHost) -> list[MutableMapping[str, Any]]:
    asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told: list[MutableMapping[str, Any]] = []
    asked.put_nowait({"type": "lifespan.startup"})
    asked.put_nowait({"type": "lifespan.shutdown"})

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message)

    await app({"type": "lifespan"}, asked.get, send)
    return told


async def test_lifespan() -> None:
    seen: list[str] = []

    async def start() -> None:
        seen.append("up")

    async def close(grace: float) -> None:
        assert grace > 0
        seen.append("down")

    app = application(Scripted(), startup=start, close=close)
    assert [message["type"] for message in await lifespan(app)] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert seen == ["up", "down"]
    async with browser(app) as http:
        assert (await http.get("/readyz")).status_code == 503


async def test_lifespan_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError("a secret")

    told = await lifespan(application(Scripted(), startup=fail))
    assert [message["type"] for message in told] == ["lifespan.startup.failed"]
    assert "secret" not in str(told)
    assert "a secret" in caplog.text


async def test_other_scopes() -> None:
    app = application(Scripted())
    told: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message)

    async def receive() -> dict[str, Any]:
        return {}

    await app({"type": "websocket"}, receive, send)
    assert told == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="nonsense"):
        await app({"type": "nonsense"}, receive, send)


@both
async def test_our_clients_over_a_socket(kind: str) -> None:
    service, app = Scripted(), FastAPI()
    app.mount("/agent", application(service))
    async with running(app) as url, dialling(f"{url}/agent/", kind) as near:
        client = Client(near)
        request = hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER))
        assert await client.send_message(request) == reply()
        stream = client.send_streaming_message(request)
        assert [said(event) async for event in stream] == ["one", "two", "three"]
    assert service.calls[0].context.origin.peer == "127.0.0.1"


async def test_uvicorn_with_a_root_path() -> None:
    async with running(application(Scripted()), root_path="/api") as url, httpx.AsyncClient() as http:
        card = await http.get(f"{url}/.well-known/agent-card.json")
        assert card.json() == {"url": f"{url}/api"}


@both
async def test_a_client_that_leaves_closes_the_source_behind_middleware(kind: str) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    service = Scripted(on_stream=script)
    app = Starlette(
        routes=[Mount("/", application(service))],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=passing)],
    )
    async with running(app) as url, dialling(url, kind) as near:
        stream = Client(near).subscribe_to_task(hub.SubscribeToTaskRequest(id="7"))
        assert said(await anext(stream)) == "one"
        await stream.aclose()
        async with asyncio.timeout(PATIENCE):
            await service.closed.wait()


@both
async def test_silence_is_filled(kind: str) -> None:
    """A client that gives up after a silence reads a stream that is silent for longer."""

    async def read_after(silence: float) -> None:
        go = asyncio.Event()

        async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            await go.wait()
            yield update("one")

        app = application(Scripted(on_stream=script), HostOptions(keep_alive=silence / 8))
        async with running(app) as url, dialling(url, kind, DialOptions(idle_timeout=silence)) as near:
            stream = Client(near).subscribe_to_task(hub.SubscribeToTaskRequest(id="7"))
            async with aclosing(stream):
                asyncio.get_running_loop().call_later(2 * silence, go.set)
                async with asyncio.timeout(PATIENCE):
                    assert said(await anext(stream)) == "one"

    *shorter, longest = LIMITS[1:]
    for silence in shorter:
        # A busy machine may be silent for as long.
        with suppress(A2AError):
            await read_after(silence)
            return
    await read_after(longest)


async def test_an_endless_producer_does_not_starve_other_calls() -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        while True:
            yield update("x")

    async with (
        running(application(Scripted(on_stream=script))) as url,
        httpx.AsyncClient(headers=HEADERS) as http,
        http.stream("POST", url, json=STREAM) as response,
    ):
        assert (await anext(response.aiter_lines())).startswith("data: ")
        for _ in range(5):
            assert (await http.get(f"{url}/tasks/7")).status_code == 200


async def test_nothing_is_left_running(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    app, before = application(Scripted()), asyncio.all_tasks()
    async with browser(app) as http:
        await http.post("/", json=RPC)
        await http.post("/", json=STREAM)
        await http.get("/nothing")
    assert asyncio.all_tasks() == before
    assert not caplog.records


@pytest.mark.parametrize("path", ["/", "/message:send", "/hook"])
async def test_a_client_that_leaves_before_its_body_is_whole(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    service = Scripted()
    app = application(service)

    async def receive(path: str, headers: Any, read_body: Any) -> int:
        await read_body()
        return 204

    app.receive("/hook", receive)
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def get() -> Any:
        return next(messages)

    async def put(message: Any) -> None:
        sent.append(message)

    await app(post_scope(path), get, put)
    assert not sent
    assert not service.calls
    assert [(one.levelname, one.message) for one in caplog.records if one.name.startswith("a2a_bridge")] == [
        ("DEBUG", "a client left before its request was complete")
    ]


@pytest.mark.parametrize("path", ["/", "/message:send"])
@pytest.mark.parametrize("part", ["", "{"])
async def test_a_body_that_comes_too_slowly(path: str, part: str) -> None:
    """The answer is the one of the builtin host, and ends the connection."""
    options = HostOptions(header_timeout=0.1)
    data = request("POST", path, "x" * 20)[:-20] + part.encode()
    answers = []
    async with hosting(Scripted(), options=options) as host, running(application(Scripted(), options)) as url:
        for port in (host.address.port, int(url.rpartition(":")[2])):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                raw = await reader.read()
            writer.close()
            head, _, body = raw.partition(b"\r\n\r\n")
            answers.append((head.split(b" ")[1], json.loads(body)))
            assert b"connection: close" in head.lower()
    assert answers[0] == answers[1]
    assert "the body came too slowly" in str(answers[1])


async def test_a_body_that_comes_fast_enough_may_take_long() -> None:
    """Its request is watched afterwards, so that its call ends when the client leaves."""
    unanswered, slow = Unanswered(), asyncio.Event()
    app = application(Scripted(on_unary=unanswered), HostOptions(header_timeout=0.0))
    data = frame("SendMessage", {"message": MESSAGE}) + b" " * 1_000_000

    async def messages() -> AsyncGenerator[Any, None]:
        yield {"type": "http.request", "body": data[:-1], "more_body": True}
        await slow.wait()
        yield {"type": "http.request", "body": data[-1:], "more_body": False}
        await unanswered.entered.wait()
        yield {"type": "http.disconnect"}

    async def put(_: Any) -> None:
        raise AssertionError("nothing is sent to a client that has left")

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"x"), (b"content-type", b"application/json"), (b"a2a-version", b"1.0")],
    }
    source = messages()
    answering = asyncio.create_task(app(scope, source.__anext__, put))
    async with asyncio.timeout(PATIENCE):
        while not app.running or app.watches.waiting:  # noqa: ASYNC110  until the sweep has seen it
            await asyncio.sleep(0.01)
        slow.set()
        await answering
    assert unanswered.gone.is_set()
    await source.aclose()


async def test_a_receive_that_never_returns_leaves_nothing_behind() -> None:
    """As pyvoy under load: the future of a `receive` after the body may never be set."""
    loop, watched = asyncio.get_running_loop(), asyncio.Event()
    never: asyncio.Future[MutableMapping[str, Any]] = loop.create_future()

    async def on_unary(_: Call[Any, Any]) -> Any:
        await watched.wait()
        return reply()

    whole = loop.create_future()
    whole.set_result({"type": "http.request", "body": frame("SendMessage", {"message": MESSAGE})})

    def receive() -> asyncio.Future[Any]:
        if not started:
            started.append(1)
            return whole
        watched.set()
        return never

    started: list[int] = []
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    app: Any = application(Scripted(on_unary=on_unary))
    before = asyncio.all_tasks()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [
            (b"host", b"h.example"),
            (b"content-type", b"application/json"),
            (b"a2a-version", b"1.0"),
        ],
    }
    async with asyncio.timeout(PATIENCE):
        await app(scope, receive, send)
    assert sent[0]["status"] == 200
    assert asyncio.all_tasks() == before
    assert not never.done()
    never.set_result({"type": "http.disconnect"})
    await asyncio.sleep(0)
