"""`python -m benchmarks`: all rows, one table, `benchmarks/results/latest.json`.

See docs/reference/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil  # type: ignore[import-untyped]
from rich.console import Console

from benchmarks import report
from benchmarks.compiled import COMPARISONS, cpu_row
from benchmarks.databases import Databases
from benchmarks.executors import GOALS, executor_row
from benchmarks.executors import title as executor_title
from benchmarks.forwarding import COUNTED, LOOPS, counted_row, post_row
from benchmarks.forwarding import title as forwarding_title
from benchmarks.fronts import FRONTS, front_row
from benchmarks.listing import FEW, MANY, list_rows, resume_row
from benchmarks.measure import (
    QUICK,
    Plan,
    codec_rows,
    load_row,
    memory_row,
    share_row,
    values_rows,
    workers_row,
)
from benchmarks.observed import TITLES, observed_rows
from benchmarks.observed import title as observed_title
from benchmarks.processes import BenchmarkError, Cores, cores
from benchmarks.tools import MISSING, missing
from benchmarks.work import WORK, Work
from tests import calls_per_call, calls_per_event

# title, binding, target for our share of the SDK's memory
MEMORY = (("open SSE stream", "JSONRPC", 0.4), ("open gRPC stream", "GRPC", None))
CODEC = "codec"
WORKERS = "gateway with two workers"
RESUME, LIST = "SQLite resume", "ListTasks"
VALUES = "values"
#: most cores that other processes may use during a measurement
QUIET = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    """What all rows of one run are measured with."""

    plan: Plan
    cores: Cores
    databases: Databases
    on_step: Callable[[str], None]


Measure = Callable[[Run], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are chosen together, by a title. quick: whether a quick run has them, too."""

    suite: str
    title: str
    measure: Measure
    quick: bool = True


def _one(measure: Callable[..., dict[str, Any]], subject: Any) -> Measure:
    """For a function that makes one row of a subject."""
    return lambda run: [measure(subject, run.plan, run.cores, run.on_step)]


def _load(work: Work) -> Measure:
    def measure(run: Run) -> list[dict[str, Any]]:
        row = load_row(work, run.plan, run.cores, run.databases, run.on_step)
        return [row] if work.share is None else [row, share_row(work, row)]

    return measure


def _observed(name: str) -> Measure:
    return lambda run: observed_rows(name, run.plan, run.cores, run.on_step)


def _list(run: Run) -> list[dict[str, Any]]:
    many = MANY // 10 if run.plan is QUICK else MANY
    return list_rows(FEW, many, run.cores, run.databases, run.on_step)


def _memory(kind: str, title: str, goal: float | None) -> Measure:
    return lambda run: [memory_row(kind, title, goal, run.plan, run.cores, run.on_step)]


PARTS = (
    *(Part("load", work.title, _load(work), not work.twin) for work in WORK),
    *(Part("cpu", one.title, _one(cpu_row, one)) for one in COMPARISONS),
    *(Part("cpu", forwarding_title(host), _one(post_row, host)) for host in LOOPS),
    *(Part("cpu", forwarding_title(one.unit), _one(counted_row, one)) for one in COUNTED),
    *(Part("executors", executor_title(name), _one(executor_row, name)) for name in GOALS),
    *(Part("cpu", one.title, _one(front_row, one)) for one in FRONTS),
    *(Part("cpu", observed_title(name), _observed(name), quick=False) for name in TITLES),
    Part("workers", WORKERS, _one(workers_row, WORKERS)),
    Part("list", RESUME, lambda run: [resume_row(run.plan.seconds, run.cores, run.databases, run.on_step)]),
    Part("list", LIST, _list, quick=False),
    *(Part("memory", title, _memory(kind, title, goal)) for title, kind, goal in MEMORY),
    Part("codec", CODEC, lambda _: codec_rows()),
    Part("values", VALUES, lambda _: values_rows()),
)


def arguments() -> argparse.Namespace:
    rows = "rows: " + ", ".join(part.title for part in PARTS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, epilog=rows)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rows, short rounds: about a minute, and twice the noise"
    )
    report.add_only(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where results go (latest.json when all is measured)"
    )
    parser.add_argument("--markdown", action="store_true", help="measure nothing, print the last results")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.markdown:
        print(report.markdown(json.loads((options.output or report.LATEST).read_text())))
        return 0
    if names := missing():
        print(MISSING.format(names=" and ".join(names)), file=sys.stderr)
        return 2
    # SIGTERM ends like Ctrl-C, so that every child is ended too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    console, progress = Console(width=None if sys.stdout.isatty() else 180), Console(stderr=True)
    busy = psutil.cpu_percent(1.0) / 100 * (psutil.cpu_count() or 1)
    if busy > QUIET:
        print(f"others use {busy:.1f} cores of this machine: expect noise", file=sys.stderr)
    plan = QUICK if options.quick else Plan()
    try:
        rows = measure(options.only, plan, progress)
    except KeyboardInterrupt:
        print("interrupted; nothing is kept", file=sys.stderr)
        return 130
    if not rows:
        print(f"no row is named like {options.only}", file=sys.stderr)
        return 2
    found = report.document(rows, plan, busy)
    report.show(found, console)
    if not options.only:
        calls_per_event.main()
        calls_per_call.show()
    complete = not options.quick and not options.only
    failed = [row for row in rows if "error" in row]
    output = options.output or (report.LATEST if complete and not failed else None)
    if output:
        report.write(output, found)
    for row in rows:
        if "skipped" in row:
            print(f"skipped: {row['title']}: {row['skipped']}", file=sys.stderr)
    for row in failed:
        print(f"{row['title']}: {row['error']}", file=sys.stderr)
    return 1 if failed else 0


def measure(only: list[str], plan: Plan, progress: Console) -> list[dict[str, Any]]:
    """The requested rows; a row that cannot be measured has the reason."""
    rows: list[dict[str, Any]] = []
    where = cores()
    with progress.status("starting") as status, Databases(where) as databases:
        run = Run(plan, where, databases, status.update)
        for part in PARTS:
            if not report.is_chosen(part.title, only) or (plan is QUICK and not (part.quick or only)):
                continue
            status.update(part.title)
            try:
                rows += part.measure(run)
            except BenchmarkError as error:
                rows.append({"suite": part.suite, "title": part.title, "error": str(error)})
    return rows


def _interrupt(_number: int, _frame: types.FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
