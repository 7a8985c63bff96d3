"""A gateway whose agent is lost is not ready, and is ready again without a caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_bridge import connect, interface, serve
from a2a_bridge.bindings import names
from a2a_bridge.cards.select import select
from a2a_bridge.core.errors import A2AError
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.runtime import ServeOptions, serve_gateway
from tests.patience import PATIENCE


class Echo:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.text


async def health(address: object) -> int:
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        found = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        return int(found.status)


async def test_readiness_follows_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_bridge.gateway.reachability.ask_while_gone.__defaults__", (0.02,))
    agent = Agent(Echo(), name="echo")
    async with serve(agent, [interface("JSONRPC")], ServeOptions(grace=0)) as first:
        card = first.card
        address = first.http
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
