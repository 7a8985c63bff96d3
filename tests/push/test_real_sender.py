"""The relay before an agent of the 0.3 SDK, whose own sender posts to it. Over every binding of that agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.cards import Candidate, interface
from a2a_bridge.dialects import V0_3
from tests.peers.processes import AGENTS, started
from tests.push.delivery_scene import receiving
from tests.push.test_webhooks_by_version import check, finished, hook, register, said
from tests.push.version_scene import bridged

pytestmark = [pytest.mark.process, pytest.mark.sdk]

PROGRAM = Path(__file__).with_name("pushing_agent_0_3.py")


@pytest.fixture(scope="module")
def agent() -> Iterator[dict[str, str]]:
    with started((AGENTS["0.3.26"].command[0], str(PROGRAM))) as (_, words):
        yield {"JSONRPC": words["http"] + "/", "HTTP+JSON": words["http"], "GRPC": words["grpc"]}


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_notifications_arrive_in_the_version_of_the_receiver(
    agent: dict[str, str], binding: str, version: str, inline: bool
) -> None:
    upstream = Candidate(interface(binding, agent[binding], version="0.3"), V0_3)
    async with receiving() as receiver, bridged(upstream, relayed=True) as front:
        config: Any = hook(receiver, version)
        task = await said(front, version, "script:ask", inline=config if inline else None)
        if not inline:
            await register(front, version, task["id"], config | {"id": "p"})
        await said(front, version, "script:work;chunk x;done", taskId=task["id"], contextId=task["contextId"])
        check(await finished(receiver, version), version)
