"""`a2a-bridge serve` as a process that tests start, hurt and start again on the same store. No tests."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
AGENT = Path(__file__).with_name("agent.py")
#: seconds for running calls after SIGTERM
GRACE = 10.0
#: maximum number of lines of standard error that are kept
_KEPT = 1000


class NotServing(Exception):  # noqa: N818  often the expected result
    """The process ended before it was ready. The text is its standard error."""


@dataclass
class Served:
    """A serving process. said: the last lines of its standard error."""

    process: asyncio.subprocess.Process
    http: str = ""
    grpc: str = ""
    said: list[str] = field(default_factory=list)
    _reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of the serving process, which is the one that was started."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def kill(self) -> None:
        """Kills it at once, without a signal that it could handle."""
        with suppress(ProcessLookupError):
            self.process.kill()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stops it with SIGTERM, and waits for its end. Returns the exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            if self._reading is not None:
                await self._reading
        return code

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.said.append(line.decode(errors="replace").rstrip("\n"))
            del self.said[:-_KEPT]


@dataclass(frozen=True)
class Stage:
    """How the process is started, each time. wrapper: a command that starts it."""

    store: str
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    #: run in the process before it becomes the server
    before: Any = None
    #: seconds that calls and runs have when it is stopped
    grace: float = GRACE

    async def spawn(self) -> Served:
        """The process, which is not ready yet."""
        process = await asyncio.create_subprocess_exec(
            *self.wrapper,
            *(sys.executable, "-m", "a2a_bridge", "serve", str(AGENT)),
            *(
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                "--timeout-graceful-shutdown",
                f"{self.grace:g}",
            ),
            *("--store", self.store, *self.flags),
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
            preexec_fn=self.before,
        )
        served = Served(process)
        served._reading = asyncio.create_task(served.read_errors())
        return served

    async def ready(self, served: Served) -> Served:
        """Waits until the process serves. Raises NotServing when it ends instead."""
        assert served.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await served.process.stdout.readline()).decode()
        if not line:
            code = await served.ended()
            raise NotServing(f"exit code {code}\n" + "\n".join(served.said[-30:]))
        addresses = dict(part.split("=", 1) for part in line.split()[1:])
        served.http, served.grpc = addresses.get("http", ""), addresses.get("grpc", "")
        return served

    async def start(self) -> Served:
        """A process that serves."""
        served = await self.spawn()
        try:
            return await self.ready(served)
        except BaseException:
            served.kill()
            await served.ended()
            raise

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Served]:
        """A process that serves while the context is open, and is killed at the end of it."""
        served = await self.start()
        try:
            yield served
        finally:
            served.kill()
            await served.ended()


async def until(true: Any, seconds: float = PATIENCE, *, every: float = 0.02) -> float:
    """Waits until `true()` (which may be awaitable) holds; returns the time in seconds. Raises TimeoutError."""
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        while True:
            held = true()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return time.monotonic() - began
            await asyncio.sleep(every)
