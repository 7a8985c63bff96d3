"""The warning for code that blocks the event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from pathlib import Path

import pytest

from a2a_bridge import connect
from a2a_bridge.app.process import watch_loop
from tests.cli.commands import serving
from tests.patience import PATIENCE


class Seen(logging.Handler):
    """Tells a blocked test that the warning has come."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.first, self.second = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        (self.second if self.first.is_set() else self.first).set()


def library_call(until: threading.Event) -> None:
    """The standard library below the agent's line: `json` calls the hook."""
    json.loads("{}", object_hook=lambda _: until.wait(PATIENCE))


async def test_a_blocking_call_is_reported_with_its_line_and_its_duration() -> None:
    seen = Seen()
    logging.getLogger("a2a_bridge.loop").addHandler(seen)
    try:
        with watch_loop(0.05):
            library_call(seen.first)
            async with asyncio.timeout(PATIENCE):
                while not seen.second.is_set():  # noqa: ASYNC110  it is set in a thread
                    await asyncio.sleep(0.01)
    finally:
        logging.getLogger("a2a_bridge.loop").removeHandler(seen)
    first, second = seen.messages
    assert f"by {__file__}:" in first
    assert "asyncio.to_thread" in first
    assert second.startswith("the event loop was blocked for ")


async def test_a_loop_that_works_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    with watch_loop(0.05):
        for _ in range(30):
            await asyncio.sleep(0.01)
    assert not caplog.records


AGENT = """
from pathlib import Path
from a2a_bridge import agent

@agent
async def slow(text: str) -> str:
    return Path(text).read_text()
"""


async def test_an_agent_that_blocks_its_server(tmp_path: Path) -> None:
    module, fifo = tmp_path / "slow.py", tmp_path / "fifo"
    module.write_text(AGENT)
    os.mkfifo(fifo)
    ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    async with serving("serve", str(module), *ports) as running:
        async with connect(running.http) as peer:
            answer = asyncio.ensure_future(peer.send(str(fifo)))
            assert running.process.stderr is not None
            line = (await asyncio.wait_for(running.process.stderr.readline(), PATIENCE)).decode()
            await asyncio.to_thread(fifo.write_text, "done")
            assert (await answer).text == "done"
        running.signal()
        rest = (await running.ended()).err
    assert f"by {module}:7 in slow; all calls wait" in line
    assert "the event loop was blocked for " in rest
