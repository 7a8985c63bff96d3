"""Applications of ASGI on each of our hosts, and what the listener of ours does beside the contract."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from a2a_bridge.bindings.binding import HostOptions, asgi_host, http_host, http_site
from a2a_bridge.bindings.memory import in_work
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE, until
from tests.shared_library import need_shared_library
from tests.transports.asgi_mount_contract import (
    KIB,
    App,
    AsgiMountContract,
    Place,
    body_of,
    chunked,
    echo,
    hold,
    part,
    rows,
    start,
)
from tests.transports.envoy_scene import envoy
from tests.transports.http_scene import request, wire
from tests.transports.test_http_asgi import running


class TestListener(AsgiMountContract):
    @asynccontextmanager
    async def listening(self, app: App, options: HostOptions) -> AsyncIterator[Place]:
        host = http_host(ListenAddress(), options)
        host.mount_application("/app", app)
        await host.start()
        try:
            yield Place(host.address, host)
        finally:
            await host.drain(0)

    @each(
        "sent,status",
        rows(
            a_long_head=(request("GET", "/app", X_Long="x" * 20_000), 431),
            a_long_target=(request("GET", "/app?" + "x" * 20_000), 414),
            many_lines=(request("GET", "/app", **{f"x{n}": "" for n in range(300)}), 431),
            a_bad_host=(request("GET", "/app", host="a b"), 400),
            two_framings=(request("POST", "/app", b"x", Transfer_Encoding="chunked"), 400),
            no_application=(request("GET", "/other"), 404),
        ),
    )
    async def test_a_head_is_checked_before_the_application_sees_it(self, sent: bytes, status: int) -> None:
        async with self.talking(echo) as (app, connection):
            connection.send(sent)
            assert (await connection.answer()).status == status
            assert app.scopes == []

    async def test_a_body_that_is_not_framed_is_an_error(self) -> None:
        async with self.talking(echo) as (_, connection):
            connection.send(request("POST", "/app", Transfer_Encoding="chunked") + b"1\r\nx\r\n")
            connection.send(b"nonsense\r\n")
            answered = await connection.answer()
            assert (answered.status, "framed" in answered.body.decode()) == (400, True)

    async def test_the_body_is_asked_for_when_the_application_reads_it(self) -> None:
        async with self.talking(echo) as (_, connection):
            connection.send(request("POST", "/app", Content_Length="4", Expect="100-continue"))
            assert (await connection.head())[0] == 100
            connection.send(b"body")
            assert (await connection.answer()).body == b"body"

    async def test_a_body_that_nobody_reads_waits_at_its_client(self) -> None:
        async with self.talking(hold) as (app, connection):

            async def answer(app: App, _scope: Any, _receive: Any, send: Any) -> None:
                app.entered.set()
                await app.go.wait()
                await start(send)
                await part(send, b"unread", more=False)

            app.answer = answer
            connection.send(request("POST", "/app", Content_Length=str(8 << 20)) + b"x" * (4 << 20))
            await app.entered.wait()
            await until(lambda: connection.writer.transport.get_write_buffer_size() > 0)
            app.go.set()
            answered = await connection.answer()
            assert (answered.body, answered.headers["connection"]) == (b"unread", "close")

    async def test_a_response_to_http_1_0_ends_with_its_connection(self) -> None:
        async def answer(_: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await part(send, b"some")
            await part(send, b"more", more=False)

        async with self.talking(answer) as (_, connection):
            connection.send(b"GET /app HTTP/1.0\r\nHost: x\r\n\r\n")
            status, headers = await connection.head()
            assert (status, headers.get("transfer-encoding"), headers["connection"]) == (200, None, "close")
            assert await connection.reader.read() == b"somemore"

    async def test_a_broken_response_to_http_1_0_is_reset(self, caplog: pytest.LogCaptureFixture) -> None:
        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await part(send, b"some")
            await app.go.wait()
            raise RuntimeError

        caplog.set_level(logging.CRITICAL)
        async with self.talking(answer) as (app, connection):
            connection.send(b"GET /app HTTP/1.0\r\nHost: x\r\n\r\n")
            await connection.head()
            assert await connection.reader.readexactly(4) == b"some"
            app.go.set()
            with pytest.raises(ConnectionResetError):
                await connection.reader.read()

    async def test_work_after_the_response_keeps_no_connection(self) -> None:
        async def answer(app: App, scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await part(send, scope["raw_path"], more=False)
            await app.go.wait()

        async with self.talking(answer) as (app, connection):
            for path in ("/app/1", "/app/2"):
                connection.send(request("GET", path))
                assert (await connection.answer()).body == path.encode()
            assert app.counts["running"] == 2
            app.go.set()
            await until(lambda: not app.counts["running"])

    async def test_what_is_sent_after_the_client_has_left_ends_a_stream(self) -> None:
        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            try:
                while True:
                    await part(send, b"x" * 64 * KIB)
                    app.entered.set()
            except OSError:
                app.left.set()
                raise

        async with self.talking(answer) as (app, connection):
            connection.send(request("GET", "/app"))
            await app.entered.wait()
            connection.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await app.left.wait()

    async def test_two_senders_at_once_wait_for_one_reader(self) -> None:
        piece, number = b"x" * 256 * KIB, 20

        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await asyncio.gather(*(part(send, piece) for _ in range(number)))
            await part(send, more=False)

        async with self.talking(answer) as (_, connection):
            connection.send(request("GET", "/app"))
            assert len((await connection.answer()).body) == number * len(piece)

    @each("number,size", rows(many_parts=(64, 1), large_parts=(8, 16 * KIB)))
    async def test_an_application_that_only_sends_gives_others_their_turn(
        self, number: int, size: int
    ) -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        async def answer(app: App, _scope: Any, receive: Any, send: Any) -> None:
            nonlocal turns
            await start(send)
            turn()
            turns = 0
            for _ in range(number):
                await part(send, b"x" * size)
            app.counts["turns"] = turns
            await part(send, more=False)

        async with self.talking(answer) as (app, connection):
            connection.send(request("GET", "/app"))
            await connection.answer()
        assert app.counts["turns"] >= 4

    async def test_bytes_count_while_they_are_held(self) -> None:
        async with self.talking(hold) as (app, connection):
            connection.send(request("POST", "/app", b"x" * 100_000))
            await app.entered.wait()
            assert in_work.held == 100_000
            app.go.set()
            await connection.answer()
            await until(lambda: not in_work.held)

    async def test_the_limit_of_connections_is_that_of_the_host(self) -> None:
        async with self.serving(hold, max_connections=1) as (app, place), wire(place) as first:
            first.send(request("GET", "/app"))
            await app.entered.wait()
            async with wire(place) as second:
                assert await second.ended()
            app.go.set()
            assert (await first.answer()).body == b"done"

    async def test_probes_are_those_of_the_host(self) -> None:
        host = http_host(ListenAddress(), HostOptions())
        host.mount_application("", App(echo))
        await host.start()
        try:
            async with wire(host) as connection:
                for path, body in (("/readyz", b"ok\n"), ("/livez", b"ok\n"), ("/x", b"")):
                    connection.send(request("GET", path))
                    assert (await connection.answer()).body == body
        finally:
            await host.drain(0)


async def test_an_application_that_does_not_start_is_an_error_of_the_start() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no table"})

    first, host = App(echo), http_host(ListenAddress(), HostOptions())
    host.mount_application("/first", first)
    host.mount_application("/app", broken)
    with pytest.raises(RuntimeError, match="/app does not start: no table"):
        await host.start()
    assert first.events == ["started", "stopped"]


async def test_an_application_without_a_lifespan_is_served() -> None:
    async def plain(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await start(send)
        await part(send, await body_of(receive), more=False)

    host = http_host(ListenAddress(), HostOptions())
    host.mount_application("/app", plain)
    await host.start()
    try:
        async with wire(host) as connection:
            connection.send(chunked(b"hello"))
            assert (await connection.answer()).body == b"hello"
    finally:
        await host.drain(0)


async def _started() -> None:
    """The host of a site listens already."""


@each("grace,status", [(PATIENCE, 200), (0.01, 503)])
async def test_a_site_waits_for_its_application_and_then_ends_its_calls(grace: float, status: int) -> None:
    """A site comes and goes while its host runs, so the drain of the host does not help it."""
    begun, going, statuses = asyncio.Event(), asyncio.Event(), [200]

    async def app(_: Any, receive: Any, send: Any) -> None:
        await body_of(receive)
        begun.set()
        await going.wait()
        await send({"type": "http.response.start", "status": statuses[-1], "headers": []})
        await part(send, b"an answer", more=False)

    def end_calls() -> None:
        statuses.append(503)
        going.set()

    host = http_host(ListenAddress(), HostOptions())
    site = http_site(host, HostOptions(), "/agents/a", (), _started)
    site.mount_application("", app, at=("/app",), ending=end_calls)
    await host.start()
    try:
        site.open()
        await site.start()
        async with wire(host) as connection:
            connection.send(request("POST", "/agents/a/app", b"x"))
            await begun.wait()
            site.close()
            draining = asyncio.create_task(site.drain(grace))
            if status == 200:
                await asyncio.sleep(0)
                assert not draining.done()
                going.set()
            await draining
            answer = await connection.answer()
            assert (answer.status, answer.body) == (status, b"an answer")
    finally:
        await host.drain(0)


class TestAsgiHost(AsgiMountContract):
    @asynccontextmanager
    async def listening(self, app: App, options: HostOptions) -> AsyncIterator[Place]:
        host = asgi_host(options)
        host.mount_application("/app", app)
        await host.start()
        async with running(host, lifespan="off", timeout_graceful_shutdown=1) as url:
            place = urlsplit(url)
            yield Place(ListenAddress(str(place.hostname), place.port or 0), host)
            await host.drain(0)


@pytest.mark.process
class TestEnvoy(AsgiMountContract):
    at_once = 200

    @asynccontextmanager
    async def listening(self, app: App, options: HostOptions) -> AsyncIterator[Place]:
        need_shared_library()  # before the application is started
        host = asgi_host(options)
        host.mount_application("/app", app)
        await host.start()
        async with envoy(host) as server:
            yield Place(ListenAddress("127.0.0.1", server.listener_port), host)
            await host.drain(0)
