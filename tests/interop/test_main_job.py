"""The main job: an agent of the official SDK with one binding, reached over all three by the official client.

Nothing is told to either side but a URL: the gateway finds the agent by its card, the client finds the gateway
by the card that the gateway serves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.client import A2ACardResolver

from a2a_bridge.bindings import DialOptions, http_fetch
from a2a_bridge.cards import Candidate, interface, resolve, select
from a2a_bridge.core.agent_api import Client
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.runtime import Server, serve_gateway
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.talk import Talk
from tests.interop.deviations import CLIENT_DROPS_DETAILS, differences
from tests.interop.peers import ALL_BINDINGS, Peer
from tests.interop.sdk_client import sdk_client

pytestmark = pytest.mark.sdk

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


@asynccontextmanager
async def bridged(peer: Peer, binding: str) -> AsyncIterator[Server]:
    """A gateway to an agent of which only an address is known."""
    if binding == "GRPC":
        # It serves no card over HTTP; its address is all there is.
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
        assert [one.protocol_binding for one in found.supported_interfaces] == list(ALL_BINDINGS)
        for name in CONVERSATIONS:
            async with sdk_client(peer.card(), binding) as near:
                direct = Talk(Client(near))
                await SCENARIOS[name](direct)
            for front in ALL_BINDINGS:
                async with sdk_client(found, front) as far:
                    talk = Talk(Client(far))
                    await SCENARIOS[name](talk)
                assert not differences(name, direct.lines, talk.lines, [CLIENT_DROPS_DETAILS]), front
