"""The tables of docs/reference/sdks.md, from the cells of a run."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date

from tests.docs.pages import DOCS
from tests.matrix.bridged import Result
from tests.matrix.versions import Side
from tests.peers.faults import Fault
from tests.sdks.programs import Sdk

PAGE = DOCS / "reference/sdks.md"
BEGIN = "<!-- written by `make sdks` -->\n"
END = "<!-- end of what is written -->\n"

DIRECT, SERVED, THROUGH = "direct", "on serve", "through the gateway"

#: (way, client, agent) -> the result
Cells = Mapping[tuple[str, Side, Side], Result]


def table(sdks: Iterable[Sdk], cells: Cells, today: date) -> str:
    """The results of each SDK, version and binding, and its known faults."""
    sdks = list(sdks)
    operations = sum(result.operations for result in cells.values())
    wrong = sum(bool(result.lines) for result in cells.values())
    rows = [
        f"The last run, of {today.isoformat()}: {len(cells):,} cells, {operations:,} operations, {wrong} of the cells differ.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|" + "---|" * len(_COLUMNS),
    ]
    for side in (side for sdk in sdks for side in sdk.sides()):
        shown = (
            _shown(cells, lambda way, client, agent, it=side: way == DIRECT and client == agent == it),
            _shown(cells, lambda way, client, _, it=side: way == SERVED and client == it),
            _shown(cells, lambda way, _, agent, it=side: way == SERVED and agent == it),
            _shown(cells, lambda way, client, _, it=side: way == THROUGH and client == it),
            _shown(cells, lambda way, _, agent, it=side: way == THROUGH and agent == it),
        )
        rows.append(f"| {side.who} | {side.version} | {side.binding} | {' | '.join(shown)} |")
    rows += ["", "| SDK | as | bindings | known fault |", "|---|---|---|---|"]
    found = {one for result in cells.values() for one in result.excuses if isinstance(one, Fault)}
    ours = {side.who for sdk in sdks for side in sdk.sides()}
    told: dict[tuple[str, str, str], list[str]] = {}
    for fault in found:
        if fault.release in ours:
            bindings = told.setdefault((fault.release, fault.role, fault.reason), [])
            bindings += [one for one in fault.bindings if one not in bindings]
    rows += [
        f"| {release} | {_ROLES[role]} | {', '.join(sorted(bindings))} | {_escaped(reason)} |"
        for (release, role, reason), bindings in sorted(told.items())
    ]
    return "\n".join(rows) + "\n"


_COLUMNS = (
    "SDK",
    "version",
    "binding",
    "direct",
    "its client on `serve`",
    "our client to it",
    "its client through the gateway",
    "its agent through the gateway",
)
_ROLES = {"agent": "agent", "client": "client", "alone": "both, with each other"}


def _shown(cells: Cells, of: Callable[[str, Side, Side], bool]) -> str:
    """The cells equal to the agent's own answers; `*`: thanks to known faults; `-`: none was tried."""
    tried = [result for cell, result in cells.items() if of(*cell)]
    if not tried:
        return "-"
    star = "*" if any(isinstance(one, Fault) for result in tried for one in result.excuses) else ""
    right = sum(not result.lines for result in tried)
    if len(tried) == 1:
        return f"yes{star}" if right else "no"
    return f"{right} of {len(tried)}{star}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def written(page: str, tables: str) -> str:
    """The page with these tables in place of the old ones."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"
