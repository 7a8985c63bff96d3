"""`a2a-bridge front mcp` and `front openai` as programs: what both do with callers."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from typer.testing import CliRunner

from a2a_bridge.auth import KeyFile
from a2a_bridge.cli import app
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge_adapters import fronts
from tests.fronts.desk import At
from tests.fronts.fronts import COMMAND, running
from tests.fronts.test_mcp import TOOL, text_of
from tests.fronts.test_openai import chat, client, user
from tests.patience import PATIENCE


def _keys(folder: Path) -> tuple[Path, str, str]:
    path = folder / "keys.json"
    file = KeyFile(path)
    ann, bob = file.create("ann", scopes=["send", "read"]), file.create("bob", scopes=["read"])
    return path, ann.text, bob.text


RULES = """
[[rules]]
scopes = ["send"]
"""


@pytest.mark.process
async def test_callers_rules_and_credentials_of_a_front(desk_at: At, card_file: str, tmp_path: Path) -> None:
    desk, _ = desk_at
    keys, ann, bob = _keys(tmp_path)
    (tmp_path / "front.toml").write_text(RULES)
    shared = [card_file, "--http", "127.0.0.1:0", "--api-keys", str(keys)]
    shared += ["--config", str(tmp_path / "front.toml")]
    shared += ["-H", "X-Own: of the front", "--task-access", "own"]
    async with (
        running("openai", *shared) as url,
        client(url, ann) as api,
        client(url, bob) as other,
        client(url, "ann.wrong") as unknown,
    ):
        assert await chat(api, "turn") == "turn 1"
        assert (
            await chat(api, [user("turn"), {"role": "assistant", "content": "turn 1"}, user("turn")])
            == "turn 2"
        )
        with pytest.raises(openai.NotFoundError):
            await chat(other, "turn")
        with pytest.raises(openai.AuthenticationError):
            await chat(unknown, "turn")
    async with running("mcp", *shared) as url:
        for key, allowed in ((ann, True), (bob, False)):
            for header in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
                async with create_mcp_http_client(header) as http:
                    transport = streamable_http_client(f"{url}/mcp", http_client=http)
                    async with Client(transport) as mcp:
                        if not allowed:
                            assert (await mcp.list_tools()).tools == []
                            with pytest.raises(MCPError, match="there is no tool"):
                                await mcp.call_tool(TOOL, {"message": "hello"})
                            continue
                        result: Any = await mcp.call_tool(TOOL, {"message": "hello"})
                        assert text_of(result).startswith("hello!")
    sent = [value for parameters in desk.parameters for value in parameters.values()]
    assert sent.count("of the front") == len(desk.parameters)
    assert not [value for value in sent if ann in value]


#: arguments → a part of the message
WRONG = (
    (["mcp", "x.json"], "give one of --stdio and --http"),
    (["mcp", "x.json", "--stdio", "--http", ":0"], "give one of --stdio and --http"),
    (["mcp", "x.json", "--stdio", "--wait", "0"], "--wait"),
    (["openai", "x.json"], "--http"),
    (["mcp", "x.json", "--stdio", "--upstream-auth", "pass-through"], "would send credentials of callers"),
    (["openai", "x.json", "--http", ":0", "--upstream-auth", "token-exchange"], "credentials of callers"),
    (["openai", "x.json", "--http", ":0", "--ssl-keyfile", "k.pem"], "needs --ssl-certfile"),
)


@pytest.mark.parametrize(
    ("arguments", "text"), WRONG, ids=lambda one: " ".join(one) if isinstance(one, list) else ""
)
def test_flags_that_are_wrong(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["front", *arguments])
    shown = " ".join((result.stdout + result.stderr).split())
    assert (result.exit_code, text in shown) == (2, True), shown


@pytest.mark.process
def test_an_address_that_is_used_is_one_line() -> None:
    agent = str(Path(__file__).parents[2] / "examples" / "echo_agent.py")
    with socket.create_server(("127.0.0.1", 0)) as used:
        place = f"127.0.0.1:{used.getsockname()[1]}"
        for front in ("mcp", "openai"):
            done = subprocess.run(
                [COMMAND, "front", front, agent, "--http", place],
                check=False,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            said, advice = done.stderr.splitlines()
            assert (done.returncode, "address already in use" in said, "another port" in advice) == (
                2,
                True,
                True,
            )


def test_a_front_in_code_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtraError, match=r'pip install "a2a-transport-bridge-adapters\[mcp\]"'):
        fronts.__getattr__("mcp_front")
