"""Factories of agents under `serve`: workers, reloaded code, several agents, fronts, and a start that fails."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from a2a_bridge import connect
from a2a_bridge.ext import DialOptions
from tests.cli.commands import ANY_PORT, Running, command, logged, serving, spawn
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.process

AGENT = '''
import asyncio
import os
from pathlib import Path

from a2a_bridge import agent

LOG = Path(__file__).with_name("log")

def note(text):
    with LOG.open("a") as log:
        log.write(f"{os.getpid()} {text}\\n")

async def make():
    asyncio.get_running_loop()
    note("open")

    @agent(name="desk")
    async def desk(text: str) -> str:
        """Answers."""
        return f"WORD {text}"

    yield desk
    note("closed")

async def fails():
    raise ValueError("no database")

async def hangs():
    note("begun")
    await asyncio.Event().wait()
'''


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "made.py"
    change(path, "one")
    return path


def change(target: Path, word: str, at_end: str = "yield desk") -> None:
    """Changes what the agent says, and what the factory does with it."""
    target.write_text(AGENT.replace("WORD", word).replace("yield desk", at_end))


def log(target: Path) -> list[str]:
    """What was opened and closed, without the ids of processes."""
    return [line.partition(" ")[2] for line in target.with_name("log").read_text().splitlines()]


async def answer(address: str) -> str:
    async with connect(address, options=DialOptions(connect_timeout=PATIENCE, timeout=PATIENCE)) as peer:
        return (await peer.send("?")).text


@asynccontextmanager
async def served(target: Path, *flags: str) -> AsyncIterator[Running]:
    async with serving("serve", f"{target}:make", *ANY_PORT, *flags) as running:
        yield running


async def test_each_worker_opens_its_own_and_closes_it(target: Path) -> None:
    async with served(target, "--workers", "2") as running:
        assert await answer(running.http) == "one ?"
        assert log(target) == ["open", "open"]
    lines = target.with_name("log").read_text().splitlines()
    assert len({line.partition(" ")[0] for line in lines}) == 2
    assert log(target) == ["open", "open", "closed", "closed"]


async def test_a_factory_that_fails_leaves_the_process_before_it_at_work(target: Path) -> None:
    store = f"sqlite:///{target.with_name('t.db')}"
    async with served(target, "--reload", "--store", store, "--log-level", "info") as running:
        change(target, "broken", "raise ValueError('no')")
        await logged(running, "has no successor")
        assert await answer(running.http) == "one ?"
        change(target, "two")

        async def is_new() -> bool:
            return await answer(running.http) == "two ?"

        await until(is_new)
    # The first, the one that failed, and the last, which opens before the first one has drained.
    assert log(target) == ["open", "open", "open", "closed", "closed"]


async def test_the_agents_of_a_file_may_be_those_of_factories(target: Path) -> None:
    file = target.with_name("agents.toml")
    file.write_text(f'[agents.one]\nagent = "{target}:make"\n[agents.two]\nagent = "{target}:make"\n')
    async with serving("serve", "--config", str(file), *ANY_PORT) as running:
        assert await answer(f"{running.http}/agents/one") == "one ?"
    assert log(target) == ["open", "open", "closed", "closed"]
    file.write_text(f'[agents.one]\nagent = "{target}:make"\n[agents.two]\nagent = "{target}:fails"\n')
    done = await command("serve", "--config", str(file), *ANY_PORT)
    assert done.code == 2
    assert f"error: {target}:fails failed, at the line shown above: ValueError: no database" in done.err
    assert 'raise ValueError("no database")' in done.err
    assert "a2a_bridge" not in done.err
    assert log(target)[4:] == ["open", "closed"]


async def test_commands_and_fronts_take_a_factory(target: Path) -> None:
    done = await command("send", "-a", f"{target}:make", "?")
    assert done.text == "one ?"
    failed = await command("send", "-a", f"{target}:fails", "?")
    assert failed.code == 2
    assert f"error: {target}:fails failed" in failed.err
    async with serving("front", "openai", f"{target}:make", "--http", "127.0.0.1:0"):
        assert log(target)[2:] == ["open"]
    assert log(target) == ["open", "closed"] * 2


async def test_a_signal_ends_a_start_that_waits(target: Path) -> None:
    process = await spawn("serve", f"{target}:hangs", *ANY_PORT)

    async def has_begun() -> bool:
        return target.with_name("log").exists()

    await until(has_begun)
    os.kill(process.pid, signal.SIGTERM)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out, err) == (0, b"", b"")
