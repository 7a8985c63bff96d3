"""Official clients through both fronts to agents on the official SDKs: 1.0 over gRPC, 0.3 over JSON-RPC."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp import types

from a2a_bridge.cards import interface
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.fronts.test_mcp import ERAS, client, fronted, text_of
from tests.fronts.test_openai import assistant, chat, user
from tests.fronts.test_openai import client as openai_client
from tests.fronts.test_openai import fronted as openai_fronted
from tests.patience import PATIENCE
from tests.peers.processes import Agent

#: release of the SDK, binding, version
SDKS = (("1.3.0", "GRPC", "1.0"), ("0.3.26", "JSONRPC", "0.3"))
TASK = "script: open; work busy; chunk one; last two; done"
ASK = "script: open; work; ask which one?"

pytestmark = [pytest.mark.process, pytest.mark.sdk]


@pytest.fixture(params=SDKS, ids=" ".join)
def card(request: pytest.FixtureRequest, peer_agents: Callable[..., Agent]) -> hub.AgentCard:
    release, binding, version = request.param
    agent = peer_agents(release)
    return hub.AgentCard(
        name="peer",
        supported_interfaces=[interface(binding, agent.url(binding), version=version)],
        capabilities=hub.AgentCapabilities(streaming=True),
    )


@pytest.mark.parametrize("era", ERAS)
async def test_mcp(card: hub.AgentCard, era: str) -> None:
    async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "which one?"
        return types.ElicitResult(action="accept", content={"answer": "script: last the red one; done"})

    async with (
        asyncio.timeout(PATIENCE),
        fronted(card) as url,
        client(url, era, elicitation_callback=answer) as mcp,
    ):
        assert [one.name for one in (await mcp.list_tools()).tools] == ["peer", "task_status"]
        done = await mcp.call_tool("peer", {"message": TASK})
        assert text_of(done).startswith("onetwo")
        files = await mcp.call_tool("peer", {"message": "script: open; data things; done"})
        data = {"n": 7, "list": [None, True, {"deep": "x"}], "half": 0.5}
        assert data in [
            json.loads(one.text) for one in files.content if one.type == "text" and one.text[0] == "{"
        ]
        assert {type(one).__name__ for one in files.content} >= {"ImageContent", "ResourceLink"}
        failed = await mcp.call_tool("peer", {"message": "script: open; fail no luck"})
        assert (text_of(failed).startswith("no luck"), failed.is_error) == (True, True)
        assert text_of(await mcp.call_tool("peer", {"message": ASK})).startswith("the red one")


async def test_openai(card: hub.AgentCard) -> None:
    async with asyncio.timeout(PATIENCE), openai_fronted(card) as url, openai_client(url) as api:
        assert await chat(api, TASK, model="peer") == "onetwo"
        stream = await api.responses.create(model="peer", input=TASK, stream=True)
        deltas = [one.delta async for one in stream if one.type == "response.output_text.delta"]
        assert deltas == ["one", "two"]
        asked = await chat(api, ASK, model="peer")
        assert asked == "which one?"
        messages = [user(ASK), assistant(asked), user("script: last the red one; done")]
        assert await chat(api, messages, model="peer") == "the red one"
