"""`check` finds the other protocols of a server, and nothing where there are none."""

import asyncio
from typing import Any

from a2a_bridge import agent, serve
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli.target import parse
from a2a_bridge.ext import ServeOptions
from a2a_bridge.testing.each import each
from a2a_bridge_tools.check.inspection import Inspection
from a2a_bridge_tools.check.table import inspect
from tests.patience import PATIENCE


@agent
async def desk(text: str) -> str:
    """Answers."""
    return text


@each(
    "members,found",
    [
        ({}, {}),
        (
            {"mcp": True, "openai": True},
            {
                "MCP": "{}/mcp is the MCP server 'desk', in 2025-11-25",
                "OpenAI": "{}/v1 has OpenAI's API, with the models desk",
            },
        ),
    ],
)
async def test_the_other_protocols_of_a_server(members: Any, found: dict[str, str]) -> None:
    async with asyncio.timeout(PATIENCE), serve(desk, options=ServeOptions(**members)) as server:
        url = f"http://{server.http}"
        inspection = Inspection(parse(url), DialOptions(), "", PATIENCE)
        findings = [one async for one in inspect(inspection)]
    assert {one.name: one.detail for one in findings if one.name in ("MCP", "OpenAI")} == {
        name: text.format(url) for name, text in found.items()
    }
    assert all(one.ok for one in findings)
