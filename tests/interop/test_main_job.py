"""An official SDK's agent of one binding and version, called by the SDKs' clients over all, by URL alone."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.client import A2ACardResolver

from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import Server, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, find, http_fetch
from a2a_bridge.cards import Candidate, interface, resolve, select
from a2a_bridge.core.agent_api import Client
from a2a_bridge.dialects import V1_0, signed_extras
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import ANY_PORT, serving
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.talk import Talk
from tests.interop.deviations import ALL_BINDINGS, CLIENT_DROPS_DETAILS, Lines, Peer, differences
from tests.interop.sdk_client import sdk_client
from tests.matrix.versions import CLIENTS, OURS, Side, expected_differences
from tests.patience import PATIENCE
from tests.peers.callers import LACKING, BareCaller, Caller, PeerCaller, ServiceCaller
from tests.peers.faults import differences as older_differences
from tests.peers.faults import without_unmapped
from tests.peers.processes import AGENTS, Agent, PeerClient
from tests.peers.transcript import settled, transcripts

pytestmark = pytest.mark.sdk

#: the key of the gateway's process and of this one
SHARED = "a key for one test"

CONVERSATIONS = (
    "direct_message",
    "blocking_task",
    "streamed_task",
    "immediate_and_subscribed",
    "several_turns",
    "cancelled",
    "lists",
    "push_configs",
    "extended_card",
    "unknown_tasks",
    "raises_CONTENT_TYPE_NOT_SUPPORTED",
)
#: the same job in the terms of 0.3, for agents of that time; `make matrix` runs all conversations
OLDER_CONVERSATIONS = (
    "direct_message",
    "a_task_with_everything",
    "a_streamed_message",
    "several_turns",
    "cancelled",
    "push_configs",
    "extended_card",
    "unknown_tasks",
)


@asynccontextmanager
async def bridged(peer: Peer, binding: str) -> AsyncIterator[Server]:
    """A gateway to an agent whose address alone is known."""
    if binding == "GRPC":
        # It serves no card over HTTP; only its address is known.
        card = hub.AgentCard(
            name="by address",
            capabilities=peer.card().capabilities,
            supported_interfaces=[interface("GRPC", peer.grpc)],
        )
        candidates = [Candidate(card.supported_interfaces[0], V1_0)]
    else:
        async with http_fetch(DialOptions()) as fetch:
            card = await resolve(peer.http, fetch)
        candidates = select(card, known=ALL_BINDINGS)
        assert [one.interface.protocol_binding for one in candidates] == [binding]
    async with serve_gateway(card, candidates) as gateway:
        yield gateway


@pytest.mark.parametrize("binding", ALL_BINDINGS)
async def test_an_agent_with_one_binding_is_reached_over_all(
    sdk_agents: Callable[..., Peer], binding: str
) -> None:
    peer = sdk_agents(binding)
    async with bridged(peer, binding) as gateway:
        async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  no TLS here
            found = await A2ACardResolver(http, f"http://{gateway.http}").get_agent_card()
        served = [(one.protocol_version, one.protocol_binding) for one in found.supported_interfaces]
        assert served == [(version, binding) for version in VERSIONS for binding in ALL_BINDINGS]
        for name in CONVERSATIONS:
            async with sdk_client(peer.card(), binding) as near:
                direct = Talk(Client(near))
                await SCENARIOS[name](direct)
            expected = without_offers(direct.lines)
            for front in ALL_BINDINGS:
                async with sdk_client(found, front) as far:
                    talk = Talk(Client(far))
                    await SCENARIOS[name](talk)
                got = without_offers(talk.lines)
                assert not differences(name, expected, got, [CLIENT_DROPS_DETAILS]), front


def without_offers(lines: Lines) -> Lines:
    """A gateway offers to resume streams in its cards, whatever the agent offers."""
    return [(label, without_unmapped(outcome)) for label, outcome in lines]


@asynccontextmanager
async def client_by_address(
    side: Side, origin: str, peer_clients: Callable[[str], PeerClient]
) -> AsyncIterator[Caller]:
    """A client with the address of the gateway, which takes version and binding from the card there."""
    if side.who == OURS:
        # Not `connect`, which answers like 1.0 for any version.
        async with http_fetch(DialOptions()) as fetch:
            best = select(await resolve(origin, fetch), known=[side.binding], version=side.version)[0]
        async with find(side.binding).dial(
            best.interface, best.dialect, DialOptions(timeout=PATIENCE)
        ) as service:
            yield ServiceCaller(service, "0.3" if side.version == "1.0" else side.version)
    elif side.who == "1.3.0":
        async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  no TLS here
            card = await A2ACardResolver(http, origin).get_agent_card()
        # It would take the newest version, at the same URL; so its card lists only the version to test.
        spoken = [one for one in card.supported_interfaces if one.protocol_version == side.version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(spoken)
        async with sdk_client(card, side.binding) as service:
            yield ServiceCaller(service, without=LACKING.get((side.version, side.binding), ()))
    else:
        yield PeerCaller(peer_clients(side.who), side.who, side.binding, origin=origin)


@pytest.mark.parametrize("release", ["0.2.16", "0.3.26"])
async def test_an_older_agent_with_one_binding_is_reached_by_clients_of_every_version(
    release: str, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    running = peer_agents(release, "JSONRPC")
    agent = Side(release, AGENTS[release].speaks, "JSONRPC")
    extended = f"{running.http}/agent/authenticatedExtendedCard" if release == "0.2.16" else ""
    async with (
        httpx.AsyncClient(timeout=PATIENCE, verify=False) as http,  # noqa: S501  no TLS here
        serving("gateway", running.http, *ANY_PORT, env={"A2A_BRIDGE_KEY": SHARED}) as gateway,
    ):
        signed_extras.use_key(
            SHARED.encode()
        )  # our clients of 0.x accept the content that the gateway carries, and the reverse
        expected = await settled(BareCaller(http, running.url("JSONRPC"), extended), OLDER_CONVERSATIONS)
        assert expected.keys() == set(OLDER_CONVERSATIONS)
        for client in CLIENTS:
            async with client_by_address(client, gateway.http, peer_clients) as caller:
                got = await transcripts(caller, OLDER_CONVERSATIONS)
            assert len(got) > len(OLDER_CONVERSATIONS) // 2, client
            excuses = expected_differences(client, agent)
            found = [
                line for name in got for line in older_differences(name, expected[name], got[name], excuses)
            ]
            assert not found, "\n".join([str(client), *found])
