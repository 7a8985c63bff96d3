"""`a2a-bridge front mcp` and `front openai` as programs, with the official clients."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from openai import AsyncOpenAI, DefaultAsyncHttpx2Client
from typer.testing import CliRunner

from a2a_bridge.auth import KeyFile
from a2a_bridge.cli import app
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.certificates import new_identity
from tests.fronts.desk import FORMS, Desk, serving
from tests.fronts.test_mcp import ERAS, TOOL, text_of
from tests.fronts.test_openai import chat, client, user
from tests.patience import PATIENCE

COMMAND = str(Path(sys.executable).parent / "a2a-bridge")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
#: the agent of `desk_at`, and a file with its card
At = tuple[Desk, str]


@pytest.fixture(params=FORMS, ids=" ".join)
async def desk_at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[At]:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), serving(desk, *request.param) as card:
        path = tmp_path / "card.json"
        path.write_bytes(dumps(encoder(hub.AgentCard)(card)))
        yield desk, str(path)


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[str]:
    """The address of a front that is served over HTTP."""
    process = await asyncio.create_subprocess_exec(
        COMMAND, "front", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield line.partition("http=")[2].strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.process
@pytest.mark.parametrize("era", [*ERAS, "auto"])
async def test_mcp_over_a_pipe(desk_at: At, era: str) -> None:
    desk, card = desk_at
    program = StdioServerParameters(
        command=COMMAND, args=["front", "mcp", card, "--stdio", "--wait", "5s", "--log-level", "debug"]
    )
    async with Client(program, mode=era) as mcp:
        assert [one.name for one in (await mcp.list_tools()).tools] == [TOOL, "ask_desk_2", "task_status"]
        for count in (1, 2):
            # One conversation, because there is one client.
            assert text_of(await mcp.call_tool(TOOL, {"message": "turn"})) == f"turn {count}"
        call = asyncio.create_task(mcp.call_tool(TOOL, {"message": "work"}))
        await desk.working.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await desk.cancelled.wait()


@pytest.mark.process
@pytest.mark.parametrize("end", ["end of stdin", "SIGTERM"])
async def test_stdout_has_mcp_only_and_the_end_cancels_tasks(desk_at: At, end: str) -> None:
    desk, card = desk_at
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "front", "mcp", card, "--stdio", "--log-level", "debug"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    call["params"] = {"name": TOOL, "arguments": {"message": "work"}}
    for one in (INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call):
        process.stdin.write(json.dumps(one).encode() + b"\n")
    await desk.working.wait()
    if end == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdin.close()
    out, err = await process.communicate()
    await desk.cancelled.wait()
    assert process.returncode == 0, err.decode()
    assert [json.loads(line)["jsonrpc"] for line in out.splitlines()] == ["2.0"] * len(out.splitlines())
    assert b"upstream: " in err


@pytest.mark.process
async def test_a_client_that_dies_leaves_no_traceback(desk_at: At) -> None:
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "front", "mcp", desk_at[1], "--stdio"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    await process.stdout.readline()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  no public way
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).encode() + b"\n")
    process.stdin.close()
    err = (await process.stderr.read()).decode()
    assert (await process.wait(), "Traceback" in err) == (0, False), err


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
async def test_callers_rules_and_credentials_of_a_front(desk_at: At, tmp_path: Path) -> None:
    desk, card = desk_at
    keys, ann, bob = _keys(tmp_path)
    (tmp_path / "front.toml").write_text(RULES)
    shared = [
        card,
        "--http",
        "127.0.0.1:0",
        "--api-keys",
        str(keys),
        "--config",
        str(tmp_path / "front.toml"),
    ]
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
        with pytest.raises(openai.PermissionDeniedError):
            await chat(other, "turn")
        with pytest.raises(openai.AuthenticationError):
            await chat(unknown, "turn")
    async with running("mcp", *shared) as url:
        for key, allowed in ((ann, True), (bob, False)):
            for header in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
                async with create_mcp_http_client(header) as http:
                    transport = streamable_http_client(f"{url}/mcp", http_client=http)
                    async with Client(transport) as mcp:
                        result: Any = await mcp.call_tool(TOOL, {"message": "hello"})
                        assert result.is_error is not allowed
                        assert text_of(result).startswith("hello!" if allowed else "PERMISSION_DENIED")
    sent = [value for parameters in desk.parameters for value in parameters.values()]
    assert sent.count("of the front") == len(desk.parameters)
    assert not [value for value in sent if ann in value]


@pytest.mark.process
async def test_an_agent_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(
        "from a2a_bridge import agent\n@agent\nasync def weather(text):\n    '''Tells.'''\n    return f'{text}: 21'\n"
    )
    program = StdioServerParameters(
        command=COMMAND, args=["front", "mcp", str(tmp_path / "weather.py"), "--stdio"]
    )
    async with asyncio.timeout(PATIENCE), Client(program) as mcp:
        assert text_of(await mcp.call_tool("weather", {"message": "Oslo"})) == "Oslo: 21"


@pytest.mark.process
async def test_an_open_stream_of_a_client_does_not_delay_the_end(desk_at: At) -> None:
    """A client of 2025-11-25 listens as long as its session lasts."""
    _, card = desk_at
    grace = ("--timeout-graceful-shutdown", str(100 * PATIENCE))
    async with create_mcp_http_client() as http, asyncio.timeout(PATIENCE):
        async with running("mcp", card, "--http", "127.0.0.1:0", *grace) as url:
            opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            request = http.build_request("GET", f"{url}/mcp", headers={**ACCEPT, **session})
            listening = await http.send(request, stream=True)
            assert listening.status_code == 200
        assert [chunk async for chunk in listening.aiter_bytes()] == []


@pytest.mark.process
async def test_tls_and_limits_of_a_caller(desk_at: At, tmp_path: Path) -> None:
    desk, card = desk_at
    identity = new_identity()
    certificate, key = identity.written(tmp_path, "server")
    flags = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--max-streams", "1", "--max-parts", "2")
    async with running("openai", card, "--http", "127.0.0.1:0", *flags) as url:
        assert url.startswith("https://")
        context = ssl.create_default_context(cadata=identity.certificate.decode())
        async with AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="x",
            max_retries=0,
            http_client=DefaultAsyncHttpx2Client(verify=context, timeout=PATIENCE),
        ) as api:
            parts = [{"type": "text", "text": "x"}] * 3
            with pytest.raises(openai.BadRequestError, match="at most 2 are taken"):
                await chat(api, [user(parts)])
            first = asyncio.create_task(chat(api, "work"))
            await desk.working.wait()
            with pytest.raises(openai.RateLimitError, match="more than 1 streams at once") as limited:
                await chat(api, "hello")
            assert limited.value.response.headers["retry-after"] == "1"
            desk.released.set()
            assert await first == "worked"


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
