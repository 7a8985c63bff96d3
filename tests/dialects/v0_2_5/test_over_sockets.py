"""0.2.5 over HTTP, as a caller meets it: the card's two addresses, methods, the end of a stream."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from a2a_bridge import A2AError, Agent, Client, Reason, Run, agent, interface
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.core.agent_api import service_of
from a2a_bridge.dialects import V0_2_5
from a2a_bridge.dialects.v0_2_5 import models
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.sites import listening

EXTENDED = hub.AgentCard(name="extended", description="for those who are known", version="1")


@agent
async def plain(run: Run) -> Any:
    """Answers."""
    yield run.status("working")
    yield "done"


@agent(extended_card=EXTENDED)
async def known(text: str) -> str:
    """Answers, and has an extended card."""
    return text


@asynccontextmanager
async def mounted(served: Agent) -> AsyncIterator[str]:
    """An agent at /a2a/v1, for callers of 0.2.5 only; its base URL."""
    engine = Engine(served)
    async with listening(service_of(engine), "JSONRPC", [V0_2_5], path="/a2a/v1") as address:
        yield f"http://{address}/a2a/v1"
    await engine.close(1)


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}


async def test_the_extended_card_is_beside_the_agents_url() -> None:
    async with mounted(known) as url, aiohttp.ClientSession() as session:
        beside = f"{url.rpartition('/')[0]}/agent/authenticatedExtendedCard"
        async with session.get(beside) as answer:
            assert answer.status == 200
            card = models.read(models.AgentCard, await answer.json())
        assert card.name == "extended"
        asked = {"jsonrpc": "2.0", "id": 7, "method": "agent/authenticatedExtendedCard"}
        async with session.post(url, json=asked) as answer:
            assert (await answer.json())["result"]["name"] == "extended"


async def test_a_missing_extended_card_is_404() -> None:
    async with (
        mounted(plain) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url.rpartition('/')[0]}/agent/authenticatedExtendedCard") as answer,
    ):
        assert answer.status == 404


async def test_our_client_asks_where_0_2_5_has_it() -> None:
    there = find("JSONRPC")
    for served, name in ((known, "extended"), (plain, "")):
        async with mounted(served) as url:
            target = interface("JSONRPC", url)
            async with there.dial(target, V0_2_5, DialOptions()) as service:
                if name:
                    found = await Client(service).get_extended_agent_card(hub.GetExtendedAgentCardRequest())
                    assert found.name == name
                else:
                    with pytest.raises(A2AError) as caught:
                        await Client(service).get_extended_agent_card(hub.GetExtendedAgentCardRequest())
                    assert caught.value.reason in {
                        Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED,
                        Reason.UNSUPPORTED_OPERATION,
                    }


async def test_answers_are_of_the_types_of_0_2_5() -> None:
    async with mounted(known) as url, aiohttp.ClientSession() as session:
        configuration = {"acceptedOutputModes": []}
        asked = request("message/send", message=MESSAGE, configuration=configuration)
        assert models.check(models.A2ARequest, asked) == []
        async with session.post(url, json=asked) as answer:
            sent = models.read(models.SendMessageResponse, await answer.json())
        assert sent.root.result.parts[0].root.text == "hi"
        async with session.post(url, json=request("tasks/get", id="none")) as answer:
            error = models.read(models.GetTaskResponse, await answer.json()).root.error
        assert type(error) is models.TaskNotFoundError
        async with session.post(url, json=request("agent/getAuthenticatedExtendedCard")) as answer:
            error = models.read(models.JSONRPCResponse, await answer.json()).root.error
        assert type(error) is models.MethodNotFoundError


async def test_a_stream_ends_with_a_final_event() -> None:
    async with (
        mounted(plain) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=request("message/stream", message=MESSAGE)) as answer,
    ):
        lines = [line async for line in answer.content if line.startswith(b"data:")]
    events = [models.read(models.SendStreamingMessageResponse, json.loads(line[5:])).root for line in lines]
    last = events[-1].result
    assert isinstance(last, models.TaskStatusUpdateEvent)
    assert last.final
    assert all(not getattr(event.result, "final", False) for event in events[:-1])
