"""An agent whose HTTP/2 server takes 100 streams of a connection, or fewer: calls of anybody are answered behind any number of
open streams, through a gateway and in a client of the library.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import ClientSession

from a2a_bridge import connect, interface
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.app.serving import Server, serve_service
from a2a_bridge.bindings.binding import HostOptions, ListenAddress, names
from a2a_bridge.cards import select
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.cli.commands import serving
from tests.gateway.test_gateway import card
from tests.patience import PATIENCE, until
from tests.shared_library import need_shared_library

WORKING = hub.TaskStatus(state=hub.TASK_STATE_WORKING)


async def begun(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
    """A task of its own, that goes on."""
    yield hub.StreamResponse(task=hub.Task(id=str(uuid4()), context_id="c", status=WORKING))
    await asyncio.Event().wait()


async def found(call: Call[Any, Any]) -> Any:
    if call.operation is GET_EXTENDED_AGENT_CARD:
        raise A2AError(Reason.UNSUPPORTED_OPERATION)
    return hub.Task(id="t", context_id="c", status=WORKING)


@asynccontextmanager
async def agent(probe: Probe, most: int = 100) -> AsyncIterator[Server]:
    probe.on_unary = found
    options = ServeOptions(host=HostOptions(max_connection_streams=most), grace=0)
    async with serve_service(probe, card(), [interface("GRPC")], options) as server:
        yield server


@asynccontextmanager
async def gateway(server: Server) -> AsyncIterator[Server]:
    options = ServeOptions(admin=ListenAddress(), grace=0)
    served = [interface("JSONRPC"), interface("GRPC")]
    candidates = select(server.card, known=names())
    async with serve_gateway(server.card, candidates, served, options) as between:
        yield between


async def check_calls(target: Any, count: int, *others: str) -> None:
    """Calls over gRPC, and over other bindings, are answered while that many streams are open over gRPC."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        peers = [
            await stack.enter_async_context(connect(target, binding=one, version="1.0"))
            for one in ("GRPC", *others)
        ]
        streams = [await stack.enter_async_context(aclosing(peers[0].stream("hi"))) for _ in range(count)]
        # All of them together: none waits for the end of another.
        first = await asyncio.gather(*(anext(one) for one in streams))
        assert len({one.task.id for one in first}) == count
        for one in peers:
            assert (await one.get_task(hub.GetTaskRequest(id="t"))).id == "t"


#: the streams that a connection of the agent takes, and those that are opened
COUNTS = [(100, 120), (100, 1050), (30, 70), (10, 40), (1, 12)]


@pytest.mark.parametrize(("most", "count"), COUNTS)
@pytest.mark.parametrize("behind", [True, False], ids=["gateway", "connect"])
async def test_calls_are_answered_behind_open_streams(behind: bool, most: int, count: int) -> None:
    probe = Probe()
    probe.on_stream = begun
    async with agent(probe, most) as server:
        if not behind:
            await check_calls(server.card, count)
            return
        async with gateway(server) as between:
            await check_calls(between.card, count, "JSONRPC")


@pytest.mark.process
@pytest.mark.parametrize(("most", "count"), [(100, 220), (30, 70), (10, 40), (1, 12)])
async def test_the_same_through_a_gateway_in_envoy(most: int, count: int) -> None:
    need_shared_library()
    probe = Probe()
    probe.on_stream = begun
    command = ("--server", "envoy", "--listen", "127.0.0.1:0", "--versions", "1.0")
    async with agent(probe, most) as server, serving("gateway", str(server.grpc), *command) as running:
        await check_calls(running.http, count, "JSONRPC")


async def test_calls_that_wait_for_the_agent_are_a_gauge() -> None:
    probe, may_end = Probe(), asyncio.Event()

    async def late(_: Call[Any, Any]) -> Any:
        await may_end.wait()
        return hub.Task(id="t", context_id="c", status=WORKING)

    async with agent(probe) as server, gateway(server) as between, ClientSession() as http:
        probe.on_unary = late

        async def waiting() -> str:
            async with http.get(f"http://{between.admin}/metrics") as answer:
                text = await answer.text()
            (line,) = [
                one for one in text.splitlines() if one.startswith("a2a_bridge_upstream_waiting_calls{")
            ]
            return line.rpartition(" ")[2]

        async with connect(between.card, binding="JSONRPC") as peer:
            calls = [asyncio.create_task(peer.get_task(hub.GetTaskRequest(id="t"))) for _ in range(3)]
            await until(lambda: len(probe.calls) == 3)
            assert await waiting() == "3.0"
            may_end.set()
            await asyncio.gather(*calls)
            assert await waiting() == "0.0"
