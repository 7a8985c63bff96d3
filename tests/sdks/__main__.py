"""Clients and agents of other languages: directly, on `serve`, through gateways: `make sdks`.

.venv/bin/python -m tests.sdks [--sdk PATTERN] [--client PATTERN] [--agent PATTERN] [--patience SECONDS]
    [--lines N] [--table FILE] [--newest]

Its last line is `CELLS cells, OPERATIONS operations, KNOWN known, FAILED failed`; the exit code is 0 only if
none failed. A toolchain that is absent is said and skipped.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from a2a_bridge.core.service import Service
from tests.matrix.bridged import Peers, Result, compared, direct
from tests.matrix.versions import BINDINGS, OURS, Side
from tests.peers import faults, transcript
from tests.peers.callers import ALL, OPERATIONS
from tests.peers.processes import AGENTS, CLIENTS
from tests.peers.processes import agents as peer_agents
from tests.peers.processes import clients as peer_clients
from tests.sdks.faults import FAULTS
from tests.sdks.newest import report
from tests.sdks.programs import HERE, SDKS, Sdk
from tests.sdks.service import LineService
from tests.sdks.table import DIRECT, PAGE, SERVED, THROUGH, table, written


def build(sdk: Sdk) -> bool:
    """Builds an SDK's programs. False, after a message on standard output, if its toolchain is absent."""
    if shutil.which(sdk.toolchain) is None:
        print(f"skipped: {sdk.name} needs {sdk.toolchain}, which is not on this machine", flush=True)
        return False
    _run(sdk.folder, sdk.out, sdk.build)
    return True


@cache
def _run(folder: str, out: Path, commands: tuple[tuple[str, ...], ...]) -> None:
    """Builds a folder, once for all releases that share it."""
    out.mkdir(parents=True, exist_ok=True)
    for command in commands:
        subprocess.run([part.format(out=out) for part in command], cwd=HERE / folder, check=True)


@contextmanager
def peers(sdks: list[Sdk]) -> Iterator[Peers]:
    """The programs of the SDKs, beside those of the grid of Python's versions."""
    for sdk in sdks:
        AGENTS.update(sdk.programs("agent"))
        CLIENTS.update(sdk.programs("client"))
        if sdk.words == "0.3":
            OPERATIONS.update({sdk.who("0.3"): dict.fromkeys(BINDINGS, frozenset(ALL))})
    faults.FAULTS = (*faults.FAULTS, *FAULTS)
    known = {side for sdk in sdks if sdk.words == "1.0" for side in sdk.sides()}
    with contextmanager(peer_agents)() as agents, contextmanager(peer_clients)() as clients:

        def service(side: Side, origin: str) -> Service | None:
            return LineService(clients(side.who), side.binding, origin) if side in known else None

        yield Peers(agents, clients, service)


@dataclass
class Totals:
    cells: dict[tuple[str, Side, Side], Result] = field(default_factory=dict)

    def add(self, way: str, client: Side, agent: Side, result: Result) -> None:
        self.cells[way, client, agent] = result
        mark = "✗" if result.lines else "○" if result.excuses else "●"
        print(f"{mark} {way}: {client} to {agent}", flush=True)


async def run(sdks: list[Sdk], there: Peers, client: str, agent: str) -> Totals:
    """Every SDK's clients and agents directly, its clients on `serve`, and both through gateways."""
    totals = Totals()
    ours = [Side(OURS, version, binding) for version in ("1.0", "0.3") for binding in BINDINGS]
    for sdk in sdks:
        for side in sdk.sides():
            own = Side(OURS, side.version, side.binding)
            if fnmatchcase(str(side), client) and fnmatchcase(str(side), agent):
                totals.add(DIRECT, side, side, await direct(side, side, there))
            if fnmatchcase(str(side), client):
                totals.add(SERVED, side, own, await direct(side, own, there))
            if fnmatchcase(str(side), agent):
                totals.add(SERVED, own, side, await direct(own, side, there))
    sides = [side for sdk in sdks for side in sdk.sides()]
    calling = [side for side in (*ours, *sides) if fnmatchcase(str(side), client)]
    for upstream in (*ours, *sides):
        if not fnmatchcase(str(upstream), agent):
            continue
        tried = calling if upstream in sides else [side for side in calling if side in sides]
        for side, result in (await compared(upstream, tried, there)).items():
            totals.add(THROUGH, side, upstream, result)
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sdks")
    parser.add_argument("--sdk", default="*", help="only SDKs like this, such as 'a2a-go *'")
    parser.add_argument("--client", default="*", help="only clients like this")
    parser.add_argument("--agent", default="*", help="only agents like this")
    parser.add_argument(
        "--patience", type=float, default=30.0, help="seconds after which an answer or an event is missing"
    )
    parser.add_argument("--lines", type=int, default=5, help="differences shown of each cell")
    parser.add_argument(
        "--table", type=Path, help=f"page to write the tables into; {PAGE.name} after a whole run"
    )
    parser.add_argument(
        "--newest", action="store_true", help="only compare the pinned versions with the registries"
    )
    arguments = parser.parse_args()
    if arguments.newest:
        return 1 if report() else 0
    # Some agents never end the stream of a failed run: each such stream costs this time.
    transcript.PATIENCE = arguments.patience
    sdks = [sdk for sdk in SDKS if fnmatchcase(sdk.name, arguments.sdk) and build(sdk)]
    with peers(sdks) as there:
        totals = asyncio.run(run(sdks, there, arguments.client, arguments.agent))
    failed = {cell: result for cell, result in totals.cells.items() if result.lines}
    for (way, client, agent), result in failed.items():
        print(f"\n{way}: {client} to {agent}: {len(result.lines)} differences")
        for line in result.lines[: arguments.lines]:
            print(f"  {line[:300]}")
    known = {excuse for result in totals.cells.values() for excuse in result.excuses}
    operations = sum(result.operations for result in totals.cells.values())
    whole = len(sdks) == len(SDKS) and (arguments.client, arguments.agent) == ("*", "*") and not failed
    if page := arguments.table or (PAGE if whole else None):
        page.write_text(written(page.read_text(), table(sdks, totals.cells, datetime.now(UTC).date())))
    print(f"\n{len(totals.cells)} cells, {operations} operations, {len(known)} known, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
