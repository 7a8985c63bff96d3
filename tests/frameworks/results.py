"""The tables of pages about servers and clients of frameworks, from what `make frameworks` has recorded."""

from typing import Any

from tests.frameworks.compared import recorded
from tests.frameworks.programs import FRAMEWORKS, REMOTES, Framework, Remote

#: the columns of the table of clients, and where each client was called
_CLIENTS = {
    "an agent that speaks 1.0": "directly",
    "an agent that speaks 1.0 and 0.3": "directly, with 0.3",
    "the first one behind `gateway`": "gateway",
    "an agent in `serve`": "serve",
}


def servers() -> str:
    """What the official client gets of the server of each framework."""
    found = recorded()
    lines = [
        f"| server | with `a2a-sdk` | `a2a-sdk` {found['a2a-sdk']}, directly | through `gateway` |",
        "|---|---|---|---|",
    ]
    for one in FRAMEWORKS:
        told = found["servers"][one.name]
        lines.append(f"| {_head(one, told)} | {_cell(told['directly'])} | {_cell(told['gateway'])} |")
    return "\n".join(lines) + "\n"


def clients() -> str:
    """What the client of each framework gets of agents."""
    found = recorded()
    lines = [f"| client | with `a2a-sdk` | {' | '.join(_CLIENTS)} |", f"|---|---|{'---|' * len(_CLIENTS)}"]
    notes = []
    for one in REMOTES:
        if one.note:
            notes.append(f"- {one.title}: {one.note}.")
        told = found["clients"][one.name]
        cells = " | ".join(_cell(told[where]) for where in _CLIENTS.values())
        lines.append(f"| {_head(one, told)} | {cells} |")
    return "\n".join([*lines, "", *notes]) + "\n"


def short() -> str:
    """The frameworks that fail directly, in four columns, for those who see the project for the first time."""
    found = recorded()
    sdk = f"a2a-sdk {found['a2a-sdk']}"
    lines = [
        f"| | its server with a client of {sdk} | through a2a-bridge | its client with an agent of {sdk} | through a2a-bridge |",
        "|---|---|---|---|---|",
    ]
    heads: dict[str, dict[str, Any]] = {}
    for kind, rows in (("servers", FRAMEWORKS), ("clients", REMOTES)):
        for one in rows:
            told = found[kind][one.name]
            heads.setdefault(f"{one.title} {told['packages'][one.package]}", {})[kind] = told
    for head, kinds in heads.items():
        if all(_cell(told["directly"]) == "yes" for told in kinds.values()):
            continue
        cells = [
            _cell(kinds[kind][where]) if kind in kinds else ""
            for kind in ("servers", "clients")
            for where in ("directly", "gateway")
        ]
        lines.append(f"| {head} | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _head(one: Framework | Remote, told: dict[str, Any]) -> str:
    return f"{one.title} {told['packages'][one.package]} | {told['packages']['a2a-sdk'] or '-'}"


def _cell(outcome: dict[str, str]) -> str:
    """yes, no, or the one call that works."""
    works = [call for call, fault in outcome.items() if not fault]
    if len(works) == len(outcome):
        return "yes"
    return {"send": "without streams", "stream": "streams only"}[works[0]] if works else "no"
