"""The NATS server that the supervisor of workers starts: real processes, on one PostgreSQL."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.cli.commands import Running, serving
from tests.patience import PATIENCE, until
from tests.stores.conftest import _postgres_template, postgres_url

__all__ = ["_postgres_template", "postgres_url"]

AGENT = '''
import asyncio, os

from a2a_bridge import Run, agent

@agent
async def worker(run: Run):
    """Says which process works, and waits."""
    yield run.artifact(str(os.getpid()))
    await asyncio.Event().wait()
'''


class Connection:
    """One connection, and so one worker."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client, self._url = client, url

    async def call(self, method: str, **parameters: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        response = await self._client.post(self._url, json=request, headers={"A2A-Version": "1.0"})
        return response.json()["result"]

    async def task(self) -> tuple[str, int]:
        """A new task, and the process that works on it."""
        message = {"messageId": os.urandom(8).hex(), "role": "ROLE_USER", "parts": [{"text": "?"}]}
        sent = await self.call("SendMessage", message=message, configuration={"returnImmediately": True})
        task = sent["task"]
        async with asyncio.timeout(PATIENCE):
            while "artifacts" not in task:
                task = await self.call("GetTask", id=task["id"])
                assert task["status"]["state"] != "TASK_STATE_FAILED", task
        return task["id"], int(task["artifacts"][0]["parts"][0]["text"])


@dataclass
class Workers:
    """Two workers with a connection to each, and the server beside them."""

    running: Running
    one: Connection
    other: Connection

    def bus(self) -> psutil.Process | None:
        children = psutil.Process(self.running.process.pid).children(recursive=True)
        return next((one for one in children if "nats-server" in one.name()), None)

    async def cancel_through_the_other(self) -> float:
        """The seconds that it takes."""
        task_id, _ = await self.one.task()
        began = time.monotonic()
        canceled = await self.other.call("CancelTask", id=task_id)
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        return time.monotonic() - began


@pytest.fixture
async def workers(postgres_url: str, tmp_path: Path) -> AsyncIterator[Workers]:
    path = tmp_path / "worker.py"
    path.write_text(AGENT)
    flags = ("--http", "127.0.0.1:0", "--no-grpc", "--workers", "2", "--store", postgres_url)
    async with serving("serve", str(path), *flags) as running, AsyncExitStack() as stack:
        found: dict[int, Connection] = {}
        async with asyncio.timeout(PATIENCE):
            while len(found) < 2:  # the system chooses the worker of a connection
                limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
                client = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE, limits=limits))
                connection = Connection(client, running.http)
                _, pid = await connection.task()
                found.setdefault(pid, connection)
        yield Workers(running, *found.values())


async def test_a_task_is_canceled_through_another_worker(workers: Workers) -> None:
    bus = workers.bus()
    assert bus is not None
    assert {one.laddr.ip for one in bus.net_connections() if one.status == "LISTEN"} == {"127.0.0.1"}
    assert not any("token" in word for word in bus.cmdline())
    # Without NATS, a worker looks for calls once a second.
    assert min([await workers.cancel_through_the_other() for _ in range(5)]) < 0.5


async def test_a_killed_server_is_survived(workers: Workers) -> None:
    killed = workers.bus()
    assert killed is not None
    killed.kill()
    await workers.cancel_through_the_other()
    await until(lambda: (now := workers.bus()) is not None and now.pid != killed.pid)
    await workers.cancel_through_the_other()
    done = await workers.running.ended_by_signal()
    assert done.code == 0
    assert "nats-server has ended; it is started again" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_server_ends_with_its_supervisor(workers: Workers, number: signal.Signals) -> None:
    bus = workers.bus()
    assert bus is not None
    folder = Path(bus.cmdline()[bus.cmdline().index("-c") + 1]).parent
    workers.running.signal(number)
    await workers.running.ended()
    await until(lambda: not bus.is_running() or bus.status() == psutil.STATUS_ZOMBIE)
    assert folder.exists() == (number is signal.SIGKILL)
