"""Clients and agents of the SDKs by themselves, without our code: their faults are not those of the bridge."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.patience import PATIENCE
from tests.peers.callers import BareCaller, PeerCaller
from tests.peers.faults import AGENT, CLIENT, FAULTS, WITHOUT_MEDIA_TYPES, differences, faults_of, nothing
from tests.peers.processes import AGENTS, CLIENTS, Agent, PeerClient
from tests.peers.transcript import settled, transcripts

pytestmark = pytest.mark.sdk

#: masks of faults that show only sometimes, or only with agents of newer versions
HIDDEN = (nothing, WITHOUT_MEDIA_TYPES)

#: agents and clients of the same version
PAIRS = [
    pytest.param(agent, client, id=f"{client} to {agent}")
    for agent, serving in AGENTS.items()
    for client, calling in CLIENTS.items()
    if serving.speaks == calling.speaks
]


@asynccontextmanager
async def bare(agent: Agent) -> AsyncIterator[BareCaller]:
    """JSON-RPC of 0.3 as it is on the wire."""
    card = f"{agent.http}/agent/authenticatedExtendedCard" if agent.release == "0.2.16" else ""
    async with httpx.AsyncClient(timeout=PATIENCE, verify=False) as http:  # noqa: S501  no TLS here
        yield BareCaller(http, agent.url("JSONRPC"), card)


@pytest.mark.parametrize(("agent", "client"), PAIRS)
async def test_an_sdk_talks_to_itself_but_for_its_faults(
    agent: str, client: str, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    running = peer_agents(agent)
    async with bare(running) as caller:
        expected = await settled(caller)
    for binding in CLIENTS[client].bindings:
        caller = PeerCaller(peer_clients(client), client, binding, origin=running.http)
        got = await settled(caller)
        assert got
        pair = [*faults_of(AGENT, agent, binding), *faults_of(CLIENT, client, binding)]
        found = [line for name in got for line in differences(name, expected[name], got[name], pair)]
        assert not found, "\n".join([binding, *found])
        # Both sides may have the same fault. The newest SDK's agent has other texts.
        shown = {
            fault.mask for fault in pair if agent == client and not (fault.mask in HIDDEN or fault.sometimes)
        }
        for mask in shown:
            others = [fault for fault in pair if fault.mask is not mask]
            still = any(differences(name, expected[name], got[name], others) for name in got)
            assert still, f"no longer true: {[fault.reason for fault in pair if fault.mask is mask]}"


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_finds_every_binding_by_the_card(
    client: str, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    running = peer_agents(client)
    for binding in CLIENTS[client].bindings:
        caller = PeerCaller(peer_clients(client), client, binding, origin=running.http)
        told = await transcripts(caller, ["a_streamed_message"])
        assert [label for label, _ in told["a_streamed_message"]] == [
            "stream event",
            "stream ended",
            "say event",
            "say ended",
        ]


def test_every_fault_belongs_to_a_known_peer() -> None:
    for fault in FAULTS:
        programs = CLIENTS if fault.role == CLIENT and fault.release in CLIENTS else AGENTS
        assert set(fault.bindings) <= set(programs[fault.release].bindings), fault
