"""`check` finds nothing wrong with agents of the official SDKs, and with our own in its cells."""

from collections.abc import Callable

import pytest

from a2a_bridge import agent, serve
from tests.peers.processes import AGENTS, Agent, peer_agents
from tests.tools.check.scripted import Script, scripted
from tests.tools.check.test_broken_agents import findings, wrong

__all__ = ["peer_agents"]

#: seconds for a call, and for the notification that does not come
LIMIT = 5.0
TASK = "script: open; work busy; chunk one; done"


@agent
async def echo(text: str) -> str:
    """Repeats the text."""
    return text


@pytest.mark.sdk
@pytest.mark.parametrize("send", ["message", TASK])
@pytest.mark.parametrize("release", AGENTS)
async def test_an_agent_of_the_official_sdk(
    release: str, send: str, peer_agents: Callable[..., Agent]
) -> None:
    running = peer_agents(release)
    found = {one.name: one for one in await findings(running.http, send=send, limit=LIMIT)}
    # These agents keep configurations of notifications, and have no sender.
    expected = {"webhooks"} if send == TASK else set()
    assert wrong(list(found.values())) == expected, [one for one in found.values() if not one.ok]
    assert "all" in found["answers"].detail
    assert "all" in found["stream"].detail


async def test_our_own_agent() -> None:
    async with serve(echo) as server:
        found = {one.name: one for one in await findings(f"http://{server.http}")}
    assert wrong(list(found.values())) == set(), [one for one in found.values() if not one.ok]
    assert "all 9 interfaces" in found["answers"].detail
    # The server has a card for readers that reject gRPC, and the advice is to ask for it.
    assert "google-adk-2" in found["SDKs of HTTP"].detail
    assert "?binding=JSONRPC&binding=HTTP%2BJSON" in found["SDKs of HTTP"].fix
    # So it has for readers that reject the members of 0.x.
    assert "a2a-java-1-alpha" in found["SDKs of 1.0 only"].detail
    assert "?version=1.0" in found["SDKs of 1.0 only"].fix
    assert [name for name, one in found.items() if one.fix] == ["SDKs of HTTP", "SDKs of 1.0 only"]


async def test_a_card_that_every_sdk_reads() -> None:
    paths = {"/.well-known/agent-card.json": {}, "/.well-known/agent.json": {}}
    async with scripted(Script(version="0.3.0", wire=("0.3",), cards=paths)) as base:
        found = {one.name: one for one in await findings(base)}
    assert "can read this card" in found["SDKs"].detail
    assert not [name for name in found if name.startswith("SDKs of")]
