"""`a2a-bridge front mcp` as a program, with the official client, over a pipe and over HTTP in both eras."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared._httpx_utils import create_mcp_http_client

from a2a_bridge import Agent, interface
from a2a_bridge.app.runtime import ServeOptions, serve_agent
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.fronts.desk import At, Desk
from tests.fronts.fronts import ACCEPT, COMMAND, INITIALIZE, running
from tests.fronts.test_mcp import ERAS, TOOL, client, text_of
from tests.patience import PATIENCE

#: the modes of the official client: each era, and the one that the server has
MODES = (*ERAS, "auto")
FLAGS = ("--wait", "5s", "--log-level", "debug")
#: a call whose task goes on until it is cancelled
WORK = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": TOOL, "arguments": {"message": "work"}},
}


async def stdio_front(card: str, *flags: str) -> asyncio.subprocess.Process:
    """The front as a client starts it, with pipes for all three streams."""
    return await asyncio.create_subprocess_exec(
        *(COMMAND, "front", "mcp", card, "--stdio", *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def works(mcp: Client, desk: Desk, *, one_conversation: bool) -> None:
    """Tools are listed and called, and a call that is cancelled cancels its task."""
    assert [one.name for one in (await mcp.list_tools()).tools] == [TOOL, "ask_desk_2", "task_status"]
    counts = [text_of(await mcp.call_tool(TOOL, {"message": "turn"}))[:6] for _ in range(2)]
    assert counts == ["turn 1", "turn 2" if one_conversation else "turn 1"]
    desk.working.clear()
    desk.cancelled.clear()
    call = asyncio.create_task(mcp.call_tool(TOOL, {"message": "work"}))
    await desk.working.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await desk.cancelled.wait()


@pytest.mark.process
@pytest.mark.parametrize("era", MODES)
async def test_the_command_over_stdio(desk_at: At, card_file: str, era: str) -> None:
    program = StdioServerParameters(command=COMMAND, args=["front", "mcp", card_file, "--stdio", *FLAGS])
    async with Client(program, mode=era) as mcp:
        # A pipe has one client.
        await works(mcp, desk_at[0], one_conversation=True)


@pytest.mark.process
async def test_the_command_over_http(desk_at: At, card_file: str) -> None:
    async with running("mcp", card_file, "--http", "127.0.0.1:0", *FLAGS) as url:
        for era in MODES:
            async with client(url, era) as mcp:
                # Only the legacy era has sessions.
                await works(mcp, desk_at[0], one_conversation=era == "legacy")


@pytest.mark.process
@pytest.mark.parametrize("end", ["end of stdin", "SIGTERM"])
async def test_stdio_has_mcp_only_and_the_end_cancels_tasks(desk_at: At, card_file: str, end: str) -> None:
    desk, _ = desk_at
    process = await stdio_front(card_file, "--log-level", "debug")
    assert process.stdin is not None
    for one in (INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, WORK):
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
async def test_a_client_over_stdio_that_dies_leaves_no_traceback(card_file: str) -> None:
    process = await stdio_front(card_file)
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


@pytest.mark.process
async def test_a_client_over_stdio_that_closes_stdout_alone_ends_the_front(
    desk_at: At, card_file: str
) -> None:
    process = await stdio_front(card_file)
    assert process.stdin is not None
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n" + json.dumps(WORK).encode() + b"\n")
    await desk_at[0].working.wait()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  no public way
    await desk_at[0].cancelled.wait()
    # stdin is still open.
    assert await process.wait() == 0


@pytest.mark.process
async def test_an_agent_that_does_not_cancel_does_not_delay_the_end_of_http(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Silent:
        def __init__(self, service: Service) -> None:
            self._service, self.stream = service, service.stream

        async def unary(self, call: Call[Any, Any], /) -> Any:
            if call.operation is ops.CANCEL_TASK:
                asked.set()
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)
            return await self._service.unary(call)

    desk, path = Desk(), tmp_path / "card.json"
    flags = ("--http", "127.0.0.1:0", "--timeout-graceful-shutdown", str(100 * PATIENCE))
    async with (
        asyncio.timeout(PATIENCE),
        serve_agent(
            Agent(desk, name="desk"), [interface("GRPC")], ServeOptions(middleware=(Silent,))
        ) as server,
    ):
        path.write_bytes(dumps(encoder(hub.AgentCard)(server.card)))
        async with (
            running("mcp", str(path), *flags, stderr=tmp_path / "log") as url,
            client(url, "2026-07-28") as mcp,
        ):
            call = asyncio.create_task(mcp.call_tool("desk", {"message": "work"}))
            await desk.working.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asked.wait()
        assert "has not cancelled all tasks" in (tmp_path / "log").read_text("utf-8")


@pytest.mark.process
async def test_an_agent_in_a_file_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(
        "from a2a_bridge import agent\n@agent\nasync def weather(text):\n    '''Tells.'''\n    return f'{text}: 21'\n"
    )
    program = StdioServerParameters(
        command=COMMAND, args=["front", "mcp", str(tmp_path / "weather.py"), "--stdio"]
    )
    async with asyncio.timeout(PATIENCE), Client(program) as mcp:
        assert text_of(await mcp.call_tool("weather", {"message": "Oslo"})) == "Oslo: 21"


@pytest.mark.process
async def test_what_an_agent_prints_is_not_on_stdout(tmp_path: Path) -> None:
    """While its file is imported, in its code, past Python's buffers, in other processes, and at the exit."""
    (tmp_path / "loud.py").write_text(
        "import atexit, os, subprocess\n"
        "from a2a_bridge import agent\n"
        "print('imported')\n"
        "os.write(1, b'written\\n')\n"
        "atexit.register(print, 'at exit')\n"
        "@agent\n"
        "async def loud(text):\n"
        "    print('called')\n"
        "    subprocess.run(['echo', 'a process'], check=True)\n"
        "    return text\n"
    )
    process = await stdio_front(str(tmp_path / "loud.py"))
    assert process.stdin is not None
    assert process.stdout is not None
    params = {"name": "loud", "arguments": {"message": "x"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    async with asyncio.timeout(PATIENCE):
        for one in (INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call):
            process.stdin.write(json.dumps(one).encode() + b"\n")
        lines = [await process.stdout.readline() for _ in range(2)]
        process.stdin.close()  # `communicate` without an input does so from Python 3.11.9 on
        out, err = await process.communicate()
    messages = [json.loads(line) for line in [*lines, *out.splitlines()]]
    assert [one["id"] for one in messages if "id" in one] == [1, 2]
    told = ("imported", "written", "called", "a process", "at exit")
    assert [word for word in told if word not in err.decode().splitlines()] == []
    assert process.returncode == 0


@pytest.mark.process
async def test_an_open_http_stream_of_a_client_does_not_delay_the_end(card_file: str) -> None:
    """A client of 2025-11-25 listens as long as its session lasts."""
    grace = ("--timeout-graceful-shutdown", str(100 * PATIENCE))
    async with create_mcp_http_client() as http, asyncio.timeout(PATIENCE):
        async with running("mcp", card_file, "--http", "127.0.0.1:0", *grace) as url:
            opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            request = http.build_request("GET", f"{url}/mcp", headers={**ACCEPT, **session})
            listening = await http.send(request, stream=True)
            assert listening.status_code == 200
        assert [chunk async for chunk in listening.aiter_bytes()] == []
