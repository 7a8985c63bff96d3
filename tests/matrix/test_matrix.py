"""No gateway changes a conversation, each front with each upstream; `make matrix` has the official SDK."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.agent import scripted_agent
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.talk import Talk
from tests.interop.deviations import Lines, Peer, differences
from tests.interop.sdk_client import sdk_client
from tests.matrix.cells import CELLS, Cell, deviations, of
from tests.patience import PATIENCE
from tests.peers.faults import without_unmapped

pytestmark = pytest.mark.sdk


@asynccontextmanager
async def agent_card(cell: Cell, sdk_agents: Callable[..., Peer]) -> AsyncIterator[hub.AgentCard]:
    """The cell's agent, running; its card."""
    if cell.agent == "sdk":
        yield sdk_agents().card()
        return
    async with serve_agent(scripted_agent()) as server:
        yield server.card


async def transcripts(service: Service) -> dict[str, Lines]:
    """Every conversation with one agent."""
    told = {}
    for name, scenario in SCENARIOS.items():
        talk = Talk(Client(service))
        await scenario(talk)
        told[name] = talk.lines
    return told


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_a_gateway_changes_nothing(cell: Cell, sdk_agents: Callable[..., Peer]) -> None:
    async with AsyncExitStack() as stack:
        card = await stack.enter_async_context(agent_card(cell, sdk_agents))
        upstream = of(card, cell.upstream)
        gateway = await stack.enter_async_context(serve_gateway(card, [Candidate(upstream, V1_0)]))
        fronts = gateway.card
        if cell.client == "sdk":
            near = sdk_client(fronts, cell.front)
        else:
            near = find(cell.front).dial(of(fronts, cell.front), V1_0, DialOptions(timeout=PATIENCE))
        direct = find(cell.upstream).dial(upstream, V1_0, DialOptions(timeout=PATIENCE))
        expected = await transcripts(await stack.enter_async_context(direct))
        got = await transcripts(await stack.enter_async_context(near))
    for told in (expected, got):
        # A gateway always offers to resume streams, whatever the agent offers.
        told["extended_card"] = [
            (label, without_unmapped(outcome)) for label, outcome in told["extended_card"]
        ]
    found = [
        line for name in SCENARIOS for line in differences(name, expected[name], got[name], deviations(cell))
    ]
    assert not found, "\n".join(found)
