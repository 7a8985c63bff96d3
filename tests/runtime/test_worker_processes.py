"""An agent in several worker processes of one ASGI server: noticed, and the fix is named."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from a2a_bridge import agent, asgi
from a2a_bridge.ext import ServeOptions, open_store
from tests.docs.pages import ROOT
from tests.patience import PATIENCE

APP = """
from a2a_bridge import agent, asgi
from a2a_bridge.ext import ServeOptions

@agent(task=True)
async def weather(text):
    return text

app = asgi(weather, options=ServeOptions(store=STORE))
"""
SHARED = "several worker processes of this server serve the agent 'weather'"
LOCKED = "another process works with tasks.db; try again when that has ended"
FIX = "postgresql://"
#: servers by name: their arguments before the number of workers, and what they say when a worker serves
SERVERS = {
    "uvicorn": (["uvicorn", "app:app", "--port", "0"], "Application startup complete"),
    "granian": (["granian", "app:app", "--interface", "asgi", "--port", "0"], "Started worker"),
}


@asynccontextmanager
async def lines(folder: Path, server: str, workers: int, store: str) -> AsyncIterator[AsyncIterator[str]]:
    """The output of a server that runs while the context is open."""
    (folder / "app.py").write_text(APP.replace("STORE", repr(store)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *SERVERS[server][0],
        "--workers",
        str(workers),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'transports'}{os.pathsep}{folder}",
            "TMPDIR": str(folder),  # for the locks of addresses
        },
        start_new_session=True,
    )
    assert process.stdout is not None

    async def read() -> AsyncIterator[str]:
        async for line in process.stdout:  # type: ignore[union-attr]
            yield line.decode()

    try:
        async with asyncio.timeout(PATIENCE):
            yield read()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def until(found: AsyncIterator[str], text: str) -> str:
    """All output up to a line with a text."""
    seen = ""
    async for line in found:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


@pytest.mark.parametrize("server", SERVERS)
async def test_workers_with_tasks_of_their_own_are_noticed(server: str, tmp_path: Path) -> None:
    async with lines(tmp_path, server, 2, "memory://") as found:
        assert FIX in await until(found, SHARED)


@pytest.mark.parametrize("server", SERVERS)
async def test_one_worker_is_not_warned(server: str, tmp_path: Path) -> None:
    async with lines(tmp_path, server, 1, "memory://") as found:
        assert SHARED not in await until(found, SERVERS[server][1])


@pytest.mark.parametrize("server", SERVERS)
async def test_a_second_worker_on_one_sqlite_file_is_rejected(server: str, tmp_path: Path) -> None:
    async with lines(tmp_path, server, 2, "sqlite:///tasks.db") as found:
        seen = await until(found, f"StoreOpenError: {LOCKED}")
        assert FIX in seen.splitlines()[-1]


async def test_a_mounted_application_without_its_store_rejects_calls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no lifespan, so the start of the server cannot fail."""
    monkeypatch.chdir(tmp_path)

    @agent
    async def echo(text: str) -> str:
        return text

    store = "sqlite:///tasks.db"
    app = FastAPI()
    mounted = asgi(echo, options=ServeOptions(store=store))
    app.mount("/agent", mounted)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://test") as http:
        async with open_store(store):
            for _ in range(2):
                rejected = await http.post("/agent/", json=body, headers={"A2A-Version": "1.0"})
                assert (rejected.status_code, rejected.json()["error"]["status"]) == (503, "UNAVAILABLE")
        assert caplog.text.count(f"the application cannot start: {LOCKED}") == 1
        answered = await http.post("/agent/", json=body, headers={"A2A-Version": "1.0"})
        assert answered.json()["result"]["totalSize"] == 0
    await mounted.drain(0)
