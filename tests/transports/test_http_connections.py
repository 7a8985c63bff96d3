"""Responses that nobody asked for, on a connection that is kept for the next call."""

import asyncio
import json
import os
import re
import selectors
import socket
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import count
from math import inf
from typing import Any

import orjson
import pytest

from a2a_bridge.bindings.binding import HostOptions, InheritedListener
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import yielding
from a2a_bridge_transports._http import host as host_module
from a2a_bridge_transports._http import host as http_host
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.protocol import Connection
from a2a_bridge_transports._http.reading import SHARE
from tests.patience import PATIENCE, until
from tests.transports.http_peer import http
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    Scripted,
    Wire,
    ask,
    dialling,
    frame,
    hosting,
    reply,
    request,
    update,
    wire,
)


class Talkative:
    """An agent that answers GetTask with the task, and the first call of each connection twice."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.url = ""
        self.connections = 0
        #: says that the client has its response, and keeps the connection
        self.given_back: asyncio.Queue[None] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        first = True
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                writer.write(self._response(head, body))
                await writer.drain()
                if first:
                    await self.given_back.get()
                    writer.write(self._response(head, body, again=True))
                first = False
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()

    def _response(self, head: str, body: bytes, *, again: bool = False) -> bytes:
        task = {"contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        if self._kind == "HTTP+JSON":
            return http(json.dumps(task | {"id": head.split()[1].rpartition("/")[2]}))
        frame = json.loads(body)
        task["id"] = frame["params"]["id"]
        # Ids are counted up, so that of the next request is easy to guess.
        return http(json.dumps({"jsonrpc": "2.0", "id": frame["id"] + again, "result": task}))


@asynccontextmanager
async def talking(kind: str) -> AsyncIterator[Talkative]:
    agent = Talkative(kind)
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield agent
    finally:
        server.close()


@pytest.mark.parametrize("kind", list(BINDINGS))
async def test_a_response_that_nobody_asked_for_is_for_nobody(kind: str) -> None:
    async with talking(kind) as agent, dialling(agent.url, kind) as service, asyncio.timeout(PATIENCE):
        kept: Any = service.exchanger._connector._conns  # type: ignore[attr-defined]
        for number in range(3):
            task = await Client(service).get_task(hub.GetTaskRequest(id=f"t{number}"))
            assert task.id == f"t{number}"
            agent.given_back.put_nowait(None)
            while all(one.is_connected() for idle in kept.values() for one, _ in idle):  # noqa: ASYNC110
                await asyncio.sleep(0)  # until the second response is here
    assert agent.connections == 3


# --- A host that stops loses no request: those in progress, those on kept connections, and new ones ---

SEND = json.dumps({"message": MESSAGE})


def rpc(method: str = "SendMessage") -> bytes:
    return frame(method, {"message": MESSAGE})


async def connecting(host: HttpHost) -> None:
    """Connects again and again. Raises OSError when the listener is closed."""
    while True:
        async with wire(host):
            pass


async def test_draining_answers_open_calls_and_accepts_no_new_ones() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def wait(call: Call[Any, Any]) -> Any:
        if not entered.is_set():
            entered.set()
            await go.wait()
        return reply()

    options = HostOptions(drain_window=0.5)
    async with (
        hosting(Scripted(on_unary=wait), options=options) as host,
        wire(host) as busy,
        wire(host) as idle,
    ):
        idle.send(request("GET", "/readyz"))
        assert (await idle.answer()).status == 200
        busy.send(request("POST", "/", rpc()))
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
        draining = asyncio.create_task(host.drain(PATIENCE))
        await asyncio.sleep(0)
        idle.send(request("GET", "/readyz"))
        late = await idle.answer()
        assert (late.status, late.headers["connection"]) == (503, "close")
        # The listener stays open for a moment: clients that are sent away may come again, and are sent away
        # again.
        fresh = await ask(host, request("POST", "/message:send", SEND))
        assert (fresh.status, fresh.headers["connection"]) == (200, "close")
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(OSError):
                await connecting(host)
        go.set()
        answer = await busy.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await busy.ended()
        async with asyncio.timeout(PATIENCE):
            await draining


async def test_idle_connections_do_not_hold_up_draining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "DRAIN_WINDOW", 0.05)
    async with hosting(Scripted()) as host, wire(host) as idle:
        idle.send(request("GET", "/livez"))
        assert (await idle.answer()).status == 200
        async with asyncio.timeout(PATIENCE):
            await host.drain(60)
        assert await idle.ended()


async def test_a_rolling_restart_loses_no_request_on_kept_connections() -> None:
    clients, each, rounds = 8, 25, 3
    options = HostOptions(drain_window=0.3)
    current: list[HttpHost] = []
    answered = 0
    progress = asyncio.Condition()

    async def calling() -> None:
        nonlocal answered
        connection: Wire | None = None
        writer: asyncio.StreamWriter | None = None
        for _ in range(each * (rounds + 1)):
            if connection is None:
                address = current[-1].address
                reader, writer = await asyncio.open_connection(address.host, address.port)
                connection = Wire(reader, writer)
            connection.send(request("POST", "/message:send", SEND))
            answer = await connection.answer()  # an IncompleteReadError is a request that was lost
            assert answer.status == 200
            if answer.headers.get("connection") == "close":
                assert writer is not None
                writer.close()
                connection = None
            async with progress:
                answered += 1
                progress.notify_all()
        assert writer is not None
        writer.close()

    async with AsyncExitStack() as hosts:
        current.append(await hosts.enter_async_context(hosting(Scripted(), options=options)))
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as callers:
            for _ in range(clients):
                callers.create_task(calling())
            for number in range(1, rounds + 1):
                async with progress:
                    await progress.wait_for(lambda most=number * clients * each: answered >= most)
                old = current[-1]
                current.append(await hosts.enter_async_context(hosting(Scripted(), options=options)))
                await old.drain(PATIENCE)
    assert answered == clients * each * (rounds + 1)


async def test_connections_that_wait_to_be_accepted_are_answered() -> None:
    async with hosting(Scripted(), options=HostOptions(drain_window=0)) as host:
        # The system makes these while the loop does not run.
        waiting = [socket.create_connection((host.address.host, host.address.port)) for _ in range(3)]
        for one in waiting:
            one.sendall(request("POST", "/", rpc()))
        draining = asyncio.create_task(host.drain(PATIENCE))
        for one in waiting:
            reader, writer = await asyncio.open_connection(sock=one)
            answer = await Wire(reader, writer).answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            writer.close()
        async with asyncio.timeout(PATIENCE):
            await draining


async def test_a_connection_that_comes_just_before_the_listener_is_closed_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients: list[socket.socket] = []

    class LateClient(selectors.DefaultSelector):
        """The system makes a connection when the host looks whether there is one."""

        def select(self, timeout: float | None = None) -> Any:
            if not clients:
                clients.append(socket.create_connection((host.address.host, host.address.port)))
            return super().select(timeout)

    async with hosting(Scripted(), options=HostOptions(drain_window=0)) as host:
        monkeypatch.setattr(selectors, "DefaultSelector", LateClient)
        draining = asyncio.create_task(host.drain(PATIENCE))
        async with asyncio.timeout(PATIENCE):
            while not clients:  # noqa: ASYNC110  a list has no event
                await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(sock=clients[0])
        writer.write(request("POST", "/", rpc()))
        assert (await Wire(reader, writer).answer()).status == 200
        writer.close()
        async with asyncio.timeout(PATIENCE):
            await draining


async def test_draining_waits_for_a_request_while_the_clock_runs_and_the_process_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time that the host looks at the clock, a second has passed."""
    clock, first = count(), b"POST / HTTP/1.1\r\n"
    message = request("POST", "/", rpc())
    rest = [message.removeprefix(first)]
    assert rest != [message]
    async with hosting(Scripted(), options=HostOptions(drain_window=0, header_timeout=1e6)) as host:
        reader, writer = await asyncio.open_connection(host.address.host, host.address.port)
        writer.write(first)
        await until(lambda: any(not one.is_idle for one in host.connections))
        hurry = Connection.hurry

        def complete(connection: Connection) -> None:
            if rest:
                writer.write(rest.pop())
            hurry(connection)

        monkeypatch.setattr(Connection, "hurry", complete)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        monkeypatch.setattr(loop, "time", lambda: begun + next(clock))
        await host.drain(inf)
        assert (await Wire(reader, writer).answer()).status == 200
        monkeypatch.undo()
        writer.close()


async def test_a_look_for_late_connections_that_is_late_itself_reads_first() -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(b"GET /livez HTTP/1.1\r\n")
        await until(lambda: any(one.deadline < inf for one in host.connections))
        [held] = host.connections
        held.deadline = 0.0
        host._sweep_late(asyncio.get_running_loop().time() - 60)
        connection.send(b"Host: x\r\n\r\n")
        assert (await connection.answer()).status == 200
        connection.send(b"GET /livez HTTP/1.1\r\n")
        await until(lambda: held.deadline < inf)
        held.deadline = 0.0
        host._sweep_late()
        assert await connection.ended()


async def test_connections_that_a_successor_accepts_are_left_to_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as successors, ExitStack() as stack:
        inherited = InheritedListener(os.dup(successors.fileno()))
        async with hosting(Scripted(), options=HostOptions(drain_window=0, listener=inherited)) as host:
            draining = asyncio.create_task(host.drain(PATIENCE))
            await asyncio.sleep(0)  # a signal is heard before the line of the supervisor
            inherited.has_successor = True
            await draining
        for _ in range(3):  # more than a queue that is closed holds
            stack.enter_context(socket.create_connection(successors.getsockname(), timeout=PATIENCE))
        for _ in range(3):
            stack.enter_context(successors.accept()[0])


# --- Clients that send much or read nothing: their share of the loop, memory, the end of the host ---

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
#: bytes that asyncio and uvloop read at once, at most
READ = 256 * 1024


def fill(client: socket.socket, data: bytes) -> int:
    """Sends what the system takes at once."""
    sent = 0
    while sent < len(data):
        try:
            sent += client.send(data[sent:])
        except BlockingIOError:
            break
    return sent


async def bytes_by_turn(monkeypatch: pytest.MonkeyPatch) -> tuple[int, Counter[int]]:
    """The bytes that a client has sent at once, and those that the host has read of them in each turn."""
    loop, turn, read, running = asyncio.get_running_loop(), 0, Counter[int](), True
    received = Connection.data_received

    def count() -> None:
        nonlocal turn
        turn += 1
        if running:
            loop.call_soon(count)

    def counted(connection: Connection, data: bytes) -> None:
        read[turn] += len(data)
        received(connection, data)

    monkeypatch.setattr(Connection, "data_received", counted)
    async with hosting(Scripted()) as host:
        with socket.create_connection((host.address.host, host.address.port)) as client:
            client.setblocking(False)
            async with asyncio.timeout(PATIENCE):
                while not host.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                count()
                sent = fill(client, CHUNKED + b"2\r\n[]\r\n" * 500_000)
                while read.total() < sent:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                running = False
        assert (await ask(host, request("GET", "/livez"))).status == 200
    return sent, read


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_little_is_read_of_a_connection_in_one_turn(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop reads up to 32 times in a row, which was seconds for others if the bytes are chunks of two."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        sent, read = runner.run(bytes_by_turn(monkeypatch))
    assert sent > 2 * READ
    assert max(read.values()) < READ + SHARE


class Pausing(asyncio.Transport):
    """Shows whether it reads."""

    reads = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None: ...

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


async def test_a_rest_ends_with_the_turn_and_a_pause_does_not() -> None:
    async with hosting(Scripted()) as host:
        connection, transport = Connection(host), Pausing()
        connection.connection_made(transport)
        connection.deadline = inf
        connection.data_received(CHUNKED)
        await asyncio.sleep(0)
        part = b"%x\r\n%s\r\n" % (SHARE, b"x" * SHARE)
        connection.read_on()
        connection.data_received(part)
        assert not transport.reads
        connection.read_on()  # as a handler that asks for more; the turn is not over
        assert not transport.reads
        await asyncio.sleep(0)
        assert transport.reads
        connection.data_received(part)
        connection.stop_reading()
        await asyncio.sleep(0)
        assert not transport.reads
        connection.read_on()
        assert transport.reads
        connection.connection_lost(None)


async def silent(host: HttpHost, client: socket.socket) -> None:
    """Asks for a large stream and reads nothing of it."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host.address.host, host.address.port))
    body = orjson.dumps({"message": MESSAGE})
    head = (
        "POST /message:stream HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    )
    await loop.sock_sendall(client, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(PATIENCE):
        while not any(one.is_full for one in host.connections):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_after_the_grace_nobody_waits_for_clients_that_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: three times as long as last words may take, after the grace."""

    async def pour(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        while True:
            yield update("x" * 100_000)

    monkeypatch.setattr(http_host, "LAST_WORDS", 2 * PATIENCE)
    with socket.socket() as client:
        async with hosting(Scripted(on_stream=pour)) as host:
            await silent(host, client)
            async with asyncio.timeout(PATIENCE):
                await host.drain(0)
            assert not host.connections


async def test_an_event_that_waits_for_its_reader_is_held_once() -> None:
    size = 8_000_000

    with socket.socket() as client:
        async with hosting(Scripted(on_stream=yielding(update("x" * size)))) as host:
            tracemalloc.start()
            try:
                await silent(host, client)
                await asyncio.sleep(0)
                held = [
                    one.size
                    for one in tracemalloc.take_snapshot().traces
                    if one.size > size // 2  # the event, and what waits to be sent
                ]
            finally:
                tracemalloc.stop()
    assert len(held) == 1, held


async def test_nothing_is_written_to_a_closed_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Of a client that closes its half while requests of it wait, so that the transport closes."""
    async with hosting(Scripted()) as host, wire(host) as connection:
        connection.send(
            b"".join(
                request("POST", "/", frame("SendMessage", {"message": MESSAGE}, id_=number))
                for number in range(200)
            )
        )
        connection.writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await connection.reader.read()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
