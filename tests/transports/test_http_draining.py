"""A host that stops loses no request: those in progress, those on kept connections, and new ones."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import socket
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions, InheritedListener
from a2a_bridge.core.call import Call
from a2a_bridge_transports._http import host as host_module
from a2a_bridge_transports._http.host import HttpHost
from tests.patience import PATIENCE
from tests.transports.http_scene import MESSAGE, Scripted, Wire, ask, frame, hosting, reply, request, wire

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


async def test_connections_that_a_successor_accepts_are_left_to_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as successors, ExitStack() as stack:
        inherited = InheritedListener(os.dup(successors.fileno()))
        async with hosting(Scripted(), options=HostOptions(drain_window=0, listener=inherited)) as host:
            inherited.has_successor = True
            await host.drain(PATIENCE)
        for _ in range(3):  # more than a queue that is closed holds
            stack.enter_context(socket.create_connection(successors.getsockname(), timeout=PATIENCE))
        for _ in range(3):
            stack.enter_context(successors.accept()[0])
