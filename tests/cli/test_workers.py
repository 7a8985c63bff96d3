"""`--workers`: processes that share addresses, their supervisor, and its signals."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from a2a_bridge import connect
from a2a_bridge.app.peer import Peer
from a2a_bridge.cli import workers
from tests.cli.commands import ANY_PORT, Running, command, ended, serving, spawn
from tests.patience import PATIENCE

AGENT = '''
import asyncio, os
from pathlib import Path

from a2a_bridge import agent

@agent
async def worker(text: str) -> str:
    """Says which process answers. With the path of a FIFO as text: once its writer has closed it."""
    if text.startswith("/"):
        await asyncio.to_thread(Path(text).read_text)
    return str(os.getpid())
'''
#: an agent that runs the command, too
STARTING = '''
import subprocess, sys

from a2a_bridge import agent

@agent
def starting(text: str) -> str:
    """Starts workers with a store that cannot be shared."""
    command = [sys.executable, "-m", "a2a_bridge", "serve", __file__, "--workers", "2"]
    return subprocess.run([*command, "--store", "sqlite:///x.db"], capture_output=True, text=True).stderr
'''
MESSAGE = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "?"}]}
SEND = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
HEADERS = {"A2A-Version": "1.0"}


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "worker.py"
    path.write_text(AGENT)
    return str(path)


@asynccontextmanager
async def two_workers(target: str) -> AsyncIterator[Running]:
    async with serving("serve", target, *ANY_PORT, "--workers", "2") as running:
        yield running


async def asked(client: httpx.AsyncClient, url: str, text: str = "?") -> int:
    """The process that answers a JSON-RPC message."""
    message = {**MESSAGE, "parts": [{"text": text}]}
    response = await client.post(url, json={**SEND, "params": {"message": message}}, headers=HEADERS)
    assert response.status_code == 200, response.text
    return int(response.json()["result"]["message"]["parts"][0]["text"])


async def over_http(url: str, text: str = "?") -> int:
    """The process that answers on a connection of its own."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return await asked(client, url, text)


@asynccontextmanager
async def held(fifo: Path, url: str) -> AsyncIterator[asyncio.Task[int]]:
    """A call that its worker answers when the context closes."""
    os.mkfifo(fifo)
    call = asyncio.create_task(over_http(url, str(fifo)))
    async with asyncio.timeout(PATIENCE):
        with await asyncio.to_thread(fifo.open, "w"):  # until the worker opens it, too
            yield call


async def over_grpc(address: str) -> int:
    async with connect(address) as peer:
        return await answered(peer)


async def answered(peer: Peer) -> int:
    answer = await peer.send("?")
    assert answer.message is not None
    return int(answer.message.parts[0].text)


async def until(condition: Callable[[set[int]], bool], url: str) -> set[int]:
    """The processes that answered, once the condition holds for them."""
    found: set[int] = set()
    async with asyncio.timeout(PATIENCE):
        while not condition(found):
            found.add(await over_http(url))
    return found


async def test_workers_share_both_addresses_and_drain_together(target: str) -> None:
    async with two_workers(target) as running:
        pids = await until(lambda found: len(found) == 2, running.http)
        assert running.process.pid not in pids
        assert await over_grpc(running.grpc) in pids
        address = running.http.removeprefix("http://")
        rejected = await command("serve", target, "--http", address, "--no-grpc", "--workers", "2")
        assert rejected.code == 2
        assert f"{address}: Address already in use" in rejected.err
        running.signal()
        done = await running.ended()
    assert done.code == 0, done.err
    assert done.out == ""  # the ready line was the only one
    assert done.err.count("each worker keeps its own tasks in memory") == 1


async def test_a_killed_worker_is_replaced(target: str) -> None:
    async with two_workers(target) as running:
        pids = await until(lambda found: len(found) == 2, running.http)
        killed = pids.pop()
        os.kill(killed, signal.SIGKILL)
        # A connection that was queued for the killed worker may be reset; all later ones are answered.
        with suppress(httpx.TransportError):
            await over_http(running.http)
        later = await until(lambda found: len(found - {killed}) == 2, running.http)
        assert pids < later
        running.signal(signal.SIGINT)
        done = await running.ended()
    assert done.code == 0
    assert f"(pid {killed}) ended with exit code -9, SIGKILL" in done.err


async def test_a_worker_that_is_killed_while_it_starts_is_told_with_the_signal(tmp_path: Path) -> None:
    fifo, target = tmp_path / "fifo", tmp_path / "slow.py"
    os.mkfifo(fifo)
    target.write_text(f"open({str(fifo)!r}).read()\n")
    process = await spawn("serve", str(target), *ANY_PORT, "--workers", "2")
    async with asyncio.timeout(PATIENCE):
        with await asyncio.to_thread(fifo.open, "w"):  # until a worker imports the agent
            (worker,) = psutil.Process(process.pid).children()
            worker.kill()
            done = await ended(process)
    assert (done.code, done.out) == (128 + signal.SIGKILL, "")
    assert "no worker can be started: exit code -9, SIGKILL" in done.err


async def test_a_worker_is_replaced_although_its_process_could_not_be_started_once(
    target: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "a2a_bridge", "serve", target, *ANY_PORT, "--workers", "2"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "A2A_BRIDGE_STORE": "memory://", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            running = Running(process, (await process.stdout.readline()).decode())
            pids = await until(lambda found: len(found) == 2, running.http)
            python.unlink()
            killed = pids.pop()
            os.kill(killed, signal.SIGKILL)
            while b"does not start" not in await process.stderr.readline():
                pass
            python.symlink_to(sys.executable)
            # Connections to the listener that the supervisor has replaced may be reset.
            found: set[int] = set()
            while len(found - {killed}) < 2:
                with suppress(httpx.TransportError):
                    found.add(await over_http(running.http))
            process.terminate()
            assert (await process.communicate())[0] == b""
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_command_that_the_agent_starts_is_no_worker(tmp_path: Path) -> None:
    target = tmp_path / "starting.py"
    target.write_text(STARTING)
    async with two_workers(str(target)) as running, httpx.AsyncClient(timeout=PATIENCE) as client:
        response = await client.post(running.http, json=SEND, headers=HEADERS)
        (part,) = response.json()["result"]["message"]["parts"]
    assert "a SQLite file belongs to one process" in " ".join(part["text"].split())


async def test_sighup_replaces_all_workers_without_a_failed_http_request(target: str) -> None:
    async with two_workers(target) as running, httpx.AsyncClient(timeout=PATIENCE) as kept:
        before = await until(lambda found: len(found) == 2, running.http)
        running.signal(signal.SIGHUP)
        after: set[int] = set()
        async with asyncio.timeout(PATIENCE):
            while len(after) < 2 or after & before:
                now = {await asked(kept, running.http), await over_http(running.http)}
                # Answers of old workers end with the hand-over; only a run of new ones counts.
                after = set() if now & before else after | now
        assert await over_grpc(running.grpc) not in before


async def test_connections_after_sigterm_are_answered_or_rejected_while_calls_run(
    target: str, tmp_path: Path
) -> None:
    async with two_workers(target) as running:
        async with held(tmp_path / "fifo", running.http) as call:
            running.signal()
            # The supervisor has the sockets of the workers, too: a connection to one that it keeps open after
            # its worker has closed it would get no answer.
            with pytest.raises(httpx.ConnectError):
                await until(lambda _: False, running.http)
        assert await call > 0
        done = await running.ended()
    assert done.code == 0, done.err


async def test_a_replaced_worker_finishes_its_calls_after_sigterm(target: str, tmp_path: Path) -> None:
    async with two_workers(target) as running:
        before = await until(lambda found: len(found) == 2, running.http)
        async with held(tmp_path / "fifo", running.http) as call:
            running.signal(signal.SIGHUP)
            await until(lambda found: len(found - before) == 2, running.http)
            running.signal()
            with pytest.raises(httpx.ConnectError):
                await until(lambda _: False, running.http)
        assert await call in before
        done = await running.ended()
    assert done.code == 0, done.err


async def test_a_worker_gets_one_signal_if_its_successor_is_ready_after_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Process:
        pid, returncode = 1, None

        def __init__(self) -> None:
            self.signals: list[int] = []

        def send_signal(self, number: int) -> None:
            self.signals.append(number)

        async def wait(self) -> int:
            return 0

    old, new, (channel, other) = Process(), Process(), socket.socketpair()
    supervisor, slot = workers._Supervisor(1, "", "", 1.0), workers._Slot(1, None)
    slot.current = workers._Process(old, channel)
    supervisor._alive.add(slot.current)

    async def spawn(_: object) -> workers._Process:
        supervisor._on_stop(signal.SIGTERM)
        return workers._Process(new, other)

    monkeypatch.setattr(supervisor, "_spawn", spawn)
    with channel, other:
        await supervisor._start(slot)
        await asyncio.gather(*supervisor._tasks)
    assert old.signals == [signal.SIGTERM]


async def test_workers_end_with_their_supervisor(target: str) -> None:
    async with two_workers(target) as running:
        await until(lambda found: len(found) == 2, running.http)
        running.signal(signal.SIGKILL)
        await running.ended()  # the pipes of the command are closed by the last process that has them
        with pytest.raises(httpx.ConnectError):
            await over_http(running.http)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--store", "sqlite:///tasks.db"), "a SQLite file belongs to one process"),
        (("--usage-file", "usage.json"), "each of several --workers would count its own calls"),
    ],
)
async def test_stores_for_one_process_are_rejected(flags: tuple[str, ...], said: str, target: str) -> None:
    done = await command("serve", target, *ANY_PORT, "--workers", "2", *flags)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())


async def test_a_worker_that_cannot_start_ends_the_command_with_its_code(tmp_path: Path) -> None:
    target = tmp_path / "broken.py"
    target.write_text("raise RuntimeError('broken')\n")
    alone = await command("serve", str(target), *ANY_PORT)
    several = await command("serve", str(target), *ANY_PORT, "--workers", "3")
    assert several.code == alone.code != 0
    assert several.err.count("broken.py") == alone.err.count("broken.py")


async def test_a_signal_during_the_start_ends_the_command_with_its_code(tmp_path: Path) -> None:
    fifo, target = tmp_path / "fifo", tmp_path / "slow.py"
    os.mkfifo(fifo)
    target.write_text(f"open({str(fifo)!r}).read()\n")
    process = await spawn("serve", str(target), *ANY_PORT, "--workers", "2")
    async with asyncio.timeout(PATIENCE):
        with await asyncio.to_thread(fifo.open, "w"):  # until a worker imports the agent
            process.terminate()
            done = await ended(process)
    assert (done.code, done.out) == (128 + signal.SIGTERM, "")


async def test_a_gateway_has_workers_too(target: str) -> None:
    async with (
        serving("serve", target, *ANY_PORT) as agent,
        serving("gateway", agent.http, *ANY_PORT, "--workers", "2") as running,
    ):
        assert await over_http(running.http) == agent.process.pid
        assert await over_grpc(running.grpc) == agent.process.pid
