"""What callers of a front leave behind: bounded, in the memory account, and no caller displaces another one."""

import asyncio
from functools import partial
from typing import Any

import httpx
import openai
import pytest

from a2a_bridge.app.planning import ServeOptions, StoreOptions
from a2a_bridge.app.runtime import guarded_agent
from a2a_bridge.bindings.memory import MemoryAccount, Tables
from a2a_bridge.bindings.shares import SharedTable
from a2a_bridge.hosting import Agent
from a2a_bridge_adapters.fronts import mcp_serving
from a2a_bridge_adapters.fronts import openai as openai_front_module
from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
from a2a_bridge_adapters.fronts.mcp_sessions import Sessions
from tests.fronts.desk import FORMS, Desk, serving
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication, listening
from tests.fronts.test_mcp import TOOL
from tests.fronts.test_openai import chat, client, fronted, user
from tests.patience import PATIENCE


def test_the_entries_of_the_same_caller_go() -> None:
    dropped: list[tuple[str, str]] = []
    table: SharedTable[int] = SharedTable(4, most_bytes=1000, on_drop=lambda key, _: dropped.append(key))
    table.put(("bob", "old"), 1, 10)
    for name in "abcde":
        table.put(("ann", name), 1, 10)
    assert dropped == [("ann", "a"), ("ann", "b")]
    assert table.get(("ann", "c")) == 1  # it is used now
    table.put(("ann", "f"), 1, 10)
    table.put(("cat", "x"), 1, 10)
    assert dropped[2:] == [("ann", "d"), ("ann", "e")]
    # By bytes, those of the caller with the most bytes.
    table.put(("cat", "large"), 1, 990)
    assert ("bob", "old") not in dropped
    assert ("cat", "x") in dropped
    for key in list(table):
        table.pop(key)
    assert (len(table), table.size) == (0, 0)


def test_entries_are_idle_data_of_the_account() -> None:
    account = MemoryAccount(1000)
    table: SharedTable[int] = SharedTable(100, Tables.of(account), most_bytes=10_000)
    table.put(("bob", "x"), 1, 200)
    for number in range(10):
        table.put(("ann", str(number)), 1, 100)
    assert account.used <= 1000
    assert table.get(("bob", "x")) == 1


async def open_session(http: httpx.AsyncClient, url: str, key: str) -> dict[str, str]:
    headers = {**ACCEPT, "Authorization": f"Bearer {key}"}
    opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=headers)
    headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await http.post(f"{url}/mcp", json=ready, headers=headers)
    return headers


async def listed(http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> int:
    """The status of a list of tools in a session."""
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    answer = await http.post(f"{url}/mcp", json=asked, headers=headers)
    assert (TOOL in answer.text) == (answer.status_code == 200)
    return answer.status_code


async def test_sessions_of_one_caller_take_no_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_serving, "Sessions", partial(Sessions, most=4))
    async with asyncio.timeout(PATIENCE), serving(Desk(), *FORMS[0]) as card:
        app = mcp_front(card, authenticate=authentication())
        async with listening(app) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
            bob = await open_session(http, url, "key of bob")
            anns = [await open_session(http, url, "key of ann") for _ in range(8)]
            while await listed(http, url, anns[4]) != 404:
                pass
            found = [await listed(http, url, one) for one in (bob, *anns)]
            assert found == [200, *[404] * 5, *[200] * 3]
            # One that its client has ended makes room.
            await http.delete(f"{url}/mcp", headers=anns[5])
            last = await open_session(http, url, "key of ann")
            assert [await listed(http, url, one) for one in (bob, *anns[6:], last)] == [200] * 4
        await app.close()


async def test_conversations_of_one_caller_take_no_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_front_module, "MOST", 4)
    async with (
        asyncio.timeout(PATIENCE),
        serving(Desk(), *FORMS[0]) as card,
        fronted(card, authenticate=authentication()) as url,
        client(url, "key of ann") as ann,
        client(url, "key of bob") as bob,
    ):
        kept = await bob.responses.create(model="desk", input="turn")
        first = await ann.responses.create(model="desk", input="turn")
        for number in range(10):
            await ann.responses.create(model="desk", input=f"{number}")
        again = await bob.responses.create(model="desk", input="turn", previous_response_id=kept.id)
        assert again.output_text == "turn 2"
        with pytest.raises(openai.BadRequestError, match="not found"):
            await ann.responses.create(model="desk", input="turn", previous_response_id=first.id)
        assert (
            await chat(bob, [user("turn"), {"role": "assistant", "content": "turn 1"}, user("turn")])
            == "turn 1"
        )


async def test_what_a_front_keeps_is_in_the_account_of_the_agent() -> None:
    agent: Any = Agent(Desk(), name="desk", description="d")
    options = ServeOptions(store_options=StoreOptions(max_memory=100_000_000))
    async with asyncio.timeout(PATIENCE), guarded_agent(agent, options) as peer:
        assert peer.memory is not None
        async with fronted(peer) as url, client(url) as api:
            tables = Tables.of(peer.memory)
            before = tables.idle
            for number in range(20):
                await chat(api, f"{number}", extra_headers={"X-A2A-Conversation": f"{number}"})
            grown = tables.idle - before
            assert grown > 20 * 300
            tables.give_up(tables.idle)
            assert tables.idle == 0
