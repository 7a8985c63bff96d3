"""Executors of the official SDK on our engine: official clients get what they get from our own agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from a2a_bridge import Agent
from a2a_bridge.app.runtime import ServeOptions, connect, serve_agent
from a2a_bridge.core.agent_api import Client
from tests.equivalence.agent import scripted_agent
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk
from tests.interop.deviations import CLIENT_DROPS_DETAILS, differences
from tests.interop.sdk_agent import ScriptedExecutor, card
from tests.interop.sdk_client import sdk_client
from tests.matrix.bridged import EVERYWHERE, Peers, calling, found_in, held, judged
from tests.matrix.versions import Side
from tests.peers.callers import ServiceCaller
from tests.peers.processes import Agent as PeerAgent
from tests.peers.processes import PeerClient
from tests.peers.transcript import settled, transcripts

pytestmark = pytest.mark.sdk


def hosted() -> Agent:
    """The scripted agent, as an executor of a2a-sdk 1.x with cards of that SDK."""
    extended = card([], "Scripted (ours)")
    extended.skills.add(id="more", name="More", description="For those who may", tags=["extended"])
    return Agent(ScriptedExecutor, card=card([], "Scripted (ours)"), extended_card=extended)


def options(store: str, folder: Path) -> ServeOptions:
    return ServeOptions(store=f"sqlite:///{folder / 'tasks.db'}" if store == "sqlite" else None)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_official_client_gets_the_same_as_from_our_own_agent(
    name: str, store: str, tmp_path: Path
) -> None:
    async with connect(scripted_agent()) as ours:
        expected = Talk(Client(ours.service))
        await SCENARIOS[name](expected)
    async with stack(options(store, tmp_path), hosted()) as running:
        for binding in BINDINGS:
            async with sdk_client(running.card, binding) as service:
                talk = Talk(Client(service))
                await SCENARIOS[name](talk)
            found = differences(name, expected.lines, talk.lines, [CLIENT_DROPS_DETAILS])
            assert not found, "\n".join([binding, *found])


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_of_0_3_gets_the_same_as_from_our_own_agent(
    binding: str,
    store: str,
    tmp_path: Path,
    peer_agents: Callable[..., PeerAgent],
    peer_clients: Callable[[str], PeerClient],
) -> None:
    client, ours = Side("0.3.26", "0.3", binding), Side("ours", "0.3", binding)
    async with (
        serve_agent(hosted(), EVERYWHERE, options(store, tmp_path)) as server,
        connect(scripted_agent()) as near,
        calling(
            client, found_in(server, client), f"http://{server.http}", Peers(peer_agents, peer_clients)
        ) as caller,
    ):
        expected = await settled(ServiceCaller(near.service))
        got = await transcripts(caller, held(client))
    found = judged(expected, got, client, ours)
    assert not found.lines, "\n".join(found.lines)
    assert found.operations
