"""The commands on a system that lacks what Linux has: docs/reference/platforms.md."""

import asyncio
import sys
from pathlib import Path

import pytest

from a2a_bridge import Agent, connect
from a2a_bridge.hosting.programs import Program, ProgramError
from tests.cli.commands import ANY_PORT, Done, Running, ended
from tests.patience import PATIENCE

pytestmark = pytest.mark.process

#: takes away what Windows has not, before anything of ours is loaded
WITHOUT = """
import asyncio, os, runpy, signal, socket, sys

def lacking(self, *_):
    raise NotImplementedError

for module in ("fcntl", "resource", "pwd", "grp", "termios", "uvloop"):
    sys.modules[module] = None
for place, names in (
    (signal, ("SIGHUP", "SIGKILL", "pidfd_send_signal")),
    (socket, ("SO_REUSEPORT",)),
    (os, ("getuid", "geteuid", "killpg", "fork", "pread")),
):
    for name in names:
        delattr(place, name)
loop = asyncio.SelectorEventLoop
loop.add_signal_handler = loop.remove_signal_handler = lacking
sys.argv[0] = "a2a-bridge"
runpy.run_module("a2a_bridge", run_name="__main__")
"""

AGENT = """
from a2a_bridge import agent

@agent
async def echo(text: str) -> str:
    return text
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "echo_agent.py"
    path.write_text(AGENT)
    return path


async def start(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WITHOUT, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(*words: str) -> Done:
    return await ended(await start(*words))


async def test_an_agent_is_served_with_a_configuration_and_a_store(target: Path, tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(f'store = "sqlite:///{tmp_path}/tasks.db"\nlog_level = "info"\n')
    process = await start("serve", str(target), *ANY_PORT, "--config", str(file), "--reload")
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        assert line, (await ended(process)).err
        running = Running(process, line.decode().rstrip("\n"))
        for address in (running.http, running.grpc):
            async with connect(address) as peer:
                assert (await peer.send("hello")).text == "hello"
        done = await running.ended_by_signal()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert done.code == 0, done.err
    assert "stopped, because of SIGTERM" in done.err
    assert "Traceback" not in done.err


async def test_what_the_system_lacks_is_named(target: Path) -> None:
    for words, text in (
        (("--workers", "2", "--store", "memory://"), "--workers needs SO_REUSEPORT"),
        (("--reload",), "--reload needs SO_REUSEPORT"),
        (("--loop", "uvloop"), "uvloop"),
    ):
        done = await command("serve", str(target), *ANY_PORT, *words)
        assert done.code == 2, (words, done)
        assert text in done.err
        assert "Traceback" not in done.err


def test_programs_are_for_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ProgramError, match="Linux and macOS"):
        Agent(Program("cat"))
