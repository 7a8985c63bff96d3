"""Several agents at one port for clients of MCP and OpenAI's API: names, choice, rules, counts, coming and going."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from mcp import Client, MCPError, types
from openai import AsyncOpenAI

from a2a_bridge.agents import AgentEntry, Agents, asgi_agents, hosted, serve_agents
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.auth import Rule
from a2a_bridge.hosting import Agent
from a2a_bridge.middleware import Metrics, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.fronts.desk import Desk
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication
from tests.fronts.served import HTTP, agent_of, on_its_listener, options_of
from tests.fronts.test_mcp import ERAS, TOOL, text_of
from tests.fronts.test_mcp import client as mcp_client
from tests.fronts.test_openai import chat
from tests.fronts.test_openai import client as openai_client
from tests.middleware.test_metrics import value
from tests.patience import PATIENCE
from tests.transports.test_http_asgi import running


def entry(name: str, desk: Desk, card_name: str = "desk", skills: Any = None, **more: Any) -> AgentEntry:
    made = agent_of(desk) if skills is None else Agent(desk, name=card_name, description="x", skills=skills)
    return hosted(name, made, ServeOptions(), HTTP, **more)


@asynccontextmanager
async def at_one_port(*entries: AgentEntry, **members: Any) -> AsyncIterator[tuple[Agents, str]]:
    async with asyncio.timeout(PATIENCE), serve_agents(entries, options_of(**members), grpc=False) as server:
        yield server, f"http://{server.http}"


async def models(api: AsyncOpenAI) -> list[str]:
    return [one.id async for one in api.models.list()]


async def tools(mcp: Client) -> list[str]:
    return [one.name for one in (await mcp.list_tools()).tools]


OF_DESK = ["desk_ask_desk", "desk_ask_desk_2", "desk_task_status"]


async def works(url: str) -> None:
    async with openai_client(url) as api, mcp_client(url, ERAS[0]) as mcp:
        assert await models(api) == ["desk", "other"]
        assert await chat(api, "turn", model="desk") == "turn 1"
        first = {"role": "assistant", "content": "turn 1"}
        said: Any = [{"role": "user", "content": "turn"}, first, {"role": "user", "content": "turn"}]
        # A transcript of one agent is none of another one.
        assert await chat(api, said, model="other") == "turn 1"
        assert await chat(api, said, model="desk") == "turn 2"
        with pytest.raises(openai.NotFoundError, match="'x' does not exist; /v1/models lists those that do"):
            await chat(api, "turn", model="x")
        assert await tools(mcp) == [*OF_DESK, "other_desk", "other_task_status"]
        asked = text_of(await mcp.call_tool("other_desk", {"message": "ask why?"}))
        task = asked.rpartition("task=")[2]
        status = await mcp.call_tool("other_task_status", {"task": task})
        assert f"Call other_desk with task={task}" in text_of(status)
        unknown = await mcp.call_tool("desk_task_status", {"task": task})
        assert "TASK_NOT_FOUND" in text_of(unknown)
    below = f"{url}/agents/desk"
    async with openai_client(below) as api, mcp_client(below, ERAS[1]) as mcp, httpx.AsyncClient() as http:
        assert await models(api) == ["desk"]
        assert await tools(mcp) == [TOOL, "ask_desk_2", "task_status"]
        assert text_of(await mcp.call_tool(TOOL, {"message": "hello"})).startswith("hello!")
        for page in (url, below):
            assert f"<code>{page}/mcp</code>" in (await http.get(page, headers={"Accept": "text/html"})).text


async def test_the_model_and_the_name_of_a_tool_choose_the_agent() -> None:
    async with at_one_port(entry("desk", Desk()), entry("other", Desk(), skills=[])) as (_, url):
        await works(url)


async def test_the_same_in_an_asgi_server() -> None:
    app = asgi_agents([entry("desk", Desk()), entry("other", Desk(), skills=[])], options_of())
    async with asyncio.timeout(PATIENCE), running(app) as url:
        await works(url)


async def test_the_only_agent_of_a_file_is_served_as_that_of_a_command() -> None:
    async with (
        at_one_port(entry("one", Desk(), at_root=True)) as (_, url),
        openai_client(url) as api,
        mcp_client(url, ERAS[0]) as mcp,
    ):
        assert await models(api) == ["desk"]
        assert await tools(mcp) == [TOOL, "ask_desk_2", "task_status"]
        assert await chat(api, "hello") == "hello!"


async def posted(url: str, body: Any) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(url, json=body, headers={**ACCEPT, "Authorization": "Bearer key of bob"})


async def test_a_caller_sees_and_calls_what_the_rules_allow() -> None:
    usage, metrics = Usage(), Metrics()
    rules = (Rule(principals=("ann",)), Rule(principals=("bob",), agents=("other",)))
    entries = (entry("desk", Desk()), entry("other", Desk(), skills=[]))
    options = {"authentication": authentication(), "access_rules": rules, "usage": usage, "metrics": metrics}
    async with at_one_port(*entries, **options) as (_, url), AsyncExitStack() as stack:
        api = await stack.enter_async_context(openai_client(url, "key of bob"))
        mcp = await stack.enter_async_context(mcp_client(url, ERAS[0], "key of bob"))
        assert await models(api) == ["other"]
        assert await tools(mcp) == ["other_desk", "other_task_status"]
        with pytest.raises(openai.NotFoundError):
            await api.models.retrieve("desk")
        # What a caller may not use is as what is not there, at the path of one agent, too.
        for name in ("desk", "none"):
            with pytest.raises(openai.NotFoundError, match=f"'{name}' does not exist; /v1/models lists"):
                await chat(api, "hello", model=name)
            with pytest.raises(MCPError, match=f"there is no tool '{name}_ask_desk'"):
                await mcp.call_tool(f"{name}_ask_desk", {"message": "hello"})
        for path, body in (("mcp", INITIALIZE), ("v1/chat/completions", {"model": "desk", "messages": []})):
            desk, none = [await posted(f"{url}/agents/{name}/{path}", body) for name in ("desk", "none")]
            assert (desk.status_code, desk.content) == (none.status_code, none.content)
            assert desk.status_code == 404
        assert await chat(api, "hello", model="other") == "hello!"
        assert text_of(await mcp.call_tool("other_desk", {"message": "hello"})).startswith("hello!")
        async with openai_client(url, "key of ann") as other:
            assert await models(other) == ["desk", "other"]
    sent = "SendStreamingMessage"
    counted = {
        (one.binding, one.principal): (one.calls, one.errors) for one in usage if one.operation == sent
    }
    assert counted == {("MCP", "bob"): (2, 1), ("OPENAI", "bob"): (2, 1)}
    for binding in ("MCP", "OPENAI"):
        for agent, code in (("desk", "PERMISSION_DENIED"), ("other", "OK")):
            labels = {"agent": agent, "binding": binding, "version": "", "operation": sent, "code": code}
            assert value(metrics, "requests_total", **labels) == 1


async def test_agents_that_come_and_go_and_a_call_that_runs_meanwhile() -> None:
    desk = Desk()
    async with at_one_port(entry("desk", desk)) as (server, url), AsyncExitStack() as stack:
        api = await stack.enter_async_context(openai_client(url))
        mcp = await stack.enter_async_context(mcp_client(url, ERAS[0]))
        below = await stack.enter_async_context(mcp_client(f"{url}/agents/desk", ERAS[0]))
        await server.add(entry("later", Desk(), skills=[]))
        assert await models(api) == ["desk", "later"]
        assert await tools(mcp) == [*OF_DESK, "later_desk", "later_task_status"]
        assert text_of(await mcp.call_tool("later_desk", {"message": "hello"})).startswith("hello!")
        # Clients look a tool up after its first result, if they have not listed it.
        assert (await tools(below))[0] == TOOL
        calls = []
        for client, tool in ((mcp, "desk_ask_desk"), (below, TOOL)):
            calls.append(asyncio.create_task(client.call_tool(tool, {"message": "work"})))
            await desk.working.wait()
            desk.working.clear()
        leaving = asyncio.create_task(server.remove("desk", PATIENCE))
        while "desk" in await models(api):
            pass
        assert await tools(mcp) == ["later_desk", "later_task_status"]
        with pytest.raises(MCPError, match="there is no tool 'desk_ask_desk'"):
            await mcp.call_tool("desk_ask_desk", {"message": "hello"})
        desk.released.set()
        assert [text_of(await one) for one in calls] == ["worked", "worked"]
        await leaving


def skills(number: int, length: int) -> list[hub.AgentSkill]:
    text = "x" * length
    return [
        hub.AgentSkill(id=f"skill {one}", name=f"Skill {one}", description=text, tags=["x"])
        for one in range(number)
    ]


async def pages(mcp: Client) -> list[list[types.Tool]]:
    found, cursor = [], None
    while True:
        page = await mcp.list_tools(cursor=cursor)
        found.append(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("era", ERAS)
async def test_many_tools_come_in_pages_that_the_official_client_reads(era: str) -> None:
    agent = Agent(Desk(), name="desk", skills=skills(3_000, 400))
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        url = await stack.enter_async_context(on_its_listener(agent, options_of()))
        mcp = await stack.enter_async_context(mcp_client(url, era))
        found = await pages(mcp)
        names = [one.name for page in found for one in page]
        assert names == [*(f"skill_{one}" for one in range(3_000)), "task_status"]
        assert len(found) > 2
        with pytest.raises(MCPError, match="cursor: names no tool that is here now"):
            await mcp.list_tools(cursor="gone")


async def test_names_of_several_agents_are_short_and_differ() -> None:
    long = "a" * 63
    entries = (entry(long, Desk(), skills=skills(2, 1)), entry(f"{long[:-1]}b", Desk(), skills=skills(2, 1)))
    async with at_one_port(*entries) as (_, url), mcp_client(url, ERAS[0]) as mcp:
        names = await tools(mcp)
        assert (len(names), len(set(names)), max(map(len, names))) == (6, 6, 64)
        for name in names[:2]:
            assert text_of(await mcp.call_tool(name, {"message": "hello"})).startswith("hello!")
