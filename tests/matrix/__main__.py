"""`make matrix`: every client, through a gateway, to every agent; exit code 1 on surprises."""

import argparse
import asyncio
import sys
import time
from contextlib import contextmanager
from fnmatch import fnmatchcase

from tests.matrix.bridged import Peers, Result, compared
from tests.matrix.versions import AGENTS, CLIENTS, DEVIATIONS, EXCLUSIONS, Side
from tests.peers.conversations import CONVERSATIONS
from tests.peers.faults import FAULTS
from tests.peers.processes import agents as peer_agents
from tests.peers.processes import clients as peer_clients
from tests.requirements import summary

SAME, EXCUSED, WRONG, EXCLUDED = "●", "○", "✗", "·"
#: agent -> client -> the result of the cell
Results = dict[Side, dict[Side, Result]]
#: agents whose row of clients runs at the same time
AT_ONCE = 3


def mark(result: Result | None) -> str:
    """The mark of a cell; None: it was not tried."""
    if result is None:
        return EXCLUDED
    if result.lines:
        return WRONG
    return EXCUSED if result.excuses else SAME


def printed(clients: list[Side], agents: list[Side], results: Results) -> None:
    """The grid: rows are clients, columns are agents, numbered."""
    width = max(len(str(client)) for client in clients)
    print(f"\n{'':{width}}  agents")
    print(f"{'clients':{width}}  " + " ".join(f"{number:2}" for number in range(1, len(agents) + 1)))
    for client in clients:
        marks = [mark(results[agent].get(client)) for agent in agents]
        print(f"{client!s:{width}}  " + " ".join(f"{one:>2}" for one in marks))
    print()
    for number, agent in enumerate(agents, 1):
        print(f"{number:2}  {agent}")
    print(
        f"\n{SAME} what comes out is what the agent says   {EXCUSED} so, but for what is listed below\n"
        f"{WRONG} it differs   {EXCLUDED} not tried"
    )
    for exclusion in EXCLUSIONS:
        print(f"{EXCLUDED} {exclusion.client} to {exclusion.agent}: {exclusion.reason}")
    told = {str(excuse) for row in results.values() for result in row.values() for excuse in result.excuses}
    for line in sorted(told):
        print(f"{EXCUSED} {line}")


def idle(results: Results) -> list[str]:
    """Faults and deviations that no cell needed."""
    needed = {one for row in results.values() for result in row.values() for one in result.excuses}
    return sorted(str(one) for one in [*FAULTS, *DEVIATIONS] if one not in needed and not one.sometimes)


async def run(clients: list[Side], agents: list[Side], peers: Peers) -> Results:
    """The differences of every cell, by agent and client."""
    some = asyncio.Semaphore(AT_ONCE)

    async def row(agent: Side) -> tuple[Side, dict[Side, Result]]:
        tried = [client for client in clients if not any(one.covers(client, agent) for one in EXCLUSIONS)]
        async with some:
            found = await compared(agent, tried, peers)
        print(f"{agent}: {sum(not one.lines for one in found.values())} of {len(tried)}", file=sys.stderr)
        return agent, found

    return dict(await asyncio.gather(*(row(agent) for agent in agents)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--client", default="*", help="only clients like this, such as '0.3.26 *'")
    parser.add_argument("--agent", default="*", help="only agents like this")
    parser.add_argument("--lines", type=int, default=5, help="differences shown of each cell")
    arguments = parser.parse_args()
    clients = [one for one in CLIENTS if fnmatchcase(str(one), arguments.client)]
    agents = [one for one in AGENTS if fnmatchcase(str(one), arguments.agent)]
    started = time.monotonic()
    with contextmanager(peer_agents)() as agent, contextmanager(peer_clients)() as client:
        results = asyncio.run(run(clients, agents, Peers(agent, client)))
    printed(clients, agents, results)
    wrong = [
        (to, by, result.lines) for to, row in results.items() for by, result in row.items() if result.lines
    ]
    for to, by, lines in wrong:
        print(f"\n{by} to {to}: {len(lines)} differences")
        for line in lines[: arguments.lines]:
            print(f"  {line[:300]}")
    # Only a run with every cell can tell.
    over = idle(results) if (clients, agents) == (CLIENTS, AGENTS) else []
    for line in over:
        print(f"\nno longer true: {line}")
    print()
    for line in summary():
        print(line)
    count = sum(len(row) for row in results.values())
    print(
        f"\n{count} cells, {len(CONVERSATIONS)} conversations, {len(wrong)} wrong, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if wrong or over else 0


if __name__ == "__main__":
    raise SystemExit(main())
