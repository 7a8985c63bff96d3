"""The SDKs find us, and we find them, by nothing but an address and the card served there."""

from collections.abc import Callable

import httpx
import pytest
from a2a.client import A2ACardResolver

from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, http_fetch
from a2a_bridge.cards import interface, resolve, select
from tests.equivalence.agent import scripted_agent
from tests.interop.sdk_client import sdk_client
from tests.matrix.bridged import BASE64, EVERYWHERE, Peers, Upstream, calling, found_in, gateway, upstream
from tests.matrix.versions import AGENTS, BINDINGS, CLIENTS, OURS, Side, expected_differences
from tests.peers.callers import GET, Caller, PeerCaller, Rejected, ServiceCaller
from tests.peers.faults import differences
from tests.peers.processes import Agent, PeerClient
from tests.peers.transcript import transcripts

pytestmark = pytest.mark.sdk

OLD_CLIENTS = [client for client in CLIENTS if client.who in ("0.2.16", "0.3.26")]
OLD_AGENTS = [agent for agent in AGENTS if agent.who != OURS and agent.version != "1.0"]
#: a few conversations of each sort; all of them are the grid's business
SOME = ("a_streamed_message", "a_task_with_everything", "several_turns", "extended_card", "unknown_tasks")


async def unexpected(caller: Caller, there: Upstream, client: Side, agent: Side) -> list[str]:
    expected, got = await transcripts(there.bare, SOME), await transcripts(caller, SOME)
    assert got
    excuses = expected_differences(client, agent)
    return [line for name in got for line in differences(name, expected[name], got[name], excuses)]


@pytest.mark.parametrize("client", OLD_CLIENTS, ids=str)
async def test_an_older_client_finds_the_gateway(
    client: Side, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    agent = Side(OURS, "1.0", "GRPC")
    async with upstream(agent, Peers(peer_agents, peer_clients)) as there, gateway(there) as server:
        running = peer_clients(client.who)
        caller = PeerCaller(running, client.who, client.binding, origin=f"http://{server.http}")
        found = await unexpected(caller, there, client, agent)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("release", ["0.2.16", "0.3.26"])
async def test_a_client_reads_the_card_of_the_next_agent_at_the_same_port(
    release: str, peer_clients: Callable[[str], PeerClient], unused_tcp_port: int
) -> None:
    for _ in range(2):
        places = [
            interface("JSONRPC", f"http://127.0.0.1:{unused_tcp_port}", version="0.3"),
            interface("GRPC", "127.0.0.1:0", version="0.3"),
        ]
        async with serve_agent(scripted_agent(), places) as server:
            caller = PeerCaller(peer_clients(release), release, "GRPC", origin=f"http://{server.http}")
            with pytest.raises(Rejected, match="TASK_NOT_FOUND"):
                await caller.unary(GET, {"id": "unknown"})


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_newest_client_finds_the_gateway_and_speaks_1_0(
    binding: str, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    client, agent = Side("1.3.0", "1.0", binding), Side("0.3.26", "0.3", "JSONRPC")
    async with upstream(agent, Peers(peer_agents, peer_clients)) as there, gateway(there) as server:
        async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  no TLS here
            card = await A2ACardResolver(http, f"http://{server.http}").get_agent_card()
        async with sdk_client(card, binding) as service:
            found = await unexpected(ServiceCaller(service), there, client, agent)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("agent", OLD_AGENTS, ids=str)
async def test_a_gateway_finds_an_older_agent_by_its_address(
    agent: Side, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    client = Side(OURS, "1.0", "GRPC")
    running = peer_agents(agent.who)
    async with http_fetch(DialOptions()) as fetch:
        card = await resolve(running.http, fetch)
    candidates = select(card, known=[agent.binding])
    # A card may list its main interface twice.
    found = {(one.interface.protocol_binding, one.dialect.version) for one in candidates}
    assert found == {(agent.binding, agent.version)}
    peers = Peers(peer_agents, peer_clients)
    async with (
        upstream(agent, peers) as there,
        serve_gateway(card, candidates, EVERYWHERE, dial_options=BASE64) as server,
        calling(client, found_in(server, client), f"http://{server.http}", peers) as caller,
    ):
        lines = await unexpected(caller, there, client, agent)
    assert not lines, "\n".join(lines)
