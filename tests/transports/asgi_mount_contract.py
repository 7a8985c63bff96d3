"""What an application of ASGI is promised on every host of ours. No tests by itself: each host has a subclass."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE, until
from tests.transports.http_scene import Wire, request, wire

SAID = "the text of an exception"
MANY = 100_000
KIB = 1024


@dataclass
class Place:
    """A host that listens. host: ours, which a test drains."""

    address: ListenAddress
    host: Any


@dataclass
class App:
    """An application that a test writes as one function; it records what it got."""

    answer: Callable[["App", dict[str, Any], Any, Any], Awaitable[None]]
    events: list[str] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        self.scopes.append(scope)
        self.counts["running"] += 1

        async def next_message() -> Any:
            message = await receive()
            self.received.append(message)
            if message["type"] == "http.disconnect":
                self.left.set()
            return message

        try:
            await self.answer(self, scope, next_message, send)
        finally:
            self.counts["running"] -= 1
            self.events.append("answered")

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["shared"] = "from the start"
        self.events.append("started")
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self.events.append("stopped")
        await send({"type": "lifespan.shutdown.complete"})


async def body_of(receive: Any) -> bytes:
    parts = []
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def start(send: Any, status: int = 200, **headers: str) -> None:
    head = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": head})


async def part(send: Any, body: bytes = b"", *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def echo(_: App, _scope: Any, receive: Any, send: Any) -> None:
    body = await body_of(receive)
    await start(send, content_type="text/plain")
    await part(send, body, more=False)


async def listen(app: App, _scope: Any, receive: Any, send: Any) -> None:
    """A stream without an end, which its reader listens to."""
    await body_of(receive)
    await start(send, content_type="text/event-stream")
    await part(send, b": begun\n\n")
    app.entered.set()
    await receive()


async def hold(app: App, _scope: Any, receive: Any, send: Any) -> None:
    """Answers when the test lets it."""
    await body_of(receive)
    app.entered.set()
    await app.go.wait()
    await start(send)
    await part(send, b"done", more=False)


def chunked(*parts: bytes, path: str = "/app", **headers: str) -> bytes:
    data = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (*parts, b""))
    return request("POST", path, Transfer_Encoding="chunked", **headers) + data


def throwing(error: BaseException) -> Any:
    def throw() -> None:
        raise error

    return throw


def rows(**named: Any) -> list[Any]:
    """The rows of a test by their ids; a tuple has the values of several parameters."""
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), id=name) for name, one in named.items()
    ]


class AsgiMountContract(ABC):
    #: the path of the application in the requests of these tests
    path = "/app"

    @abstractmethod
    def listening(self, app: App, options: HostOptions) -> AbstractAsyncContextManager[Place]:
        """A host with the application below `/app`."""

    @asynccontextmanager
    async def serving(self, answer: Any, **options: Any) -> AsyncIterator[tuple[App, Place]]:
        app = App(answer)
        async with self.listening(app, HostOptions(**options)) as place:
            yield app, place

    @asynccontextmanager
    async def talking(self, answer: Any, **options: Any) -> AsyncIterator[tuple[App, Wire]]:
        async with self.serving(answer, **options) as (app, place), wire(place) as connection:
            yield app, connection

    async def test_the_scope_says_what_was_asked(self) -> None:
        async with self.talking(echo) as (app, connection):
            connection.send(request("POST", "/app/a%2Fb/%C3%A9?x=1&y", b"body", X_One="1"))
            answer = await connection.answer()
            assert (answer.status, answer.body, answer.headers["content-type"]) == (
                200,
                b"body",
                "text/plain",
            )
        (scope,) = app.scopes
        assert (scope["type"], scope["method"], scope["http_version"]) == ("http", "POST", "1.1")
        assert (scope["path"], scope["root_path"]) == ("/app/a/b/é", "/app")
        assert (scope["raw_path"], scope["query_string"]) == (b"/app/a%2Fb/%C3%A9", b"x=1&y")
        assert {b"host": b"x", b"x-one": b"1", b"content-length": b"4"}.items() <= dict(
            scope["headers"]
        ).items()
        assert scope["client"][0] == "127.0.0.1"
        assert (scope["scheme"], scope["asgi"]["version"]) == ("http", "3.0")
        assert scope["state"] == {"shared": "from the start"}

    async def test_it_starts_before_the_host_and_ends_after_the_last_answer(self) -> None:
        async with self.serving(hold) as (app, place):
            assert app.events == ["started"]
            async with wire(place) as connection:
                connection.send(request("POST", self.path, b"x"))
                await app.entered.wait()
                draining = asyncio.create_task(place.host.drain(PATIENCE))
                await until(lambda: place.host.draining)
                app.go.set()
                assert (await connection.answer()).body == b"done"
                await draining
            assert app.events == ["started", "answered", "stopped"]

    @each(
        "made",
        rows(
            length=lambda body: request("POST", "/app", body),
            unknown=lambda body: chunked(*(body[at : at + 70_000] for at in range(0, len(body), 70_000))),
            tiny=lambda body: chunked(*(body[at : at + 1] for at in range(1000)), body[1000:]),
            empty=lambda _: request("POST", "/app", Content_Length="0"),
        ),
    )
    async def test_a_body_comes_whole(self, made: Any) -> None:
        body = bytes(range(256)) * 4000
        sent = made(body)
        async with self.talking(echo) as (_, connection):
            for _ in range(2):
                connection.send(sent)
                assert (await connection.answer()).body == (body if len(sent) > 1000 else b"")

    async def test_both_directions_stream_at_once(self) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            while True:
                message = await receive()
                if message["body"]:
                    await part(send, message["body"].upper())
                if not message["more_body"]:
                    break
            await part(send, b"end", more=False)

        async with self.talking(answer) as (_, connection):
            connection.send(request("POST", self.path, Transfer_Encoding="chunked"))
            for _ in range(3):
                connection.send(b"3\r\nabc\r\n")
                if _ == 0:
                    status, headers = await connection.head()
                    assert (status, headers["transfer-encoding"]) == (200, "chunked")
                assert await connection.chunk() == b"ABC"
            connection.send(b"0\r\n\r\n")
            assert [one async for one in connection.chunks()] == [b"end"]

    @each(
        "head,parts,body,length",
        rows(
            one_part=((200, {}), [b"body"], b"body", "4"),
            a_given_length=((200, {"content_length": "6"}), [b"abc", b"def"], b"abcdef", "6"),
            unknown_length=((200, {}), [b"abc", b"", b"def"], b"abcdef", None),
            nothing=((200, {}), [b""], b"", "0"),
            no_content=((204, {}), [b"dropped"], b"", None),
            not_modified=((304, {"etag": '"x"'}), [b""], b"", None),
            an_error_of_its_own=((418, {}), [b"teapot"], b"teapot", "6"),
        ),
    )
    async def test_a_response_is_framed(
        self, head: tuple[int, dict[str, str]], parts: list[bytes], body: bytes, length: str | None
    ) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await start(send, head[0], **head[1])
            for number, one in enumerate(parts):
                await part(send, one, more=number + 1 < len(parts))

        async with self.talking(answer) as (_, connection):
            for method in ("POST", "GET", "HEAD", "POST"):
                connection.send(request(method, self.path))
                found = await connection.answer(bodyless=method == "HEAD")
                assert (found.status, found.body) == (head[0], b"" if method == "HEAD" else body)
                if method != "HEAD" and head[0] == 200:
                    assert found.headers.get("content-length") == length

    async def test_a_stream_of_many_parts(self) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await start(send, content_type="application/x-ndjson")
            for number in range(MANY):
                await part(send, b"%d\n" % number)
            await part(send, more=False)

        async with self.talking(answer) as (_, connection):
            connection.send(request("GET", self.path))
            lines = (await connection.answer()).body.split()
            assert len(lines) == MANY
            assert lines[-1] == b"%d" % (MANY - 1)

    async def test_a_reader_that_does_not_read_holds_the_application(self) -> None:
        piece, most = b"x" * 64 * KIB, 2000

        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await start(send)
            for _ in range(most):
                app.counts["begun"] += 1
                await part(send, piece)
                app.counts["sent"] += 1
            await part(send, more=False)

        async with self.talking(answer) as (app, connection):
            connection.send(request("GET", self.path))
            await connection.head()
            alike = last = 0

            def stands() -> bool:
                nonlocal alike, last
                alike = alike + 1 if last == app.counts["sent"] else 0
                last = app.counts["sent"]
                return alike > 50 and app.counts["begun"] == last + 1

            await until(stands)
            assert app.counts["sent"] < most // 2
            whole = 0
            async for chunk in connection.chunks():
                whole += len(chunk)
            assert whole == most * len(piece)

    # ------------------------------------------------------------------ ends

    async def test_a_client_that_leaves_within_its_body(self) -> None:
        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            app.entered.set()
            while (await receive())["type"] != "http.disconnect":
                pass

        async with self.talking(answer) as (app, connection):
            connection.send(request("POST", self.path, Content_Length="1000") + b"some")
            await app.entered.wait()
            connection.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await app.left.wait()
            await until(lambda: not app.counts["running"])

    @each("begins", rows(before_the_head=False, within_a_stream=True))
    async def test_a_client_that_leaves_is_told_and_not_forced(self, begins: bool) -> None:
        finished = asyncio.Event()

        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            if begins:
                await start(send)
                await part(send, b"begun")
            app.entered.set()
            await receive()
            await app.go.wait()  # what it still has to do is not cut off
            finished.set()

        async with self.talking(answer) as (app, connection):
            connection.send(request("POST", self.path, b"x"))
            await app.entered.wait()
            connection.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await app.left.wait()
            app.go.set()
            async with asyncio.timeout(PATIENCE):
                await finished.wait()

    async def test_the_end_of_a_stream_whose_client_has_left_is_no_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """sse-starlette sends it in any case, and the SDK of MCP logs the error."""

        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await start(send)
            await part(send, b"begun")
            app.entered.set()
            await receive()
            await part(send, b"more")
            await part(send, more=False)

        async with self.talking(answer) as (app, connection):
            connection.send(request("POST", self.path, b"x"))
            await app.entered.wait()
            connection.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await app.left.wait()
            await until(lambda: not app.counts["running"])
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    async def test_an_exception_before_the_head_is_an_error(self, caplog: pytest.LogCaptureFixture) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            raise RuntimeError(SAID)

        caplog.set_level(logging.CRITICAL)
        async with self.talking(answer) as (_, connection):
            connection.send(request("POST", self.path, b"x"))
            answered = await connection.answer()
            assert answered.status == 500
            assert SAID.encode() not in answered.body
            assert answered.json()["error"]["code"] == 500

    @each(
        "ending",
        rows(
            nothing_sent=lambda: None,
            cancelled_by_itself=throwing(asyncio.CancelledError()),
            program_end=throwing(SystemExit(SAID)),
        ),
    )
    async def test_an_application_that_ends_without_an_answer(
        self, ending: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            ending()

        caplog.set_level(logging.CRITICAL)
        async with self.talking(answer) as (_, connection):
            connection.send(request("POST", self.path, b"x"))
            answered = await connection.answer()
            assert answered.status == 500
            assert SAID.encode() not in answered.body

    @each(
        "headers",
        rows(chunks={}, a_length={"content_length": "100"}, events={"content_type": "text/event-stream"}),
    )
    async def test_an_exception_within_the_response_breaks_it(
        self, headers: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await start(send, **headers)
            await part(send, b"some")
            await part(send, b"more")
            raise RuntimeError(SAID)

        caplog.set_level(logging.CRITICAL)
        async with self.talking(answer) as (_, connection):
            connection.send(request("POST", self.path, b"x"))
            async with asyncio.timeout(PATIENCE):
                whole = b""
                try:
                    while data := await connection.reader.read(KIB):
                        whole += data
                except ConnectionResetError:
                    pass
            assert not whole.endswith(b"0\r\n\r\n")
            assert SAID.encode() not in whole

    @each(
        "first",
        rows(
            another_length=lambda send: start(send, content_length="3"),
            a_line_break=lambda send: start(send, x_name="a\r\nb: c"),
            a_bad_name=lambda send: send(
                {"type": "http.response.start", "status": 200, "headers": [(b"a b", b"")]}
            ),
            a_status_before=lambda send: start(send, 103),
            trailers=lambda send: send(
                {"type": "http.response.start", "status": 200, "headers": [], "trailers": True}
            ),
            an_unknown_message=lambda send: send({"type": "http.response.push"}),
        ),
    )
    async def test_a_message_that_does_not_fit_is_an_error(
        self, first: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await first(send)
            await part(send, b"four", more=False)

        caplog.set_level(logging.CRITICAL)
        async with self.talking(answer) as (_, connection):
            connection.send(request("POST", self.path, b"x"))
            assert (await connection.answer()).status == 500

    # ------------------------------------------------------------------ limits

    @each(
        "sent", rows(declared=request("POST", "/app", b"x" * 2000), unknown=chunked(b"x" * 600, b"x" * 600))
    )
    async def test_a_large_body_is_rejected_whatever_the_application_says(self, sent: bytes) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            while (message := await receive())["type"] == "http.request":
                if not message["more_body"]:
                    break
            await start(send)
            await part(send, b"too much", more=False)

        async with self.talking(answer, max_body=1000) as (app, connection):
            connection.send(sent)
            answered = await connection.answer()
            assert (answered.status, answered.reason) == (413, "REQUEST_TOO_LARGE")
            assert app.received[-1] == {"type": "http.disconnect"}

    async def test_a_slow_body_is_rejected(self) -> None:
        async with self.talking(echo, header_timeout=0.1) as (_, connection):
            connection.send(request("POST", self.path, Content_Length="1000") + b"x")
            answered = await connection.answer()
            assert (answered.status, "too slowly" in answered.body.decode()) == (400, True)

    async def test_announced_trailers_are_refused(self) -> None:
        async with self.talking(echo) as (app, connection):
            connection.send(chunked(b"x", Trailer="X-Sum"))
            answered = await connection.answer()
            assert (answered.status, "trailers" in answered.body.decode()) == (400, True)
            assert app.scopes == []

    async def test_many_at_once(self) -> None:
        async def answer(app: App, scope: Any, receive: Any, send: Any) -> None:
            body = await body_of(receive)
            app.counts["entered"] += 1
            if app.counts["entered"] == self.at_once:
                app.go.set()
            await app.go.wait()
            await start(send)
            await part(send, body, more=False)

        async with self.serving(answer) as (_, place):

            async def ask(number: int) -> bool:
                async with wire(place) as connection:
                    connection.send(request("POST", self.path, b"%d" % number))
                    return (await connection.answer()).body == b"%d" % number

            assert all(await asyncio.gather(*map(ask, range(self.at_once))))

    at_once = 1000

    # ------------------------------------------------------------------ drain

    async def test_drain_ends_what_only_listens_at_once(self) -> None:
        async with self.serving(listen) as (app, place), wire(place) as connection:
            connection.send(request("GET", self.path))
            assert (await connection.head())[0] == 200
            await app.entered.wait()
            draining = asyncio.create_task(place.host.drain(PATIENCE))
            assert b"".join([one async for one in connection.chunks()]) == b": begun\n\n"
            await draining

    async def test_drain_ends_a_stream_that_does_not_hear_of_it(self) -> None:
        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send, content_type="text/event-stream")
            app.entered.set()
            await asyncio.Event().wait()

        async with self.serving(answer) as (app, place), wire(place) as connection:
            connection.send(request("GET", self.path))
            await connection.head()
            await app.entered.wait()
            draining = asyncio.create_task(place.host.drain(PATIENCE))
            assert [one async for one in connection.chunks()] == []
            await draining

    async def test_after_the_grace_a_running_call_gets_a_true_error(self) -> None:
        async with self.serving(hold) as (app, place):
            async with wire(place) as connection:
                connection.send(request("POST", self.path, b"x"))
                await app.entered.wait()
                draining = asyncio.create_task(place.host.drain(0.05))
                answered = await connection.answer()
                assert (answered.status, answered.reason) == (503, "UNAVAILABLE")
                await draining
            assert app.events == ["started", "answered", "stopped"]
