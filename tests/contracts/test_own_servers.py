"""Mounted in a user's own server, an ASGI application or a grpc.aio server, a service keeps its contract."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio
import uvicorn

from a2a_bridge.bindings.binding import DialOptions, HostOptions, asgi_host, find, grpc_attach
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Events, Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.contracts import BindingContract, ServiceContract
from a2a_bridge.testing.probe import Probe


def dialled(kind: str, url: str) -> AbstractAsyncContextManager[Service]:
    interface = hub.AgentInterface(url=url, protocol_binding=kind, protocol_version="1.0")
    return find(kind).dial(interface, V1_0, DialOptions())


class Switch:
    """A service that stands for the one of the test that runs: uvicorn takes 0.2 s to stop, so it stays."""

    def __init__(self) -> None:
        self.url = ""
        self.target: Service = Probe()

    async def unary(self, call: Call[Any, Any], /) -> Any:
        return await self.target.unary(call)

    def stream(self, call: Call[Any, Any], /) -> Events:
        return self.target.stream(call)


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def switch(request: pytest.FixtureRequest) -> AsyncIterator[Switch]:
    switch = Switch()
    app: Any = asgi_host(HostOptions())
    find(request.cls.kind).mount(app, "", switch, [V1_0])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        switch.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield switch
        server.should_exit = True
        await serving


@pytest.mark.asyncio(loop_scope="class")
class AsgiContract(ServiceContract):
    kind: str
    test_a_stalled_reader = BindingContract.test_a_stalled_reader_costs_bounded_memory
    stalled_bytes = BindingContract.stalled_bytes

    @pytest_asyncio.fixture(autouse=True, loop_scope="class")
    async def nothing_is_left_behind(self, switch: Switch) -> AsyncIterator[None]:
        before = asyncio.all_tasks()
        yield
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if left:
            _, pending = await asyncio.wait(left, timeout=10)
            assert not pending

    @pytest_asyncio.fixture(loop_scope="class")
    async def near(self, probe: Probe, switch: Switch) -> AsyncIterator[Service]:
        switch.target = probe
        async with dialled(self.kind, switch.url) as service:
            yield service


class TestJsonRpcAsgi(AsgiContract):
    kind = "JSONRPC"


class TestHttpJsonAsgi(AsgiContract):
    kind = "HTTP+JSON"


class TestOwnGrpcServer(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        server = grpc.aio.server()
        grpc_attach(service, server, health=False, reflection=False)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with dialled("GRPC", f"127.0.0.1:{port}") as near:
                yield near
        finally:
            await server.stop(0)
