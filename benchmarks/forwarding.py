"""The gateway from JSON-RPC 0.3 to JSON-RPC 1.0: its CPU for a call over that of a bare `ClientSession.post`
of the same message in the same run, and the instructions of a call and of an event of a stream.

Instructions are counted by callgrind of Valgrind, on asyncio and in user mode: a count is the same beside any
other load.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import agent
from benchmarks.hosts import HOSTS, counted_gateway
from benchmarks.measure import Plan, prepare
from benchmarks.observed import cpu_of
from benchmarks.probe import http_answers
from benchmarks.processes import BenchmarkError, Child, Cores, Server, cpu_seconds
from benchmarks.work import LEGACY_SEND, LEGACY_STREAM, Work, is_legacy_message, is_legacy_stream

TITLE = "gateway 0.3 JSON-RPC to 1.0 JSON-RPC"
MESSAGE = Work(TITLE, "JSONRPC", LEGACY_SEND, agent.ECHO, None, is_legacy_message, legacy=True)
STREAM = Work(
    TITLE, "JSONRPC", LEGACY_STREAM, agent.STREAM, None, is_legacy_stream, agent.EVENTS, legacy=True
)
#: host of ours → the loop of the bare client
LOOPS = {"builtin": "asyncio", "uvloop": "uvloop"}
CALLERS = 8


@dataclass(frozen=True, slots=True)
class Counted:
    """A row of instructions: how often the work is done before counting and while counting."""

    unit: str
    work: Work
    warm_up: int
    counted: int
    goal: int


COUNTED = (
    Counted("instructions of a call", MESSAGE, 40, 60, 500_000),
    Counted("instructions of an event", STREAM, 4, 4, 106_000),
)


def title(what: str) -> str:
    """The title of a row. what: a host of ours, or a unit of `COUNTED`."""
    return f"{TITLE}: {what}"


def post_row(host: str, plan: Plan, cores: Cores, on_step: Callable[[str], None]) -> dict[str, Any]:
    """The CPU of a call through a host of ours over that of a bare post. Raises BenchmarkError."""
    start = next(one for one in HOSTS if one.name == host).start
    loop = LOOPS[host]
    found: dict[str, list[float]] = {"ours": [], "post": []}
    with contextlib.ExitStack() as stack:
        upstream = _upstream(stack, cores)
        server = stack.enter_context(start(cores.server, upstream, legacy=True))
        arguments = [f"{upstream}/", str(CALLERS), loop]
        poster = stack.enter_context(Child("benchmarks.loads.post", arguments, cores.server))
        side = prepare(MESSAGE, host, server)
        for number in range(plan.rounds + 1):
            on_step(f"{title(host)}: round {number} of {plan.rounds}")
            ours = cpu_of(MESSAGE, side, server.pid, plan, cores, cold=not number)
            post = _cpu_of_posts(poster, plan.seconds)
            if number:  # the first one warms up
                found["ours"].append(ours)
                found["post"].append(post)
    ours, post = (statistics.median(found[name]) for name in ("ours", "post"))
    return {
        "suite": "cpu",
        "title": title(host),
        "unit": f"CPU over ClientSession.post, {loop}",
        "ours": round(ours / post, 2),
        "target": 1.0,
        "reached": ours <= post,
        "cpu_us": {"ours": round(ours, 1), "post": round(post, 1)},
        "rounds": {name: [round(value, 1) for value in values] for name, values in found.items()},
    }


def _cpu_of_posts(poster: Child, seconds: float) -> float:
    """Microseconds of CPU for a bare post."""
    before = cpu_seconds(poster.pid)
    poster.write_line(str(seconds))
    calls = int(poster.read_until("posted", seconds + 60)[0])
    return 1e6 * (cpu_seconds(poster.pid) - before) / calls


def counted_row(one: Counted, _: Plan, cores: Cores, on_step: Callable[[str], None]) -> dict[str, Any]:
    """The instructions of a call or an event. Raises BenchmarkError; without Valgrind the row says so."""
    row = {"suite": "cpu", "title": title(one.unit), "unit": "instructions", "target": one.goal}
    if shutil.which("valgrind") is None:
        return {**row, "skipped": "valgrind is not on this machine"}
    with contextlib.ExitStack() as stack:
        upstream = _upstream(stack, cores)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="a2a-bench-"))
        out = Path(folder) / "out"
        tool = ("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}")
        with counted_gateway(upstream, tool) as server:
            on_step(title(one.unit))
            side = prepare(one.work, "callgrind", server)
            http_answers(side.target, one.warm_up)
            _control(server.pid, "--instr=on")
            http_answers(side.target, 1)
            _control(server.pid, "--zero")
            http_answers(side.target, one.counted)
            _control(server.pid, "--dump")
        counts = [
            int(found[1])
            for file in Path(folder).glob("out.*")
            if (found := re.search(r"^totals: (\d+)$", file.read_text(), re.MULTILINE))
        ]
    if not counts:
        raise BenchmarkError("callgrind wrote no counts")
    each = max(counts) / one.counted / one.work.per_answer
    return row | {"ours": round(each), "reached": each <= one.goal}


def _upstream(stack: contextlib.ExitStack, cores: Cores) -> str:
    return f"http://{stack.enter_context(Server('upstream', cores.other)).address('http')}"


def _control(pid: int, action: str) -> None:
    done = subprocess.run(
        ["callgrind_control", action, str(pid)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode or "error" in done.stdout.lower():
        raise BenchmarkError(f"callgrind_control {action}: {done.stdout}{done.stderr}")
