"""Our client and an agent of the official SDK, in a process of its own: all operations on all bindings."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk
from tests.interop import deviations as known
from tests.interop.deviations import ALL_BINDINGS, CLIENT_DROPS_DETAILS, Deviation, Lines, Peer, differences
from tests.interop.sdk_client import sdk_client
from tests.patience import PATIENCE

pytestmark = pytest.mark.sdk


#: (binding) -> the differences of our client there from gRPC
ACROSS_BINDINGS: dict[str, list[Deviation]] = {
    "JSONRPC": [known.AGENT_CRASHES, known.AGENT_REPEATS_VIOLATIONS],
    "HTTP+JSON": [known.AGENT_CRASHES, known.AGENT_REPEATS_VIOLATIONS],
}
#: (binding) -> the differences of the SDK's client from ours
ACROSS_CLIENTS: dict[str, list[Deviation]] = {
    "JSONRPC": [known.CLIENT_DROPS_DETAILS, known.CLIENT_BREAKS_LINES],
    "HTTP+JSON": [known.CLIENT_DROPS_DETAILS, known.CLIENT_BREAKS_LINES, known.CLIENT_CRASHES],
    "GRPC": [known.CLIENT_DROPS_DETAILS, known.CLIENT_CRASHES],
}


def ours(peer: Peer, binding: str) -> AbstractAsyncContextManager[Service]:
    return find(binding).dial(peer.interface(binding), V1_0, DialOptions(timeout=PATIENCE))


async def transcript(opened: AbstractAsyncContextManager[Any], name: str) -> Lines:
    async with opened as service:
        talk = Talk(Client(service))
        await SCENARIOS[name](talk)
    return talk.lines


@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_client_sees_the_same_on_every_binding(sdk_agents: Callable[..., Peer], name: str) -> None:
    peer = sdk_agents()
    expected = await transcript(ours(peer, "GRPC"), name)
    assert expected
    for binding, excused in ACROSS_BINDINGS.items():
        got = await transcript(ours(peer, binding), name)
        assert not differences(name, expected, got, excused), binding


@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_client_gets_the_same_as_the_official_one(
    sdk_agents: Callable[..., Peer], name: str
) -> None:
    peer = sdk_agents()
    for binding in ALL_BINDINGS:
        expected = await transcript(sdk_client(peer.card(), binding), name)
        got = await transcript(ours(peer, binding), name)
        assert not differences(name, expected, got, ACROSS_CLIENTS[binding]), binding


# The official SDK's client and our hosted agent: all operations on all bindings, as our client sees them.


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_official_client_gets_the_same_as_ours(name: str) -> None:
    async with stack() as running:
        expected = Talk(Client(running.ways["in process"]))
        await SCENARIOS[name](expected)
        for binding in BINDINGS:
            async with sdk_client(running.card, binding) as service:
                talk = Talk(Client(service))
                await SCENARIOS[name](talk)
            found = differences(name, expected.lines, talk.lines, [CLIENT_DROPS_DETAILS])
            assert not found, "\n".join([binding, *found])
