"""The cost of an executor of the official SDK on our engine: the CPU of the SDK's own server over that of
ours with the same executor, and beside them an executor of ours. All are measured in turns in one run.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Plan, load, prepare
from benchmarks.observed import cpu_of
from benchmarks.processes import Cores, Server
from benchmarks.work import WORK

#: title of a row of load → least ratio
GOALS = {"JSON-RPC message": 6.0, "JSON-RPC task": 5.0, "JSON-RPC stream": 8.0}
#: the servers: the SDK's, ours with the executor of the SDK, ours with an executor of its own
SDK, HOSTED, OURS = "sdk", "hosted", "ours"


def title(work: str) -> str:
    """The title of the row of a row of load."""
    return f"executors of the SDK: {work}"


def executor_row(name: str, plan: Plan, cores: Cores, on_step: Callable[[str], None]) -> dict[str, Any]:
    """The row of one kind of answer. name: the title of a row of load. Raises BenchmarkError."""
    work = next(one for one in WORK if one.title == name)
    found: dict[str, list[float]] = {SDK: [], HOSTED: [], OURS: []}
    with contextlib.ExitStack() as stack:
        servers = {side: stack.enter_context(Server(side, cores.server)) for side in found}
        sides = {side: prepare(work, side, server) for side, server in servers.items()}
        for side in sides.values():
            load(work, side, plan, cores, plan.warm_up, cold=True)
        for number in range(plan.rounds):
            for which in list(found)[:: 1 if number % 2 else -1]:
                on_step(f"{title(name)}: {which}, round {number + 1} of {plan.rounds}")
                pid = servers[which].pid
                found[which].append(cpu_of(work, sides[which], pid, plan, cores, cold=False))
    spent = {side: statistics.median(rounds) for side, rounds in found.items()}
    ratio = spent[SDK] / spent[HOSTED]
    return {
        "suite": "executors",
        "title": title(name),
        "unit": "µs of CPU",
        "ours": round(spent[HOSTED], 1),
        "sdk": round(spent[SDK], 1),
        "ratio": round(ratio, 2),
        "target": GOALS[name],
        "reached": ratio >= GOALS[name],
        "own": round(spent[OURS], 1),
        "own_ratio": round(spent[OURS] / spent[HOSTED], 2),
        "rounds": {side: [round(value, 1) for value in rounds] for side, rounds in found.items()},
    }
