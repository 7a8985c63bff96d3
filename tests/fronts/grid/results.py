"""The tables of docs/reference/fronts.md, from the last run of `make fronts`."""

import json
from pathlib import Path
from typing import Any

from tests.fronts.grid.table import GROUPS, Group

LATEST = Path(__file__).parent / "latest.json"


def recorded() -> dict[str, Any]:
    """The version and the cells of each program."""
    found: dict[str, Any] = json.loads(LATEST.read_text("utf-8"))
    return found


def table(name: str) -> str:
    """The table of a group, with why a cell is `no`."""
    [group] = [one for one in GROUPS if one.name == name]
    return "\n".join([*_rows(group), *_reasons(group)]) + "\n"


def _rows(group: Group) -> list[str]:
    heads = " | ".join(one.title for one in group.features)
    lines = [f"| | {heads} |", f"|---|{'---|' * len(group.features)}"]
    found = recorded()
    for client in group.clients:
        told = found[client.program]
        cells = " | ".join("yes" if told["cells"][one.name] else "no" for one in group.features)
        lines.append(f"| {client.title} {told['version']} | {cells} |")
    return lines


def _reasons(group: Group) -> list[str]:
    titles = {one.name: one.title for one in group.features}
    reasons = []
    for client in group.clients:
        why: dict[str, list[str]] = {}
        for name, reason in client.refused.items():
            why.setdefault(reason, []).append(f"*{titles[name]}*")
        reasons += [f"- {client.title}, {', '.join(names)}: {reason}." for reason, names in why.items()]
    return ["", *reasons] if reasons else []
