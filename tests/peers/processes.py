"""Agents and clients of the official SDKs as processes, started on first use.

Their fixtures are in tests/conftest.py: a process of tests starts each program once, whichever folders use it. A test
has tasks, contexts and gates of its own there, and lists tasks only of a context or through a gateway of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import selectors
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.peers.install import ABSENT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: time limit in seconds for the ready line, also on a busy machine
START = 240.0

JSONRPC, HTTP_JSON, GRPC = "JSONRPC", "HTTP+JSON", "GRPC"


def _environment(generation: str) -> Path:
    return ROOT / ".build" / "peers" / generation


def _python(generation: str) -> str:
    return str(_environment(generation) / "bin" / "python")


def python_of(generation: str, *, same: bool = False) -> str:
    """The Python of an older SDK; the test is skipped where the machine has none. same: it is to load packages of
    this environment, too.
    """
    absent = _environment(generation) / ABSENT
    if absent.exists():
        pytest.skip(absent.read_text("utf-8"))
    python = _python(generation)
    if not Path(python).exists():
        pytest.fail(f"{python} is missing: run `make peers`")
    if same and not list((_environment(generation) / "lib").glob(f"python3.{sys.version_info.minor}")):
        pytest.skip(
            f"the SDK of {generation} runs on another Python than this one, which it has no builds for"
        )
    return python


@dataclass(frozen=True)
class Program:
    """One SDK as an agent or as a client. speaks: the version. bindings: those of the SDK."""

    speaks: str
    bindings: tuple[str, ...]
    command: tuple[str, ...]


ALL = (JSONRPC, HTTP_JSON, GRPC)
_OURS = (sys.executable, str(ROOT / "tests" / "interop" / "sdk_agent.py"))

#: of the older SDKs, as the Makefile has them
GENERATIONS = ("0.2", "0.3")

#: release of a2a-sdk -> its agent; `compat` is the newest one for 0.3
AGENTS = {
    "0.2.16": Program("0.2.5", (JSONRPC, GRPC), (_python("0.2"), str(HERE / "agent_0_2.py"))),
    "0.3.26": Program("0.3", ALL, (_python("0.3"), str(HERE / "agent_0_3.py"))),
    "1.3.0": Program("1.0", ALL, _OURS),
    "1.3.0 compat": Program("0.3", ALL, (*_OURS, "--compat")),
}
CLIENTS = {
    "0.2.16": Program("0.2.5", (JSONRPC, GRPC), (_python("0.2"), str(HERE / "client_0_2.py"))),
    "0.3.26": Program("0.3", ALL, (_python("0.3"), str(HERE / "client_0_3.py"))),
}


@dataclass(frozen=True)
class Agent:
    """A running agent: the addresses of its bindings."""

    release: str
    http: str
    grpc: str
    bindings: tuple[str, ...]

    def url(self, binding: str) -> str:
        return {JSONRPC: self.http + "/", HTTP_JSON: self.http, GRPC: self.grpc}[binding]


class PeerError(Exception):
    """The error of a peer's client: `tree` as in lines.py."""

    def __init__(self, tree: dict[str, Any]) -> None:
        super().__init__(f"{tree['type']}: {tree['message']}")
        self.tree = tree


class PeerClient:
    """A running client program; calls may run side by side, from any event loop."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._last = 0
        self._clients = itertools.count(1)
        self._listeners: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> None:
        """Ends the program, and the thread that reads its output."""
        self._process.stdin.close()
        self._reader.join(10)

    def of(self, binding: str, origin: str) -> AgentClient:
        """A new client of the SDK for one agent, made at its first request. origin: where the agent's card is."""
        with self._lock:
            return AgentClient(self, {"client": next(self._clients), "binding": binding, "origin": origin})

    async def ask(self, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The answers to a request; PeerError in place of the one that is an error."""
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        with self._lock:
            self._last = number = self._last + 1
        self._listeners[number] = lambda answer: loop.call_soon_threadsafe(answers.put_nowait, answer)
        ended = False
        try:
            self._send({"id": number} | request)
            while True:
                async with asyncio.timeout(PATIENCE):
                    answer = await answers.get()
                ended = "event" not in answer
                if "error" in answer:
                    raise PeerError(answer["error"])
                if "end" in answer:
                    return
                yield answer
        finally:
            if not ended:
                self._send({"id": number, "cancel": True})
            del self._listeners[number]

    def _send(self, request: dict[str, Any]) -> None:
        line = json.dumps(request) + "\n"
        with self._lock:
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _read(self) -> None:
        for line in self._process.stdout:
            answer = json.loads(line)
            listener = self._listeners.get(answer["id"])
            if listener is not None:
                listener(answer)


@dataclass(frozen=True)
class AgentClient:
    """One client of the SDK: for one agent, over one binding.

    There is one for each user of an agent, also at an address known before: another agent can have got the
    port of one that has ended, and the client has kept the card of that one.
    """

    program: PeerClient
    address: dict[str, Any]

    async def unary(self, operation: str, params: Any) -> Any:
        async for answer in self.program.ask(self.address | {"operation": operation, "params": params}):
            return answer["result"]
        raise AssertionError("no answer")

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        """The events; PeerError when the stream fails. Closing it early cancels the request."""
        async for answer in self.program.ask(self.address | {"operation": operation, "params": params}):
            yield answer["event"]


@contextmanager
def started(command: tuple[str, ...]) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Runs a program until the block ends; the words of its first line, `ready …`."""
    for generation in GENERATIONS:
        if command[0] == _python(generation):
            python_of(generation)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process, ExitStack() as stop:
        stop.callback(_stop, process)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(START), f"{command} did not start"
        words = dict(word.partition("=")[::2] for word in process.stdout.readline().split())
        assert "ready" in words, command
        yield process, words


def _stop(process: subprocess.Popen[str]) -> None:
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def agents() -> Iterator[Callable[..., Agent]]:
    """`agent("0.3.26", "GRPC")` is a running agent with that binding only; without a binding, with all."""
    running: dict[tuple[str, ...], Agent] = {}
    processes: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:

        def get(release: str, *bindings: str) -> Agent:
            program = AGENTS[release]
            wanted = bindings or program.bindings
            if (release, *wanted) not in running:
                options = [part for binding in wanted for part in ("--binding", binding)]
                process, words = stack.enter_context(started((*program.command, *options)))
                processes.append(process)
                agent = Agent(release, words.get("http", ""), words.get("grpc", ""), wanted)
                running[(release, *wanted)] = agent
            return running[(release, *wanted)]

        yield get
        for process in processes:
            process.stdin.close()  # they end at the same time


def clients() -> Iterator[Callable[[str], PeerClient]]:
    """`client("0.2.16")` is that SDK's client, running."""
    running: dict[str, PeerClient] = {}
    with ExitStack() as stack:

        def get(release: str) -> PeerClient:
            if release not in running:
                process, _ = stack.enter_context(started(CLIENTS[release].command))
                running[release] = PeerClient(process)
                stack.callback(running[release].end)
            return running[release]

        yield get


peer_agents = pytest.fixture(scope="session", name="peer_agents")(agents)
peer_clients = pytest.fixture(scope="session", name="peer_clients")(clients)
