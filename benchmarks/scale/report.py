"""The rows of a run as a table in a terminal and for the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

LATEST = Path(__file__).parents[1] / "results" / "scale.json"

HEADINGS = (
    "more of",
    "what is done",
    "numbers",
    "CPU, ms",
    "memory, MB",
    "exponent",
    "at most",
    "as expected",
)


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    memory = row.get("memory_kb")
    exponents = f"{row['exponent']:.2f}"
    expected = f"{row['expected']:g}"
    if memory is not None:
        exponents += f"; memory {row['memory_exponent']:.2f}"
    return [
        row["title"],
        row["work"],
        ", ".join(f"{size:,}" for size in row["sizes"]),
        ", ".join(f"{cost:,.0f}" for cost in row["cpu_ms"]),
        "" if memory is None else ", ".join(f"{one / 1000:,.1f}" for one in memory),
        exponents,
        expected,
        "yes" if row["reached"] else "no",
    ]


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """Prints rows."""
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*cells(row), style="" if row["reached"] else "bold red")
    console.print(table)


def markdown(found: dict[str, Any]) -> str:
    """The table for a document."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|:--|:--" + "|--:" * (len(HEADINGS) - 2) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in found["rows"]]
    return "\n".join(lines)
