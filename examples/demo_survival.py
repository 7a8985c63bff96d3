"""An agent that is killed while its callers read its streams. Every number has to arrive once, and in order.

The agent (counting_agent.py) keeps its tasks in a file, as `a2a-bridge serve` does by itself. It is killed
with SIGKILL, started again at the same addresses, and resumes its tasks; its callers resume their streams.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, NamedTuple

from demo_waits import ended, together, within

from a2a_bridge import connect
from a2a_bridge.ext import request_of

COUNT = 30
#: seconds for the streams of all callers
SECONDS = 180.0
#: the number of events that a caller has seen when the agent is killed
ENOUGH = 12
AGENT = str(Path(__file__).parent / "counting_agent.py")

Start = Callable[..., AbstractAsyncContextManager[asyncio.subprocess.Process]]


class Story(NamedTuple):
    """The events of one caller. before: their number until the agent was killed. ids: of all events, in
    their order.
    """

    binding: str
    before: int
    ids: list[str]
    text: str

    @property
    def whole(self) -> bool:
        """Whether no event is missing or repeated."""
        numbers = [str(number) for number in range(1, COUNT + 1)]
        return (
            self.ids == [str(place) for place in range(1, len(self.ids) + 1)] and self.text.split() == numbers
        )


class Callers:
    """Callers that read, one over each transport, and their events so far."""

    def __init__(self, url: str, bindings: tuple[str, ...]) -> None:
        self._url = url
        self._bindings = bindings
        self._seen = dict.fromkeys(bindings, 0)
        self.deep_enough = asyncio.Event()
        self.at_the_kill: dict[str, int] = {}

    async def read(self) -> list[Story]:
        return await together(map(self._one, self._bindings))

    def killed(self) -> None:
        self.at_the_kill = dict(self._seen)

    async def _one(self, binding: str) -> Story:
        ids: list[str] = []
        text = ""
        async with (
            connect(self._url, binding=binding) as peer,
            aclosing(peer.events(request_of([str(COUNT)]), follow=True)) as events,
        ):
            async for event in events:
                ids.append(event.id)
                text += "".join(part.text for part in event.message.artifact_update.artifact.parts)
                self._seen[binding] += 1
                if min(self._seen.values()) >= ENOUGH:
                    self.deep_enough.set()
        return Story(binding, self.at_the_kill.get(binding, 0), ids, text)


async def kill_in_mid_stream(
    start: Start, ready: Callable[..., Any], folder: str, bindings: tuple[str, ...]
) -> list[Story]:
    """Runs the scenario. start: runs a program; ready: waits for its `ready` line."""
    # The second process has to be reached where the first one was.
    http, grpc = free_port(), free_port()
    command = (
        *(sys.executable, "-m", "a2a_bridge", "serve", AGENT),
        *("--http", f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{grpc}"),
        *("--store", f"sqlite:///{folder}/tasks.db"),
    )
    async with start(*command) as first:
        await ready("agent", first)
        callers = Callers(f"http://127.0.0.1:{http}", bindings)
        reading = asyncio.create_task(callers.read())
        try:
            async with within(SECONDS, "the reading before the kill"):
                await callers.deep_enough.wait()
            callers.killed()
            first.send_signal(signal.SIGKILL)
            await first.wait()
            async with start(*command) as second:
                await ready("agent, started again,", second)
                async with within(SECONDS, "the reading after the kill"):
                    return await reading
        finally:
            await ended(reading)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
