"""Measures each dimension, prints the table, and writes `benchmarks/results/scale.json` after a whole run.

About ten minutes. `make generate` writes docs/reference/scaling.md from the file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from rich.console import Console

from benchmarks.report import add_only, conditions, is_chosen, write
from benchmarks.scale import report
from benchmarks.scale.dimension import NOISE, Dimension, exponent, spent
from benchmarks.scale.rows import ROWS


async def measure(dimension: Dimension) -> dict[str, Any]:
    """The row of one dimension."""
    found = [await spent(dimension, size) for size in dimension.sizes]
    slope = exponent(dimension.sizes, [one.cpu for one in found])
    row: dict[str, Any] = {
        "title": dimension.title,
        "work": dimension.work,
        "sizes": dimension.sizes,
        "cpu_ms": [round(one.cpu * 1e3, 1) for one in found],
        "held_ms": [round(one.held * 1e3, 1) for one in found],
        "exponent": round(slope, 2),
        "expected": dimension.expected,
        "reached": slope <= dimension.expected + NOISE,
    }
    if dimension.memory is not None:
        grown = [one.memory for one in found]
        row["memory_kb"] = [round(one / 1e3) for one in grown]
        row["memory_exponent"] = round(exponent(dimension.sizes, grown), 2)
        row["reached"] &= row["memory_exponent"] <= dimension.memory + NOISE
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    add_only(parser)
    only = parser.parse_args().only
    wanted = [one for one in ROWS if is_chosen(one.title, only)]
    if not wanted:
        print(f"no row is named like {only}", file=sys.stderr)
        return 2
    rows, failed = [], False
    for one in wanted:
        try:
            rows.append(asyncio.run(measure(one)))
        except Exception as error:  # noqa: BLE001  the other rows are measured
            print(f"{one.title}: {error!r}", file=sys.stderr)
            failed = True
            continue
        report.show([rows[-1]], Console(width=None if sys.stdout.isatty() else 180))
    if not only and not failed:
        write(report.LATEST, {**conditions(), "rows": rows})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
