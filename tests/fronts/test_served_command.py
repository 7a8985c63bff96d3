"""`serve` and `gateway` with `--mcp --openai` as programs, by flags and by a file, with the official clients."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from a2a_bridge import connect
from a2a_bridge.cli import app
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.fronts.served import MCP, Served
from tests.cli.commands import ANY_PORT, serving
from tests.fronts.desk import At
from tests.fronts.test_mcp import ERAS, text_of
from tests.fronts.test_mcp import client as mcp_client
from tests.fronts.test_openai import chat
from tests.fronts.test_openai import client as openai_client
from tests.patience import PATIENCE

AGENT = '''
from a2a_bridge import agent

@agent
async def weather(text):
    """Tells the weather."""
    return f"{text}: 21"
'''


async def works(url: str, tool: str, model: str, answer: str) -> None:
    async with connect(url) as peer, openai_client(url) as api, mcp_client(url, ERAS[0]) as mcp:
        assert (await peer.send("Oslo")).text == answer
        assert await chat(api, "Oslo", model=model) == answer
        assert text_of(await mcp.call_tool(tool, {"message": "Oslo"})) == answer


@pytest.mark.process
@each("flags", [ANY_PORT, ("--server", "envoy", "--listen", "127.0.0.1:0")])
async def test_serve(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, file = tmp_path / "weather.py", tmp_path / "bridge.toml"
    code.write_text(AGENT)
    file.write_text("mcp = true\nopenai = true\n")
    async with (
        asyncio.timeout(PATIENCE),
        serving("serve", str(code), "--config", str(file), *flags) as server,
    ):
        await works(server.http, "weather", "weather", "Oslo: 21")


@pytest.mark.process
async def test_gateway(desk_at: At, card_file: str) -> None:
    flags = ("--mcp", "--openai", *ANY_PORT)
    async with asyncio.timeout(PATIENCE), serving("gateway", card_file, *flags) as server:
        await works(server.http, "ask_desk", "desk", "Oslo!")


@each(
    "flags,text",
    [
        (("--mcp", "--no-http"), "--mcp: is served over HTTP, which --no-http leaves out"),
        (("--openai", "--workers", "2"), "--openai: its sessions and conversations are those of one process"),
    ],
)
def test_flags_that_contradict(flags: tuple[str, ...], text: str, tmp_path: Path) -> None:
    code = tmp_path / "weather.py"
    code.write_text(AGENT)
    found = CliRunner().invoke(app, ["serve", str(code), "--store", "memory://", *flags])
    assert (found.exit_code, text in " ".join(found.stderr.split())) == (2, True)


@each("auth", ["pass-through", "token-exchange"])
def test_credentials_of_callers_do_not_reach_an_agent_by_a_front(auth: str) -> None:
    found = CliRunner().invoke(app, ["gateway", "http://127.0.0.1:1", "--openai", "--upstream-auth", auth])
    text = f"--openai: calls the agent without credentials of callers, which --upstream-auth {auth} needs"
    assert (found.exit_code, text in " ".join(found.stderr.split())) == (2, True)


def test_a_front_without_its_package_names_the_extra() -> None:
    assert isinstance(MCP, Served)
    with pytest.raises(MissingExtraError, match=r"adapters\[mcp\], the package absent"):
        replace(MCP, package="absent").check()
