"""The command `a2a-bridge` as a process, and agents for it to call. No tests."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from a2a_bridge.app.runtime import Server, serve_service
from a2a_bridge.cards import interface
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli import prefork
from tests.patience import PATIENCE
from tests.shared_library import need_shared_library

Process = asyncio.subprocess.Process | prefork.Process

#: for tests that serve from a folder of their own: tasks are kept in files there, as for users
FILES = {"A2A_BRIDGE_STORE": ""}
ANY_PORT = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document. Fails when it is more or less than that."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """The content of the blocks `Text:` of a client command."""
        found = re.findall(r"^Text:\n(.*?)\n(?:\n|$)", self.out, re.MULTILINE | re.DOTALL)
        return "\n".join(found)

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a client command; of several with one label the last one."""
        return dict(re.findall(r"^([A-Z][A-Za-z ]*): (.*)$", self.out, re.MULTILINE))

    @property
    def lines(self) -> list[Any]:
        """Standard output as one JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


async def spawn(*arguments: str, env: Mapping[str, str] | None = None) -> Process:
    """Starts the command. Tasks are in memory, unless a flag or `env` sets another store: see FILES."""
    own = {"A2A_BRIDGE_STORE": "memory://", "XDG_CONFIG_HOME": os.devnull}
    whole = {**own, **os.environ, **(env or {})}
    if not any(name.startswith("PYTHON") for name in env or ()):
        return await prefork.spawn(arguments, whole)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "a2a_bridge"),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=whole,
    )


async def ended(process: Process) -> Done:
    """Waits until a process has ended; kills it when it does not. A test of Envoy is skipped where Envoy cannot run."""
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    done = Done(process.returncode, out.decode(), err.decode())
    if "error: --server envoy: no shared library" in done.err:
        need_shared_library()
    return done


async def command(*arguments: str, env: Mapping[str, str] | None = None) -> Done:
    return await ended(await spawn(*arguments, env=env))


@dataclass
class Running:
    """A serving command that is ready. addresses: by name, from its ready line."""

    process: Process
    ready: str
    done: Done | None = None

    @property
    def addresses(self) -> dict[str, str]:
        return dict(part.split("=", 1) for part in self.ready.split()[1:])

    @property
    def http(self) -> str:
        return self.addresses["http"]

    @property
    def grpc(self) -> str:
        return self.addresses["grpc"]

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def ended(self) -> Done:
        if self.done is None:
            self.done = await ended(self.process)
        return self.done

    async def ended_by_signal(self) -> Done:
        self.signal()
        return await self.ended()


async def logged(running: Running, text: str) -> str:
    """The next line of the log with a text."""
    assert running.process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while line := (await running.process.stderr.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"the log ends without {text!r}")


@asynccontextmanager
async def serving(*arguments: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """A serving command, from its ready line on; it is stopped at the end unless the test has done so."""
    process = await spawn(*arguments, env=env)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        if not line:
            raise AssertionError((await ended(process)).err)
        running = Running(process, line.decode().rstrip("\n"))
        yield running
        if process.returncode is None and running.done is None:
            running.signal()
            await running.ended()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def card(**members: Any) -> hub.AgentCard:
    members.setdefault("capabilities", hub.AgentCapabilities(streaming=True))
    return hub.AgentCard(
        name="Probe",
        description="Does what a test says",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        **members,
    )


@asynccontextmanager
async def agent(
    service: Service, *bindings: str, shown: hub.AgentCard | None = None
) -> AsyncIterator[Server]:
    """An agent in this process that a command can reach: all bindings, or those named."""
    interfaces = [interface(binding) for binding in bindings or ("JSONRPC", "HTTP+JSON", "GRPC")]
    async with serve_service(service, shown or card(), interfaces) as server:
        yield server
