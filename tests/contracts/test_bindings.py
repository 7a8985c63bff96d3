"""GRPC passes the contract of bindings."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from a2a_bridge.bindings.binding import HostOptions, ListenAddress, asgi_host, find
from a2a_bridge.core import operations as ops
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V0_2_5, V0_3, Dialect
from a2a_bridge.testing.binding_calls import Listening
from a2a_bridge.testing.contracts import BindingContract
from a2a_bridge.testing.probe import Probe
from tests.patience import PATIENCE
from tests.transports.envoy_scene import envoy


class TestGrpc(BindingContract):
    binding = find("GRPC")
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)


class TestGrpc03(BindingContract):
    binding = find("GRPC")
    dialect = V0_3
    tenants = False
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)


# --- HTTP+JSON passes the contract of bindings ---
class TestHttpJson(BindingContract):
    binding = find("HTTP+JSON")

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestHttpJson03(BindingContract):
    binding = find("HTTP+JSON")
    dialect = V0_3
    tenants = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"

    def has(self, operation: Any) -> bool:
        # Agents of 0.3 have no such route, so clients do not call it.
        return operation is not ops.LIST_TASKS and super().has(operation)


class TestHttpJson025(TestHttpJson03):
    dialect = V0_2_5


# --- JSONRPC passes the contract of bindings ---
class TestJsonRpc(BindingContract):
    binding = find("JSONRPC")

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestJsonRpc03(BindingContract):
    binding = find("JSONRPC")
    dialect = V0_3
    tenants = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestJsonRpc025(TestJsonRpc03):
    dialect = V0_2_5


# GRPC in an ASGI application keeps the contract of every binding: under Envoy, which sends HTTP trailers.


class Switch:
    """An application that stands for the one of the test that runs: Envoy takes a second to start, so it stays."""

    def __init__(self) -> None:
        self.address = ListenAddress()
        self.target: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.target(scope, receive, send)


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def switch() -> AsyncIterator[Switch]:
    switch = Switch()
    async with envoy(switch) as server:
        switch.address = ListenAddress("127.0.0.1", server.listener_port)
        yield switch


@pytest.mark.asyncio(loop_scope="class")
class TestGrpcAsgi(BindingContract):
    binding = find("GRPC")
    paths = False
    # Envoy holds up to 16 MiB of each stream, and gRPC's client 4 MiB, on a busy machine twice or four times that.
    stalled_bytes = 40 * 1024 * 1024
    switch: Switch

    # Sockets, their draining and their keep-alives belong to the server.
    test_a_taken_address_is_an_os_error: Any = None
    test_draining_answers_calls_that_cannot_finish: Any = None
    test_a_silent_peer_is_noticed: Any = None

    @pytest_asyncio.fixture(autouse=True, loop_scope="class")
    async def nothing_is_left_behind(self, switch: Switch) -> AsyncIterator[None]:
        self.switch = switch
        before = asyncio.all_tasks()
        yield
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if left:
            _, pending = await asyncio.wait(left, timeout=PATIENCE)
            assert not pending

    @asynccontextmanager
    async def listen(
        self, service: Service, options: HostOptions | None = None, dialects: Sequence[Dialect] = ()
    ) -> AsyncIterator[Listening]:
        host = asgi_host(options or HostOptions())
        self.binding.mount(host, "", service, dialects or [self.dialect])
        self.switch.target = host
        where: Any = SimpleNamespace(address=self.switch.address, drain=host.drain)
        yield Listening(where, self.interface(str(self.switch.address)))

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)

    @pytest_asyncio.fixture(loop_scope="class")
    async def near(self, probe: Probe, switch: Switch) -> AsyncIterator[Service]:
        async with self.serve(probe) as near:
            assert switch.target is not None, "the contract listens elsewhere"
            yield near
