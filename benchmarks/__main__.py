"""`python -m benchmarks`: all rows, one table, `benchmarks/results/latest.json`.

See docs/reference/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

import psutil  # type: ignore[import-untyped]
from rich.console import Console

from benchmarks import report
from benchmarks.compiled import COMPARISONS, cpu_row
from benchmarks.databases import Databases
from benchmarks.executors import GOALS, executor_row
from benchmarks.executors import title as executor_title
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
from benchmarks.processes import BenchmarkError, cores
from benchmarks.tools import MISSING, missing
from benchmarks.work import WORK
from tests import calls_per_call, calls_per_event

# title, binding, target for our share of the SDK's memory
MEMORY = (("open SSE stream", "JSONRPC", 0.4), ("open gRPC stream", "GRPC", None))
CODEC = "codec"
WORKERS = "gateway with two workers"
RESUME, LIST = "SQLite resume", "ListTasks"
VALUES = "values"
#: most cores that other processes may use during a measurement
QUIET = 0.2


def arguments() -> argparse.Namespace:
    titles = (
        [work.title for work in WORK]
        + [one.title for one in COMPARISONS]
        + [title for title, _, _ in MEMORY]
        + [executor_title(one) for one in GOALS]
        + [observed_title(one) for one in TITLES]
        + [one.title for one in FRONTS]
        + [WORKERS, RESUME, LIST, CODEC, VALUES]
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog="rows: " + ", ".join(titles)
    )
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
    where = cores()
    rows: list[dict[str, Any]] = []

    def wanted(title: str) -> bool:
        return report.is_chosen(title, only)

    with progress.status("starting") as status, Databases(where) as databases:
        for work in WORK:
            if wanted(work.title) and not (work.twin and plan is QUICK and not only):
                try:
                    row = load_row(work, plan, where, databases, status.update)
                    rows += [row] if work.share is None else [row, share_row(work, row)]
                except BenchmarkError as error:
                    rows.append({"suite": "load", "title": work.title, "error": str(error)})
        for comparison in COMPARISONS:
            if wanted(comparison.title):
                try:
                    rows.append(cpu_row(comparison, plan, where, status.update))
                except BenchmarkError as error:
                    rows.append({"suite": "cpu", "title": comparison.title, "error": str(error)})
        for one in GOALS:
            if wanted(executor_title(one)):
                try:
                    rows.append(executor_row(one, plan, where, status.update))
                except BenchmarkError as error:
                    rows.append({"suite": "executors", "title": executor_title(one), "error": str(error)})
        for front in FRONTS:
            if wanted(front.title):
                try:
                    rows.append(front_row(front, plan, where, status.update))
                except BenchmarkError as error:
                    rows.append({"suite": "cpu", "title": front.title, "error": str(error)})
        for one in TITLES:
            if wanted(observed_title(one)) and not (plan is QUICK and not only):
                try:
                    rows += observed_rows(one, plan, where, status.update)
                except BenchmarkError as error:
                    rows.append({"suite": "cpu", "title": observed_title(one), "error": str(error)})
        if wanted(WORKERS):
            try:
                rows.append(workers_row(WORKERS, plan, where, status.update))
            except BenchmarkError as error:
                rows.append({"suite": "workers", "title": WORKERS, "error": str(error)})
        if wanted(RESUME):
            try:
                rows.append(resume_row(plan.seconds, where, databases, status.update))
            except BenchmarkError as error:
                rows.append({"suite": "list", "title": RESUME, "error": str(error)})
        if wanted(LIST) and not (plan is QUICK and not only):
            few, many = (FEW, MANY // 10) if plan is QUICK else (FEW, MANY)
            try:
                rows += list_rows(few, many, where, databases, status.update)
            except BenchmarkError as error:
                rows.append({"suite": "list", "title": LIST, "error": str(error)})
        for title, kind, goal in MEMORY:
            if wanted(title):
                try:
                    rows.append(memory_row(kind, title, goal, plan, where, status.update))
                except BenchmarkError as error:
                    rows.append({"suite": "memory", "title": title, "error": str(error)})
        if wanted(CODEC):
            status.update("codec")
            rows += codec_rows()
        if wanted(VALUES):
            status.update("values")
            rows += values_rows()
    return rows


def _interrupt(_number: int, _frame: types.FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
