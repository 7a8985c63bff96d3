"""gRPC on a socket that a supervisor gave to the process: connections wait in it for the next process."""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from a2a_bridge.bindings.binding import InheritedListener
from a2a_bridge.core.call import Call
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.patience import PATIENCE, until
from tests.transports.grpc_scene import dialling, hosting

REQUEST = hub.GetTaskRequest(id="t")
#: more than every buffer on the way, and less than the largest message
MANY = 8_000_000


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def inherited(bound: socket.socket) -> InheritedListener:
    return InheritedListener(os.dup(bound.fileno()))


def naming(name: str) -> Probe:
    """An agent that answers with its name, the address of its caller, and as much text as it gets."""

    async def answer(call: Call[Any, Any]) -> hub.Task:
        return hub.Task(id=name, context_id=call.context.origin.peer)

    async def reply(call: Call[Any, Any]) -> hub.SendMessageResponse:
        return hub.SendMessageResponse(message=call.request.message)

    probe = Probe()
    probe.on_unary = lambda call: answer(call) if call.operation.name == "GetTask" else reply(call)
    return probe


async def test_the_caller_is_known_and_large_messages_pass(bound: socket.socket) -> None:
    async with hosting(naming("one"), grpc_listener=inherited(bound), max_body=2 * MANY) as host:
        assert host.address.port == bound.getsockname()[1]
        async with asyncio.timeout(PATIENCE), dialling(host.address) as client:
            callers = {(await client.get_task(REQUEST)).context_id for _ in range(3)}
            [caller] = callers
            assert caller.startswith("ipv4:127.0.0.1:")
            assert int(caller.rpartition(":")[2]) in connected_to(host.address.port)
            sent = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x" * MANY)])
            answer = await client.send_message(hub.SendMessageRequest(message=sent))
            assert answer.message == sent


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_callers_that_leave_at_once_leave_nothing(loop: str, bound: socket.socket) -> None:
    """As probes of load balancers do, which reset the connections that they have made."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None

    async def leave() -> None:
        async with asyncio.timeout(PATIENCE), hosting(naming("one"), grpc_listener=inherited(bound)) as host:
            for _ in range(10):
                with socket.create_connection(bound.getsockname(), timeout=PATIENCE) as caller:
                    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                await asyncio.sleep(0)
            async with dialling(host.address) as client:
                assert (await client.get_task(REQUEST)).id == "one"
            await until(lambda: not connected_to(host.address.port))
            relay: Any = host._relay
            await until(lambda: not relay._connecting and not relay._open)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(leave())


def connected_to(port: int) -> set[int]:
    """The ports of this process with a connection to a port."""
    found = psutil.Process().net_connections("tcp")
    return {one.laddr.port for one in found if one.raddr and one.raddr.port == port}


async def connection_to(port: int) -> None:
    """Returns when there is one, which nobody may have accepted."""
    while not connected_to(port):  # noqa: ASYNC110  the system tells nothing by itself
        await asyncio.sleep(0)


async def test_calls_wait_for_a_successor(bound: socket.socket) -> None:
    first = inherited(bound)
    async with (
        asyncio.timeout(PATIENCE),
        hosting(naming("one"), grpc_listener=first, drain_window=0) as host,
        dialling(host.address) as client,
    ):
        assert (await client.get_task(REQUEST)).id == "one"
        draining = asyncio.create_task(host.drain(PATIENCE))
        await asyncio.sleep(0)  # a signal is heard before the line of the supervisor
        first.has_successor = True
        await draining
        for _ in range(3):  # more than a queue that is closed holds
            socket.create_connection(bound.getsockname(), timeout=PATIENCE).close()
        waiting = asyncio.create_task(client.get_task(REQUEST))
        await connection_to(host.address.port)
        async with hosting(naming("two"), grpc_listener=inherited(bound)):
            assert (await waiting).id == "two"


async def test_without_a_successor_connections_that_wait_are_served(bound: socket.socket) -> None:
    own = inherited(bound)
    bound.close()  # as a supervisor does when it stops
    async with asyncio.timeout(PATIENCE), hosting(naming("one"), grpc_listener=own, drain_window=5) as host:
        async with dialling(host.address) as client:
            answer = asyncio.create_task(client.get_task(REQUEST))
            await connection_to(host.address.port)
            draining = asyncio.create_task(host.drain(PATIENCE))
            assert (await answer).id == "one"
        await draining
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host.address.host, host.address.port), PATIENCE)
