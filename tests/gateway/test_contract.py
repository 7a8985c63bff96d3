"""The contract of a service, through a gateway: each binding once on each side."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.testing.contracts import ServiceContract
from tests.calls_per_event import Count, engine, gateway
from tests.patience import PATIENCE
from tests.sites import listening

OPTIONS = DialOptions()


@asynccontextmanager
async def mounted(binding: str, service: Service) -> AsyncIterator[Candidate]:
    """A service on a socket of its own, as a candidate to dial."""
    async with listening(service, binding) as address:
        url = str(address) if binding == "GRPC" else f"http://{address}/"
        yield Candidate(interface(binding, url), V1_0)


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


# What one event of a stream costs in calls and resumptions. The limits are a little above the numbers of


def check(count: Count, calls: float, resumptions: float) -> None:
    # Below these the counter itself would be broken.
    assert 5 < count.calls <= calls
    assert 2 < count.resumptions <= resumptions


@pytest.mark.parametrize(
    ("version", "resumes", "calls", "resumptions"),
    [("1.0", True, 18, 11), ("0.3", True, 23, 13.5), ("0.3", False, 23, 13)],
)
async def test_through_a_gateway(version: str, resumes: bool, calls: int, resumptions: int) -> None:
    async with asyncio.timeout(PATIENCE):
        check(await gateway(version, resumes=resumes), calls, resumptions)


async def test_on_an_engine() -> None:
    async with asyncio.timeout(PATIENCE):
        check(await engine("memory://"), 16, 5)


async def test_on_an_engine_with_a_database(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        # Python 3.15 resumes one coroutine more.
        resumptions = 5.5 if sys.version_info < (3, 15) else 6.5
        # A group that is committed early, as on a busy machine, is one more: the least of several runs counts.
        counts = [await engine(f"sqlite:///{tmp_path}/{number}.db") for number in range(4)]
        check(min(counts, key=lambda one: one.calls), 26.5, resumptions)
