"""Hurts replicas in every way, simulated and real, and reports what was wrong: `make cluster`.

.venv/bin/python -m tests.cluster [--quick] [--seed N] [--schedules N] [--minutes N]
.venv/bin/python -m tests.cluster --only rolling|kills|stops|cuts|suspended|vanished|latency [--seed N]
.venv/bin/python -m tests.cluster --figures

The second form repeats one fault of real replicas: each of three restarted ten times, one after the other; ten
kills; 30 seconds of SIGSTOP, without network, or with 200 ms more on each way; six times 15 seconds of SIGSTOP, or
of a silent connection, inside a transaction. The third measures the figures
of docs/explanation/replicas.md.

The last line is `SCHEDULES schedules, FAULTS faults, WRONG wrong`; the exit code is 0 only without anything
wrong. A simulated schedule can be repeated: `--seed N --schedules 1 --minutes 0`, on the same version of Python: from 3.12
on, runs begin at once. A million of them take two hours on two cores.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.cluster.figures import figures
from tests.cluster.proxy import RUNS
from tests.cluster.schedule import Outcome, run
from tests.nats import running
from tests.postgres import _folder, _running
from tests.stores.conftest import filled

_PORTION = 200

# grpcio's handlers for forks crash the commands that start and stop a database. Read when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def _portion(seeds: range) -> list[Outcome]:
    return [run(seed) for seed in seeds]


def simulated(seed: int, count: int) -> tuple[int, list[str]]:
    """The number of faults, and what was wrong."""
    faults, wrong, done = 0, [], 0
    portions = [range(at, min(at + _PORTION, seed + count)) for at in range(seed, seed + count, _PORTION)]
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for outcomes in pool.map(_portion, portions):
            for one in outcomes:
                faults += one.faults
                wrong += [f"seed {one.seed}: {line}" for line in one.wrong]
                if one.wrong:
                    print(wrong[-1], flush=True)
            done += len(outcomes)
            if done % (50 * _PORTION) == 0:
                print(f"{done} schedules, {faults} faults, {time.monotonic() - began:.0f} s", flush=True)
    return faults, wrong


async def real(seed: int, seconds: float, only: str = "") -> tuple[int, list[str]]:
    """The same of real replicas. only: a run with one kind of fault."""
    from tests.cluster.machines import Machines

    with (
        tempfile.TemporaryDirectory(prefix="a2a-cluster-") as folder,
        _running(_folder(os.getpid(), "cluster")) as postgres,
        running() as nats,
    ):
        url = postgres.create()
        filled(url)
        machines = Machines(seed, Path(folder), postgres, nats, url)
        async with machines.running():
            await machines.work(machines.repeated(RUNS[only]) if only else machines.any_faults(seconds))
        print(
            f"{len(machines.tasks)} tasks of real replicas, {machines.faults} faults, {machines.inside} of them inside a"
            f" transaction; {machines.calls} calls,"
            f" {machines.lost} of them to be repeated, the longest took {machines.longest:.1f} s;"
            f" {machines.broken} streams broke; {machines.hook.posts} notifications, {machines.hook.twice} of them"
            f" repeated",
            flush=True,
        )
        return machines.faults, machines.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster")
    parser.add_argument("--quick", action="store_true", help="2,000 schedules and one minute of real faults")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--schedules", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only", choices=RUNS, help="one kind of fault of real replicas")
    parser.add_argument(
        "--figures", action="store_true", help="measure instead (see tests/cluster/figures.py)"
    )
    arguments = parser.parse_args()
    if arguments.figures:
        asyncio.run(figures())
        return 0
    count = arguments.schedules if arguments.schedules is not None else 2000 if arguments.quick else 1_000_000
    minutes = arguments.minutes if arguments.minutes is not None else 1.0 if arguments.quick else 20.0
    print(f"seed {arguments.seed}", flush=True)
    if arguments.only:
        count = 0
    faults, wrong = simulated(arguments.seed, count)
    schedules = count
    if minutes or arguments.only:
        schedules += 1
        more, found = asyncio.run(real(arguments.seed, 60 * minutes, arguments.only))
        faults += more
        wrong += found
    for line in wrong[:100]:
        print(line)
    print(f"{schedules} schedules, {faults} faults, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
