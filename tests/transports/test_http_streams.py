"""Event streams of both bindings on the HTTP listener: order, errors, silence, slow readers, fairness."""

import asyncio
import json
import math
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge_transports._http import events
from a2a_bridge_transports._http.protocol import Connection
from a2a_bridge_transports._http.sse import Decoder, Event
from tests.transports.http_scene import (
    MESSAGE,
    PATIENCE,
    Answer,
    Scripted,
    ask,
    frame,
    hosting,
    request,
    update,
    wire,
)
from tests.transports.test_http_connections import Pausing

RPC = request("POST", "/", frame("SendStreamingMessage", {"message": MESSAGE}, id_="é"))
REST = request("POST", "/message:stream", json.dumps({"message": MESSAGE}))
both = pytest.mark.parametrize("asked", [RPC, REST], ids=["JSONRPC", "HTTP+JSON"])

Script = Callable[[Call[Any, Any]], AsyncGenerator[Any, None]]


def parsed(data: bytes) -> list[Event]:
    decoder = Decoder(1 << 24)
    found = decoder.feed(data)
    assert not decoder.pending
    return found


def texts(data: bytes) -> list[str]:
    """The texts of the events; for an error its reason."""
    found = []
    for event in parsed(data):
        tree = json.loads(event.data)
        if "jsonrpc" in tree:
            assert tree["id"] == "é"
        if "error" in tree:
            error = tree["error"]
            found.append(error.get("data", error.get("details"))[0]["reason"])
            continue
        shown = tree.get("result", tree)
        found.append(shown["statusUpdate"]["status"]["message"]["parts"][0]["text"])
    return found


def saying(*items: str | BaseException) -> Script:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield update(item)

    return script


async def stream(asked: bytes, script: Script, options: HostOptions | None = None) -> Answer:
    async with hosting(Scripted(on_stream=script), options=options) as host:
        return await ask(host, asked)


@both
async def test_events_in_order(asked: bytes) -> None:
    answer = await stream(asked, saying("one", "two\u2028\x85", "three"))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert texts(answer.body) == ["one", "two\u2028\x85", "three"]
    assert {event.type for event in parsed(answer.body)} == {"message"}
    assert all(line.startswith("data: ") for line in answer.body.decode().splitlines() if line)


@both
async def test_a_stream_of_nothing(asked: bytes) -> None:
    answer = await stream(asked, saying())
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream"


@both
async def test_an_early_error_is_an_ordinary_answer(asked: bytes) -> None:
    answer = await stream(asked, saying(A2AError(Reason.TASK_NOT_FOUND)))
    assert (answer.headers["content-type"], answer.reason) == ("application/json", "TASK_NOT_FOUND")
    assert answer.status == (200 if asked is RPC else 404)


@both
async def test_a_late_error_is_an_event(asked: bytes) -> None:
    answer = await stream(asked, saying("one", A2AError(Reason.UNSUPPORTED_OPERATION)))
    assert texts(answer.body) == ["one", "UNSUPPORTED_OPERATION"]
    assert parsed(answer.body)[-1].type == ("message" if asked is RPC else "error")


@both
@pytest.mark.parametrize("early", [True, False])
async def test_a_defect_stays_in(asked: bytes, early: bool, caplog: pytest.LogCaptureFixture) -> None:
    answer = await stream(asked, saying(*([] if early else ["one"]), KeyError("a secret")))
    assert b"INTERNAL_ERROR" in answer.body
    assert b"secret" not in answer.body
    assert "a secret" in caplog.text


@both
async def test_an_event_that_json_cannot_say(asked: bytes) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        broken = update("two")
        broken.status_update.metadata["x"] = float("inf")
        yield broken
        yield update("three")

    answer = await stream(asked, script)
    assert texts(answer.body) == ["one", "INVALID_AGENT_RESPONSE"]


@both
@pytest.mark.parametrize("items", [["one"], []])
async def test_silence_starts_the_stream_and_is_filled(asked: bytes, items: list[str]) -> None:
    go = asyncio.Event()

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        await go.wait()
        for item in items:
            yield update(item)
        raise A2AError(Reason.TASK_NOT_FOUND)

    service = Scripted(on_stream=script)
    async with hosting(service, options=HostOptions(keep_alive=0.02)) as host, wire(host) as connection:
        connection.send(asked)
        status, headers = await connection.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert await connection.chunk() == b": keep-alive\n\n"
        assert await connection.chunk() == b": keep-alive\n\n"
        go.set()
        rest = b"".join([chunk async for chunk in connection.chunks()])
        assert texts(rest) == [*items, "TASK_NOT_FOUND"]


@both
async def test_no_keep_alive_after_the_end(asked: bytes) -> None:
    """It would be in the next answer. The writer may still wait for its reader when nothing is left to send."""
    written: list[bytes] = []
    ended = asyncio.Event()

    class Unread(Pausing):
        def write(self, data: Any) -> None:
            written.append(data)
            if data.endswith(b"0\r\n\r\n"):
                connection.pause_writing()
                ended.set()

    async with hosting(Scripted(), options=HostOptions(keep_alive=0.01)) as host:
        connection = Connection(host)
        connection.connection_made(Unread())
        connection.data_received(asked)
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
            asyncio.get_running_loop().call_later(0.1, connection.resume_writing)
            while connection.request is not None:  # noqa: ASYNC110  a connection has no event
                await asyncio.sleep(0.001)
        connection.connection_lost(None)
    assert written[-1].endswith(b"0\r\n\r\n")


@both
async def test_no_keep_alive_while_events_flow(asked: bytes) -> None:
    answer = await stream(asked, saying(*map(str, range(2000))), HostOptions(keep_alive=30))
    assert b": keep-alive" not in answer.body


@both
async def test_an_event_does_not_wait_for_the_next(asked: bytes) -> None:
    go = asyncio.Event()

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await go.wait()
        yield update("two")

    async with hosting(Scripted(on_stream=script)) as host, wire(host) as connection:
        connection.send(asked)
        await connection.head()
        assert texts(await connection.chunk()) == ["one"]
        go.set()
        assert texts(await connection.chunk()) == ["two"]
        assert await connection.chunk() == b""


@both
async def test_events_that_are_ready_travel_together(asked: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BATCH_TIME", math.inf)
    numbers = [str(number) for number in range(100)]
    async with hosting(Scripted(on_stream=saying(*numbers))) as host, wire(host) as connection:
        connection.send(asked)
        await connection.head()
        chunks = [chunk async for chunk in connection.chunks()]
    assert texts(b"".join(chunks)) == numbers
    assert 100 / events.BATCH_EVENTS <= len(chunks) <= 100 / events.BATCH_EVENTS + 2


@both
async def test_a_producer_that_only_computes_is_not_held_back(
    asked: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH_TIME", -1.0)
    service = Scripted(on_stream=saying("one", "two", "three", "four"))
    async with hosting(service) as host, wire(host) as connection:
        connection.send(asked)
        await connection.head()
        assert len([chunk async for chunk in connection.chunks()]) > 1


@both
async def test_large_events_are_not_batched(asked: bytes) -> None:
    async with hosting(Scripted(on_stream=saying(*["x" * 50_000] * 4))) as host, wire(host) as connection:
        connection.send(asked)
        await connection.head()
        chunks = [chunk async for chunk in connection.chunks()]
    assert len(chunks) >= 2
    assert texts(b"".join(chunks)) == ["x" * 50_000] * 4


@both
async def test_the_agents_parameters_go_out_with_the_first_event(asked: bytes) -> None:
    async def script(call: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        call.context.reply["a2a-extensions"] = "urn:a"
        yield update("one")
        call.context.reply["x-late"] = "1"

    answer = await stream(asked, script)
    assert answer.headers["a2a-extensions"] == "urn:a"
    assert "x-late" not in answer.headers


@both
async def test_parameters_that_cannot_go_out(asked: bytes) -> None:
    async def script(call: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        call.context.reply["x-a"] = "1\r\nSet-Cookie: a"
        yield update("one")

    answer = await stream(asked, script)
    assert answer.reason == "INTERNAL_ERROR"
    assert "set-cookie" not in answer.headers


@both
async def test_parameters_that_cannot_go_out_after_silence(asked: bytes) -> None:
    go = asyncio.Event()

    async def script(call: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        call.context.reply["x-a"] = "\0"
        await go.wait()
        yield update("one")

    service = Scripted(on_stream=script)
    async with hosting(service, options=HostOptions(keep_alive=0.01)) as host, wire(host) as connection:
        connection.send(asked)
        asyncio.get_running_loop().call_later(0.03, go.set)
        answer = await connection.answer()
        assert answer.reason == "INTERNAL_ERROR"


@both
@pytest.mark.parametrize("pours", [False, True])
async def test_a_reader_that_leaves_closes_the_source(asked: bytes, pours: bool) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        while pours:
            yield update("x" * 1000)
        await asyncio.Event().wait()

    service = Scripted(on_stream=script)
    async with hosting(service) as host:
        async with wire(host) as connection:
            connection.send(asked)
            await connection.head()
            await connection.chunk()
            assert not service.closed.is_set()
        async with asyncio.timeout(PATIENCE):
            await service.closed.wait()


@both
async def test_a_reader_that_does_not_read_costs_little(
    asked: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced = 0
    stalled = asyncio.Event()
    pause = Connection.pause_writing

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        nonlocal produced
        while True:
            produced += 1
            yield update("x" * 4000)

    def pausing(connection: Any) -> None:
        pause(connection)
        stalled.set()

    monkeypatch.setattr(Connection, "pause_writing", pausing)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    async with hosting(Scripted(on_stream=script)) as host:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (host.address.host, host.address.port))
        await loop.sock_sendall(sock, asked)
        async with asyncio.timeout(PATIENCE):
            await stalled.wait()
        # Other callers are served meanwhile, and no further event is produced.
        assert (await ask(host, request("GET", "/tasks/7"))).status == 200
        stalled_at = produced
        for _ in range(20):
            assert (await ask(host, request("GET", "/tasks/7"))).status == 200
        assert produced == stalled_at
        [connection] = [each for each in host.connections if each.request is not None]
        assert connection.transport is not None
        assert connection.transport.get_write_buffer_size() <= 128 * 1024
        sock.close()


@both
async def test_the_connection_serves_on_after_a_stream(asked: bytes) -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        for _ in range(3):
            connection.send(asked)
            assert texts((await connection.answer()).body) == ["one", "two", "three"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/tasks/7:subscribe", "/tasks/7%3Asubscribe/", "/acme/tasks/7:subscribe"])
async def test_subscribing_either_way(method: str, path: str) -> None:
    service = Scripted()
    async with hosting(service) as host:
        assert texts((await ask(host, request(method, path))).body) == ["one", "two", "three"]
    assert service.calls[0].request.id == "7"
