"""Our client and the SDKs' agents, and the SDKs' clients and our agent, without a gateway."""

from collections.abc import Callable

import pytest

from tests.matrix.bridged import Peers, direct
from tests.matrix.versions import AGENTS, CLIENTS, OURS, Side
from tests.peers.processes import Agent, PeerClient

pytestmark = pytest.mark.sdk

PAIRS = [
    *((Side(OURS, agent.version, agent.binding), agent) for agent in AGENTS),
    *((client, Side(OURS, client.version, client.binding)) for client in CLIENTS if client.who != OURS),
]


@pytest.mark.parametrize(
    ("client", "agent"), [pytest.param(*pair, id=f"{pair[0]} to {pair[1]}") for pair in PAIRS]
)
async def test_a_client_gets_the_agents_answers(
    client: Side, agent: Side, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    found = await direct(client, agent, Peers(peer_agents, peer_clients))
    assert not found.lines, "\n".join(found.lines)
