"""Connections that wait together are accepted together, on each event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge_transports._http.host import HttpHost
from tests.patience import PATIENCE

uvloop = pytest.importorskip("uvloop")

CONNECTIONS = 64


@pytest.mark.parametrize(
    "factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_connections_that_wait_are_open_after_a_few_turns(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        host = HttpHost(ListenAddress(), HostOptions(drain_window=0))
        await host.start()
        place = host.address.host, host.address.port
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(place))
            turns = 0
            while len(host.connections) < CONNECTIONS:
                turns += 1
                await asyncio.sleep(0)
            assert turns < CONNECTIONS / 2
            await host.drain(0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(work(), PATIENCE))
