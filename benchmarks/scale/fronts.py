"""Dimensions of the fronts for MCP and for OpenAI's API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from a2a_bridge import Agent
from a2a_bridge.bindings.binding import HostOptions, ListenAddress, http_host
from a2a_bridge.ext import hub
from a2a_bridge_adapters.fronts import mcp_front, openai_front
from benchmarks.scale.dimension import Dimension, Window
from benchmarks.scale.hosted import Made

REPEATED = 50


@asynccontextmanager
async def openai(_size: int, /) -> AsyncIterator[str]:
    """An agent as a model."""
    async with _listening(openai_front(Agent(Made(), name="made"))) as url:
        yield url


@asynccontextmanager
async def mcp(size: int, /) -> AsyncIterator[str]:
    """An agent with so many skills of one name, as tools."""
    skills = [hub.AgentSkill(id="skill", name="Skill", description="Says it again.") for _ in range(size)]
    async with _listening(mcp_front(Agent(Made(), name="made", skills=skills))) as url:
        yield url


def one_skill(_size: int, /) -> AbstractAsyncContextManager[str]:
    """An agent with one skill, as a tool."""
    return mcp(1)


@asynccontextmanager
async def _listening(application: Any) -> AsyncIterator[str]:
    host = http_host(ListenAddress(), HostOptions())
    host.mount_application("", application)
    await host.start()
    try:
        yield f"http://{host.address}"
    finally:
        await host.drain(1.0)


async def chat(url: str, size: int, window: Window) -> None:
    """Answers to a chat of so many messages."""
    said = [{"role": role, "content": "It will be sunny."} for role in ("user", "assistant")]
    messages = [*said * (size // 2), {"role": "user", "content": "x"}]
    async with aiohttp.ClientSession() as session:

        async def ask() -> None:
            tree = {"model": "made", "messages": messages}
            async with session.post(f"{url}/v1/chat/completions", json=tree) as response:
                answer = await response.json()
                assert answer["choices"][0]["message"]["content"] == "x", answer

        await ask()
        async with window():
            for _ in range(REPEATED):
                await ask()


async def tools(url: str, size: int, window: Window, *, lists: bool) -> None:
    """Calls of the last tool, or lists of all."""
    async with Client(streamable_http_client(f"{url}/mcp"), mode="legacy", cache=None) as client:

        async def list_all() -> list[types.Tool]:
            """The tools of all pages."""
            page = await client.list_tools()
            found = page.tools
            while page.next_cursor:
                page = await client.list_tools(cursor=page.next_cursor)
                found += page.tools
            assert len(found) == size + 1
            return found

        listed = await list_all()
        async with window():
            for _ in range(REPEATED // 5 if lists else REPEATED):
                if lists:
                    await list_all()
                else:
                    result = await client.call_tool(listed[-2].name, {"message": "x"})
                    assert not result.is_error


async def sessions(url: str, size: int, window: Window) -> None:
    """Clients that connect and stay."""
    async with AsyncExitStack() as stack, window():
        for _ in range(size):
            transport = streamable_http_client(f"{url}/mcp")
            await stack.enter_async_context(Client(transport, mode="legacy", cache=None))


_SKILLS = (50, 300, 1_200)
ROWS = (
    Dimension("messages of a chat", f"{REPEATED} completions", (10, 100, 1_000), 1.0, openai, chat),
    Dimension(
        "skills of a card", f"{REPEATED} calls over MCP", _SKILLS, 0.0, mcp, partial(tools, lists=False)
    ),
    Dimension(
        "skills of a card", f"{REPEATED // 5} lists of tools", _SKILLS, 1.0, mcp, partial(tools, lists=True)
    ),
    Dimension(
        "sessions of MCP", "opening them", (30, 100, 300), 1.0, one_skill, sessions, memory=1.0, small=(5, 20)
    ),
)
