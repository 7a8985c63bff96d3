"""What a serving command is as a process: its event loop, and how it stops."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import ANY_PORT, command, serving
from tests.patience import PATIENCE

LOOPING = '''
import asyncio

from a2a_bridge import agent

@agent
async def looping(text: str) -> str:
    """Says which event loop it runs on."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "looping.py"
    path.write_text(LOOPING)
    return str(path)


def without_uvloop(folder: Path) -> dict[str, str]:
    """An environment in which uvloop is not installed."""
    (folder / "uvloop.py").write_text("raise ModuleNotFoundError('No module', name='uvloop')\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("flags", "installed", "name"),
    [
        ((), True, "uvloop"),
        (("--loop", "uvloop"), True, "uvloop"),
        (("--loop", "asyncio"), True, "asyncio"),
        ((), False, "asyncio"),
    ],
)
async def test_the_event_loop(
    flags: tuple[str, ...], installed: bool, name: str, target: str, tmp_path: Path
) -> None:
    env = {} if installed else without_uvloop(tmp_path)
    async with serving("serve", target, *ANY_PORT, "--log-level", "debug", *flags, env=env) as running:
        for address in (running.http, running.grpc):
            assert (await command("call", address, "?")).out == f"{name}\n"
        running.signal()
        done = await running.ended()
    assert done.code == 0, done.err
    assert f"DEBUG a2a_bridge.process: event loop: {name}\n" in done.err


async def test_a_gateway_has_the_flag_too(target: str) -> None:
    async with (
        serving("serve", target, *ANY_PORT) as agent,
        serving("gateway", agent.http, *ANY_PORT, "--loop", "asyncio", "--log-level", "debug") as running,
    ):
        running.signal()
        assert "event loop: asyncio" in (await running.ended()).err


async def test_a_loop_that_is_not_installed_is_told_with_the_command_that_does(
    target: str, tmp_path: Path
) -> None:
    done = await command("serve", target, *ANY_PORT, "--loop", "uvloop", env=without_uvloop(tmp_path))
    assert done.code == 2
    assert 'pip install "a2a-transport-bridge[uvloop]"' in done.err


async def test_while_it_drains_it_says_so_and_still_answers(target: str) -> None:
    env = {"A2A_BRIDGE_DRAIN_WINDOW": "600", "A2A_BRIDGE_TIMEOUT_GRACEFUL_SHUTDOWN": "600"}
    async with serving("serve", target, *ANY_PORT, env=env) as running:
        async with httpx.AsyncClient(base_url=running.http, verify=False) as http:  # noqa: S501
            assert (await http.get("/readyz")).status_code == 200
            running.signal()
            async with asyncio.timeout(PATIENCE):
                while (await http.get("/readyz")).status_code == 200:
                    pass
            answer = await http.get("/.well-known/agent-card.json")
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert (await command("call", running.grpc, "?")).code == 0
        running.signal()
        done = await running.ended()
    assert done.code == 128 + 15
    assert not re.search("Traceback", done.err)
