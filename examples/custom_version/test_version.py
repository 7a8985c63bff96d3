"""An agent and a client of the invented 1.1, in front of and behind every other version."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.request import Request, urlopen

import pytest
from a2a_v1_1 import DIALECT

from a2a_bridge import Run, agent, connect, serve
from a2a_bridge.ext import (
    KNOWN,
    Candidate,
    ListenAddress,
    by_version,
    find_binding,
    hub,
    interface,
    select,
    serve_gateway,
)
from a2a_bridge.testing.contracts import BindingContract

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
OTHERS = ("1.0", "0.3", "0.2.5")


@agent(name="Rooms")
async def rooms(run: Run) -> str:
    """Answers with the context of the message."""
    return f"in {run.context_id}"


@asynccontextmanager
async def served(*versions: str) -> AsyncIterator[hub.AgentCard]:
    declared = [interface(binding, version=version) for version in versions for binding in BINDINGS]
    async with serve(rooms, declared) as server:
        yield server.card


def dialled(card: hub.AgentCard, version: str, binding: str) -> list[Candidate]:
    return list(select(card, known=BINDINGS, binding=binding, version=version))


def test_the_entry_point_makes_the_version_known() -> None:
    assert by_version("1.1") is DIALECT
    assert KNOWN[0] is DIALECT


async def test_json_has_the_new_name_and_no_old_one() -> None:
    async with served("1.1", "1.0") as card:
        url = next(one.url for one in card.supported_interfaces if one.protocol_binding == "JSONRPC")
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}

        async def ask(version: str, member: str) -> dict[str, object]:
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendMessage",
                "params": {
                    "message": message | {member: "room 7", "metadata": {"contextId": "a user's own"}}
                },
            }
            headers = {"content-type": "application/json", "a2a-version": version}
            request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310  our own server
            reply = await to_thread(lambda: urlopen(request, timeout=30).read())  # noqa: S310
            answer: dict[str, object] = json.loads(reply)["result"]["message"]
            return answer

        newer, older = await ask("1.1", "conversationId"), await ask("1.0", "contextId")
        assert newer["conversationId"] == older["contextId"] == "room 7"
        assert "contextId" not in newer
        assert "conversationId" not in older
        unknown = await ask("1.1", "contextId")
        assert unknown["conversationId"] != "room 7"


class TestOverJsonRpc(BindingContract):
    """Everything that a call has arrives in it, too."""

    binding = find_binding("JSONRPC")
    dialect = DIALECT

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_of_it_talks_to_an_agent_of_it(binding: str) -> None:
    async with served("1.1") as card, connect(card, binding=binding, version="1.1") as peer:
        assert (await peer.send("hi", context_id="room 7")).text == "in room 7"


@pytest.mark.parametrize("other", OTHERS)
async def test_it_reaches_agents_of_other_versions_and_they_reach_it(other: str) -> None:
    for front, back in (("1.1", other), (other, "1.1")):
        async with served(back) as card:
            candidates = dialled(card, back, "JSONRPC")
            declared = [interface("HTTP+JSON", version=front)]
            async with serve_gateway(card, candidates, declared) as gateway, connect(gateway.card) as peer:
                assert (await peer.send("hi", context_id="room 7")).text == "in room 7"
