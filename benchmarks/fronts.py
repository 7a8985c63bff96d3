"""Both fronts beside servers of others that do the same work, an echo: FastMCP, and the proxy of litellm.

CPU of a server for one call, one call after the other on one connection, in turns in one run. The servers of
others are in environments of their own, which `make bench` makes.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from benchmarks import agent
from benchmarks.compiled import BUILT
from benchmarks.hosts import ANY_PORT, MODULE
from benchmarks.measure import Plan
from benchmarks.processes import ROOT, BenchmarkError, Cores, Server, cpu_seconds, free_port, on_core

SERVERS = ROOT / "benchmarks" / "servers"
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Front:
    """A row. front: the subcommand of `front`. peer: the folder of the other server's environment. command:
    the other server, with {python}, {folder}, {programs} and {port}. goal: the target for our CPU over the
    other's.
    """

    title: str
    front: str
    peer: str
    command: str
    prepare: Callable[[HTTPConnection], Callable[[], str]]
    goal: float

    def start(self, core: int | None) -> Server:
        """Ours."""
        words = ("front", self.front, MODULE, "--http", ANY_PORT)
        return Server("ours", core, command=(sys.executable, "-m", "a2a_bridge", *words))

    def start_peer(self, core: int | None) -> Server:
        """The other server."""
        port, folder = free_port(), BUILT / self.peer
        python = folder / "bin" / "python"
        given = {"python": python, "folder": folder / "bin", "programs": SERVERS, "port": port}
        command = [word.format(**given) for word in self.command.split()]
        return Server(self.peer, core, command=command, words={"http": f"127.0.0.1:{port}"})


def _post(client: HTTPConnection, path: str, body: Any, headers: dict[str, str]) -> tuple[str, str]:
    client.request("POST", path, json.dumps(body), headers)
    answer = client.getresponse()
    text = answer.read().decode()
    if answer.status >= 300:
        raise BenchmarkError(f"{path}: {answer.status} {text[:200]}")
    return text, answer.getheader("mcp-session-id", "")


def _calling(client: HTTPConnection) -> Callable[[], str]:
    """Calls of the only tool beside `task_status`, in one session."""

    def frame(method: str, params: Any, number: int | None = 1) -> dict[str, Any]:
        known = {} if number is None else {"id": number}
        return {"jsonrpc": "2.0", "method": method, "params": params, **known}

    _, session = _post(client, "/mcp", frame("initialize", _INITIALIZE), _HEADERS)
    headers = _HEADERS | ({"Mcp-Session-Id": session} if session else {})
    _post(client, "/mcp", frame("notifications/initialized", {}, None), headers)
    listed, _ = _post(client, "/mcp", frame("tools/list", {}), headers)
    tool = json.loads(listed.rpartition("data: ")[2])["result"]["tools"][0]["name"]
    call = frame("tools/call", {"name": tool, "arguments": {"message": agent.ECHO}}, 2)
    return lambda: _post(client, "/mcp", call, headers)[0]


def _chatting(client: HTTPConnection) -> Callable[[], str]:
    body = {"model": "Measured", "messages": [{"role": "user", "content": agent.ECHO}]}
    return lambda: _post(client, "/v1/chat/completions", body, _HEADERS)[0]


FRONTS = (
    Front(
        "fronts: MCP call, beside FastMCP",
        "mcp",
        "fastmcp",
        "{python} {programs}/fastmcp_echo.py {port}",
        _calling,
        1.0,
    ),
    Front(
        "fronts: chat completion, beside litellm's proxy",
        "openai",
        "litellm",
        "{folder}/litellm --config {programs}/litellm.yaml --host 127.0.0.1 --port {port}",
        _chatting,
        1.0,
    ),
)


def front_row(front: Front, plan: Plan, cores: Cores, on_step: Callable[[str], None]) -> dict[str, Any]:
    """The row of a front. Raises BenchmarkError."""
    if not (BUILT / front.peer / "bin" / "python").exists():
        return {"suite": "cpu", "title": front.title, "skipped": f"{front.peer} is not installed: make bench"}
    found: dict[str, list[float]] = {"ours": [], front.peer: []}
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_core(cores.load))
        servers = {
            "ours": stack.enter_context(front.start(cores.server)),
            front.peer: stack.enter_context(front.start_peer(cores.server)),
        }
        calls = {name: stack.enter_context(_ready(front, server)) for name, server in servers.items()}
        for call in calls.values():
            _cpu_of(call, None, plan.warm_up)
        for number in range(plan.rounds):
            for name in list(found)[:: 1 if number % 2 else -1]:
                on_step(f"{front.title}: {name}, round {number + 1} of {plan.rounds}")
                found[name].append(_cpu_of(calls[name], servers[name].pid, plan.seconds))
    ours, peer = statistics.median(found["ours"]), statistics.median(found[front.peer])
    return {
        "suite": "cpu",
        "title": front.title,
        "unit": "µs of CPU",
        "ours": round(ours, 1),
        "sdk": round(peer, 1),
        "ratio": round(ours / peer, 2),
        "target": front.goal,
        "reached": ours / peer <= front.goal,
        "rounds": {name: [round(value, 1) for value in rounds] for name, rounds in found.items()},
    }


@contextlib.contextmanager
def _ready(front: Front, server: Server) -> Iterator[Callable[[], str]]:
    """A call of a server that answers right. litellm's proxy opens its port long before."""
    address = server.address("http")
    end = time.monotonic() + 60
    while True:
        client = HTTPConnection(address, timeout=30)
        try:
            call = front.prepare(client)
            _check(call())
            break
        except (OSError, BenchmarkError):
            client.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
    try:
        yield call
    finally:
        client.close()


def _check(text: str) -> None:
    if agent.ECHO not in text:
        raise BenchmarkError(f"wrong answer: {text[:200]}")


def _cpu_of(call: Callable[[], str], pid: int | None, seconds: float) -> float:
    """Microseconds of CPU of a server for one call."""
    before = 0.0 if pid is None else cpu_seconds(pid)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        call()
        count += 1
    return 0.0 if pid is None else (cpu_seconds(pid) - before) / count * 1e6
