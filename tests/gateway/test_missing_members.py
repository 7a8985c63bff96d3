"""Callers of a gateway get the members that their version requires, also from an agent that leaves them out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.cards import interface
from a2a_bridge.codec import loads
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.gateway.raw_echo import RawAgent, gateway_before
from tests.patience import PATIENCE

#: without `capabilities`
CARD = hub.AgentCard(name="raw", description="answers", version="1")
BARE = {"id": "t", "contextId": "c"}
RESULTS: dict[str, Any] = {
    "GetTask": BARE,
    "CancelTask": BARE,
    "SendMessage": {"task": BARE},
    "ListTasks": {"tasks": [BARE], "nextPageToken": "", "pageSize": 1, "totalSize": 1},
    "GetExtendedAgentCard": {"name": "raw", "description": "more", "version": "1"},
}
EVENTS: list[Any] = [
    {"task": BARE},
    {"statusUpdate": {"taskId": "t", "contextId": "c"}},
    {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}},
]
UNKNOWN = {"1.0": "TASK_STATE_UNSPECIFIED", "0.3": "unknown"}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
OLD_MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
SEND = {"message": MESSAGE, "configuration": {"returnImmediately": True}}
OLD_SEND = {"message": OLD_MESSAGE, "configuration": {"blocking": False}}


@asynccontextmanager
async def gateway() -> AsyncIterator[aiohttp.ClientSession]:
    raw = RawAgent()
    raw.answer = lambda method, _: EVENTS if method == "SendStreamingMessage" else RESULTS[method]
    served = [interface(one, version=version) for one in ("JSONRPC", "HTTP+JSON") for version in UNKNOWN]
    async with (
        gateway_before(raw.handle, "1.0", served, CARD, options=ServeOptions(grace=0)) as server,
        aiohttp.ClientSession(
            f"http://{server.http}", timeout=aiohttp.ClientTimeout(total=PATIENCE)
        ) as session,
    ):
        yield session


async def call(session: aiohttp.ClientSession, version: str, method: str, params: Any) -> list[Any]:
    """The results of a call over JSON-RPC."""
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": version, "Accept": "text/event-stream, application/json"}
    async with session.post("/", json=frame, headers=headers) as response:
        body = await response.read()
    lines = [one for one in body.split(b"\n") if one.startswith(b"data: ")] or [body]
    frames: list[Any] = [loads(one.removeprefix(b"data: ")) for one in lines]
    return [one["result"] for one in frames]


def states(tree: Any) -> list[str]:
    """The states of every task and status event in a result; KeyError for one without."""
    if "tasks" in tree:
        return [one["status"]["state"] for one in tree["tasks"]]
    return [(tree.get("task") or tree.get("statusUpdate") or tree)["status"]["state"]]


@pytest.mark.parametrize("query", ["", "?version=1.0", "?version=0.3", "?binding=JSONRPC"])
async def test_a_card_has_capabilities(query: str) -> None:
    async with gateway() as session, session.get(f"/.well-known/agent-card.json{query}") as response:
        card = await response.json()
    assert type(card["capabilities"]) is dict
    assert card["skills"] == []


async def test_an_extended_card_has_capabilities() -> None:
    async with gateway() as session:
        [card] = await call(session, "1.0", "GetExtendedAgentCard", {})
        assert (card["description"], type(card["capabilities"])) == ("more", dict)


@each(
    ("version", "method", "params"),
    [
        ("1.0", "GetTask", {"id": "t"}),
        ("1.0", "CancelTask", {"id": "t"}),
        ("1.0", "SendMessage", SEND),
        ("1.0", "ListTasks", {}),
        ("1.0", "SendStreamingMessage", SEND),
        ("0.3", "tasks/get", {"id": "t"}),
        ("0.3", "message/send", OLD_SEND),
        ("0.3", "message/stream", OLD_SEND),
    ],
)
async def test_a_task_has_a_status(version: str, method: str, params: Any) -> None:
    async with gateway() as session:
        found = [state for one in await call(session, version, method, params) for state in states(one)]
    assert found[0] == UNKNOWN[version]
    assert set(found) <= {UNKNOWN[version], "TASK_STATE_COMPLETED", "completed"}


async def test_a_task_has_a_status_over_http_json() -> None:
    async with gateway() as session, session.get("/tasks/t", headers={"A2A-Version": "1.0"}) as response:
        assert (await response.json())["status"]["state"] == "TASK_STATE_UNSPECIFIED"
