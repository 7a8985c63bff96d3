"""A gateway whose agent is lost is not ready, and is ready again without a caller."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.cards.select import select
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.gateway.connections import question
from a2a_bridge.gateway.credentials.sending import add_credentials
from a2a_bridge.gateway.failover import Failover
from a2a_bridge.gateway.upstream import Upstream
from a2a_bridge.hosting import Run
from tests.gateway.test_upstream import Agent as Upstreamed
from tests.gateway.test_upstream import agents_by_url, candidates, get_task, no_connection
from tests.patience import PATIENCE
from tests.rejections import rejected


class Echo:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.text


async def health(address: object) -> int:
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        found = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        return int(found.status)


async def test_readiness_follows_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_bridge.gateway.connections.ask_while_gone.__defaults__", (0.02,))
    agent = Agent(Echo(), name="echo")
    async with serve(agent, [interface("JSONRPC")], ServeOptions(grace=0)) as first:
        card, address = first.card, first.http
    assert address is not None
    async with (
        asyncio.timeout(PATIENCE),
        serve_gateway(card, select(card, known=names())) as gateway,
        httpx.AsyncClient(base_url=f"http://{gateway.http}") as http,
    ):
        assert (await http.get("/readyz")).status_code == 200  # nothing is known yet
        async with connect(f"http://{gateway.http}") as peer:
            with pytest.raises(A2AError):
                await peer.send("hi")
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "the agent behind this gateway cannot be reached\n")
        assert await health(gateway.grpc) == health_pb2.HealthCheckResponse.NOT_SERVING
        async with serve(agent, [interface("JSONRPC", f"http://{address}/")]):
            while (await http.get("/readyz")).status_code != 200:
                pass
            assert await health(gateway.grpc) == health_pb2.HealthCheckResponse.SERVING


class OnBehalf:
    """Credentials that only a known caller has."""

    names = made_from = frozenset({"authorization"})
    is_own = False

    async def of(self, context: CallContext, /) -> Mapping[str, str]:
        if context.principal is None:
            raise A2AError(Reason.UNAUTHENTICATED)
        return {"authorization": "Bearer x"}

    def invalidate(self, rejected: Mapping[str, str], _context: CallContext, /) -> bool:
        return bool(rejected["authorization"])

    def fits(self, _scheme: Any) -> bool:
        return True


@pytest.mark.parametrize("rejects", [False, True])
async def test_only_what_the_agent_says_shows_that_it_is_back(rejects: bool) -> None:
    far = Upstreamed("far", no_connection())
    dial = add_credentials(OnBehalf(), agents_by_url(far))
    failover = Failover([Upstream(one, DialOptions(), dial=dial) for one in candidates(far)])
    known = get_task()
    known.context.principal = Principal("ann")
    with pytest.raises(A2AError):
        await failover.unary(known)
    assert failover.is_gone
    # A caller without credentials: the agent is not asked.
    with rejected(Reason.UNAUTHENTICATED):
        await failover.unary(get_task())
    assert failover.is_gone
    assert len(far.calls) == 1
    # The question of the gateway needs none, and any response counts.
    with pytest.raises(A2AError):
        await failover.unary(question())
    assert failover.is_gone
    assert len(far.calls) == 2
    far.failure = A2AError(Reason.UNAUTHENTICATED, blame=Blame.PEER) if rejects else None
    with suppress(A2AError):
        await failover.unary(question())
    assert not failover.is_gone
    await failover.aclose()
