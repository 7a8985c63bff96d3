"""The contract of a service, through a gateway: each binding once on each side."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, find
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway import dial_failover
from a2a_bridge.testing.contracts import ServiceContract

OPTIONS = DialOptions()


@asynccontextmanager
async def mounted(binding: str, service: Service) -> AsyncIterator[Candidate]:
    """A service on a socket of its own, as a candidate to dial."""
    found: Any = find(binding)
    host = found.host(ListenAddress(), HostOptions())
    found.mount(host, "", service, [V1_0])
    await host.start()
    try:
        url = str(host.address) if binding == "GRPC" else f"http://{host.address}/"
        yield Candidate(interface(binding, url), V1_0)
    finally:
        await host.drain(0)


class GatewayContract(ServiceContract):
    front: str
    upstream: str

    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        async with (
            mounted(self.upstream, service) as agent,
            dial_failover([agent], OPTIONS) as dialled_agent,
            mounted(self.front, dialled_agent) as gateway,
            dial_failover([gateway], OPTIONS) as near,
        ):
            yield near


class TestJsonRpcToGrpc(GatewayContract):
    front, upstream = "JSONRPC", "GRPC"


class TestHttpJsonToJsonRpc(GatewayContract):
    front, upstream = "HTTP+JSON", "JSONRPC"


class TestGrpcToHttpJson(GatewayContract):
    front, upstream = "GRPC", "HTTP+JSON"


class TestInProcess(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        @asynccontextmanager
        async def dial(_: Candidate, __: DialOptions) -> AsyncIterator[Service]:
            yield service

        candidates = [Candidate(interface("JSONRPC", "near"), V1_0)] * 2
        async with dial_failover(candidates, OPTIONS, dial=dial) as upstream:
            yield upstream
