"""Measurements: sides interleaved round by round, medians, and checks that each response is one.

It prints nothing; `on_step` reports progress.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks import agent, codec, values
from benchmarks.databases import Databases, with_tables
from benchmarks.hosts import gateway_workers, installed
from benchmarks.probe import ask, framed_size, grpc_messages, http_answer
from benchmarks.processes import BenchmarkError, Child, Cores, Server, cpu_seconds
from benchmarks.tools import Load, Target, h2load, wrk
from benchmarks.work import SEND, WORK, Work, is_response_task


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    rounds, bare_rounds: measured rounds of each side. seconds: length of a round; a load generator takes
    whole ones.
    store_rounds, store_seconds: the same with a database, on which some sides take seconds for one answer.
    connections: requests in flight; streams: streams in flight.
    held: idle streams that the memory of one is measured with. repeats: how often that is done.
    """

    rounds: int = 3
    bare_rounds: int = 2
    seconds: int = 2
    store_rounds: int = 3
    store_seconds: int = 6
    warm_up: int = 1
    connections: int = 32
    streams: int = 16
    held: int = 300
    repeats: int = 3


QUICK = Plan(
    rounds=2, bare_rounds=1, seconds=1, store_rounds=2, store_seconds=4, warm_up=1, held=200, repeats=1
)

Steps = Callable[[str], None]


@dataclass(slots=True)
class Side:
    """A server in a row: its request, the length of its response, and the measurements of each round."""

    name: str
    target: Target
    raw_bytes: int
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def load_row(work: Work, plan: Plan, cores: Cores, databases: Databases, on_step: Steps) -> dict[str, Any]:
    """Measures one row of load. Raises BenchmarkError when a response is wrong, before or under load."""
    third = "memory" if work.store else "bare"
    with contextlib.ExitStack() as stack:
        upstream = ""
        if work.gateway:
            upstream = stack.enter_context(Server("upstream", cores.other)).address("grpc")
        servers = {
            name: stack.enter_context(server)
            for name, server in _servers(work, cores, databases, upstream).items()
        }
        sides = [prepare(work, name, server) for name, server in servers.items()]
        for side in sides:
            if side.name == "bare":
                continue  # has nothing to warm up
            on_step(f"{work.title}: {side.name} warms up")
            load(work, side, plan, cores, plan.warm_up, cold=True)
        rounds, seconds = plan.rounds, plan.seconds
        if work.store:
            rounds, seconds = plan.store_rounds, plan.store_seconds
        for number in range(rounds):
            # Another order each round: otherwise a server would always follow the same one, on a warm or
            # throttled core.
            first = number % len(sides)
            for side in sides[first:] + sides[:first]:
                if side.name == "bare" and len(side.rates) >= plan.bare_rounds:
                    continue
                on_step(f"{work.title}: {side.name}, round {number + 1} of {rounds}")
                _measure(work, side, servers[side.name], plan, cores, seconds)
        for name, server in servers.items():
            if errors := server.errors().strip():
                on_step(f"{work.title}: {name} wrote to standard error: {errors[-300:]}")
    rates = {side.name: round(statistics.median(side.rates), 1) for side in sides}
    cpu = {side.name: round(statistics.median(side.cpu), 1) for side in sides}
    ours = [name for name in rates if name not in ("sdk", third)]
    best = max(ours, key=rates.__getitem__)
    ratio = rates[best] / rates["sdk"]
    builtin = rates.get("uvloop", rates[ours[0]]) / rates["sdk"]
    reached = None
    if work.goal is not None:
        reached = ratio >= work.goal and builtin >= (work.builtin_goal or 0.0)
    return {
        "suite": "store" if work.store else "load",
        "title": work.title,
        "unit": work.unit,
        "hosts": {name: {"rate": rates[name], "cpu_us": cpu[name]} for name in (*ours, "sdk")},
        "best": best,
        "ours": rates[best],
        "sdk": rates["sdk"],
        third: rates[third],
        "ratio": round(ratio, 2),
        "cpu_ratio": round(cpu["sdk"] / min(cpu[name] for name in ours), 2),
        "builtin_ratio": round(builtin, 2),
        f"{third}_ratio": round(rates[best] / rates[third], 2),
        "target": work.goal,
        "builtin_target": work.builtin_goal,
        "reached": reached,
        "rounds": {side.name: [round(rate, 1) for rate in side.rates] for side in sides},
        "answer_bytes": {side.name: side.raw_bytes for side in sides},
    }


def workers_row(title: str, plan: Plan, cores: Cores, on_step: Steps) -> dict[str, Any]:
    """The rate of a gateway with two workers over that with one, and the cores that each of them took.

    Neither is pinned. The ratio is meaningful if two cores are free beside the load and the agent.
    """
    work = next(work for work in WORK if work.gateway and not work.legacy)
    free = Cores(None, cores.load, cores.other)
    rates: dict[int, list[float]] = {1: [], 2: []}
    shares: dict[int, list[float]] = {1: [], 2: []}
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(Server("upstream", cores.other)).address("grpc")
        servers = {count: stack.enter_context(gateway_workers(count, upstream)) for count in rates}
        sides = {count: prepare(work, f"{count} workers", server) for count, server in servers.items()}
        for number in range(plan.rounds + 1):
            for count, side in sides.items():
                on_step(f"{title}: {side.name}, round {number} of {plan.rounds}")
                before = cpu_seconds(servers[count].pid)
                done = load(work, side, plan, free, plan.seconds, cold=not number)
                if number:  # the first one warms up
                    rates[count].append(done.requests / done.seconds)
                    shares[count].append((cpu_seconds(servers[count].pid) - before) / done.seconds)
    rate = {count: statistics.median(found) for count, found in rates.items()}
    ratio = rate[2] / rate[1]
    return {
        "suite": "workers",
        "title": title,
        "unit": "two / one",
        "ours": round(ratio, 2),
        "rates": {str(count): round(value, 1) for count, value in rate.items()},
        "cores": {str(count): round(statistics.median(found), 2) for count, found in shares.items()},
        "target": 1.8,
        "reached": ratio >= 1.8,
    }


def share_row(work: Work, row: dict[str, Any]) -> dict[str, Any]:
    """The share of our rate in memory that a row with a database reaches."""
    return {
        "suite": "store",
        "title": f"{work.title}, share of in memory",
        "unit": "",
        "ours": row["memory_ratio"],
        "target": work.share,
        "reached": None if work.share is None else row["memory_ratio"] >= work.share,
    }


def _servers(work: Work, cores: Cores, databases: Databases, upstream: str) -> dict[str, Server]:
    """The servers of a row, by name; not all of them have been started."""
    if work.store:
        # Each side has a database of its own.
        urls = {name: databases.url(work.store) for name in ("ours", "sdk")}
        with_tables(urls["ours"])
        servers = {name: Server(name, cores.server, store=url) for name, url in urls.items()}
        return {**servers, "memory": Server("ours", cores.server)}
    servers = {
        host.name: host.start(cores.server, upstream, legacy=work.legacy) for host in installed(work.family)
    }
    for name in ("sdk", "bare"):
        servers[name] = Server(name, cores.server, upstream, legacy=work.legacy)
    return servers


def prepare(work: Work, name: str, server: Server, headers: Mapping[str, str] | None = None) -> Side:
    """The request of a row at a server, after a look at its response. headers: more of them, for credentials.

    Raises BenchmarkError for a wrong response.
    """
    address = server.address(work.family)
    if name == "bare":
        target = work.bare_target(address)
        size = framed_size(grpc_messages(target)) if work.kind == "GRPC" else http_answer(target)[1]
        return Side(name, target, size)
    task_id = ""
    if work.operation == "GetTask":
        before = Work("a task", work.kind, SEND, agent.TASK, None, is_response_task)
        made, _ = ask(before, before.target(address))
        is_response_task(made)
        task_id = made[0]["task"]["id"]
    target = work.target(address, task_id)
    if headers:
        target = replace(target, headers={**target.headers, **headers})
    try:
        answer, size = ask(work, target)
        work.check(answer)
    except (BenchmarkError, KeyError, IndexError) as error:
        raise BenchmarkError(f"{work.title}, {name}: {error!r}\n{server.errors()}") from error
    return Side(name, target, size)


def _measure(work: Work, side: Side, server: Server, plan: Plan, cores: Cores, seconds: int) -> None:
    """One round: units per second, and microseconds of CPU per unit. A stream that the end of the round cuts
    off counts with its events so far.
    """
    before = cpu_seconds(server.pid)
    done = load(work, side, plan, cores, seconds)
    spent = cpu_seconds(server.pid) - before
    units = done.requests if work.per_answer == 1 else done.raw_bytes / side.raw_bytes * work.per_answer
    side.rates.append(units / done.seconds)
    side.cpu.append(1e6 * spent / units)


def load(work: Work, side: Side, plan: Plan, cores: Cores, seconds: int, *, cold: bool = False) -> Load:
    """One round of load. Raises BenchmarkError when answers are wrong. cold: none is fine, too."""
    in_flight = plan.connections if work.per_answer == 1 else plan.streams
    if work.kind == "GRPC":
        done = h2load(side.target, seconds=seconds, connections=in_flight // 4, streams=4, core=cores.load)
    else:
        done = wrk(side.target, seconds=seconds, connections=in_flight, core=cores.load)
    _judge(work, side, done, in_flight, cold)
    return done


def _judge(work: Work, side: Side, load: Load, in_flight: int, cold: bool) -> None:
    if load.failures:
        raise BenchmarkError(f"{work.title}, {side.name}: {load.failures} answers failed under load")
    if not (load.requests or cold) and work.per_answer == 1:
        raise BenchmarkError(f"{work.title}, {side.name}: no answer within {load.seconds:g} s")
    # Answers differ by some bytes (times, lengths of ids); an error is of another size altogether.
    least, most = 0.95 * load.requests * side.raw_bytes, 1.05 * (load.requests + in_flight) * side.raw_bytes
    if not least <= load.raw_bytes <= most:
        raise BenchmarkError(
            f"{work.title}, {side.name}: {load.raw_bytes} bytes in {load.requests} responses, "
            f"but one had {side.raw_bytes} before: they are not the same responses"
        )


def memory_row(
    kind: str, title: str, goal: float | None, plan: Plan, cores: Cores, on_step: Steps
) -> dict[str, Any]:
    """Measures resident memory per open idle stream, in KB: the slope between some streams and many."""
    found: dict[str, list[float]] = {"ours": [], "sdk": []}
    for number in range(plan.repeats):
        for name, slopes in found.items():
            on_step(f"{title}: {name}, {number + 1} of {plan.repeats}")
            with Server(name, cores.server) as server:
                address = server.address("grpc" if kind == "GRPC" else "http")
                with Child("benchmarks.loads.hold", [kind, address], cores.load) as holder:
                    some = _resident(server, holder, plan.held // 4)
                    many = _resident(server, holder, plan.held)
            slopes.append((many - some) / plan.held / 1000)
    ours, sdk = (statistics.median(found[name]) for name in ("ours", "sdk"))
    return {
        "suite": "memory",
        "title": title,
        "unit": "KB/stream",
        "ours": round(ours, 1),
        "sdk": round(sdk, 1),
        "ratio": round(ours / sdk, 2),
        "target": goal,
        "reached": None if goal is None else ours / sdk <= goal,
        "rounds": {name: [round(value, 1) for value in values] for name, values in found.items()},
    }


def _resident(server: Server, holder: Child, more: int) -> int:
    """Bytes of resident memory once `more` further streams are open and the server has nothing to do."""
    holder.write_line(str(more))
    holder.read_until("open")
    # There is no signal for the last stream's late allocations; they take milliseconds.
    time.sleep(0.3)
    return int(psutil.Process(server.pid).memory_info().rss)


def codec_rows() -> list[dict[str, Any]]:
    """The codec against json_format, in microseconds, without any socket."""
    return [
        {
            "suite": "codec",
            "title": f"{row['direction']} {row['case']}",
            "unit": "us",
            "ours": row["ours_us"],
            "sdk": row["json_format_us"],
            "ratio": row["ratio"],
            "target": row["target"],
            "reached": row["reached"],
        }
        for row in codec.rows()
    ]


def values_rows() -> list[dict[str, Any]]:
    """The cost of many small values, accepted and rejected, and the time that they hold the loop. It uses
    real sockets.
    """
    return [{"suite": "values", **row} for row in values.rows()]
