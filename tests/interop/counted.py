"""Counts the conversations that pass before an executor of the SDK: on its own server, and on ours.

    .venv/bin/python -m tests.interop.counted [--executor 1.x] [--reasons]

The official clients hold them; passes.py judges. The exit code is 1 if one passes only before the SDK's
server.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Events, Service
from tests.equivalence import talk as hub_talk
from tests.equivalence.agent import card
from tests.equivalence.scenarios import SCENARIOS
from tests.interop.executor_servers import SERVERS, Running, Server, running
from tests.interop.passes import IN_0_3, IN_1_0, Check, Seen
from tests.interop.sdk_client import sdk_client
from tests.matrix.bridged import Peers, calling
from tests.matrix.versions import Side
from tests.patience import PATIENCE
from tests.peers import transcript
from tests.peers.callers import HUB, Caller
from tests.peers.conversations import CONVERSATIONS
from tests.peers.processes import ALL as BINDINGS
from tests.peers.processes import agents, clients
from tests.peers.transcript import STUCK, Lines

#: executor -> the clients, with the version that they speak to the SDK's own server
CLIENTS = {"1.x": (("1.3.0", "1.0"), ("0.3.26", "0.3")), "0.3": (("1.3.0", "0.3"), ("0.3.26", "0.3"))}
#: Seconds for a conversation with an SDK's server, which may leave a stream open for ever. It only costs that
#: server a pass.
SDK_PATIENCE = 30.0


class Cell(NamedTuple):
    """A conversation of one client over one binding."""

    client: Side
    conversation: str


@dataclass
class Count:
    """The outcome of a server.

    held: all conversations. failures: the reason for each of them that did not pass. unanswered: the
    operations of each client that only got errors.
    """

    held: set[Cell] = field(default_factory=set)
    failures: dict[Cell, str] = field(default_factory=dict)
    unanswered: dict[Side, set[str]] = field(default_factory=dict)

    @property
    def passed(self) -> set[Cell]:
        return self.held - self.failures.keys()


class _Noting:
    """A service that notes the operations that are answered."""

    def __init__(self, service: Service, answered: set[str]) -> None:
        self._service, self._answered = service, answered

    async def unary(self, call: Call[Any, Any], /) -> Any:
        answer = await self._service.unary(call)
        self._answered.add(call.operation.name)
        return answer

    async def stream(self, call: Call[Any, Any], /) -> Events:
        async for event in self._service.stream(call):
            self._answered.add(call.operation.name)
            yield event


class _NotingCaller:
    """The same for a caller in the terms of 0.3."""

    def __init__(self, caller: Caller, answered: set[str]) -> None:
        self.operations = caller.operations
        self._caller, self._answered = caller, answered

    async def unary(self, operation: str, params: Any) -> Any:
        answer = await self._caller.unary(operation, params)
        self._answered.add(HUB[operation].name)
        return answer

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        async for event in self._caller.stream(operation, params):
            self._answered.add(HUB[operation].name)
            yield event


async def _held(conversation: Awaitable[None], lines: Lines, check: Check, limit: float) -> str:
    """Holds a conversation: the reason why it did not pass, or an empty text."""
    try:
        async with asyncio.timeout(limit):
            await conversation
    except TimeoutError:
        lines.append((STUCK, None))
    except Exception as error:  # noqa: BLE001  a conversation that breaks is an outcome, too
        return f"broke after {lines[-1:]}: {type(error).__name__}: {error}"
    try:
        check(Seen(lines))
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _of_client(client: Side, there: Running, peers: Peers, limit: float, count: Count) -> None:
    """All conversations of a client with a server."""
    answered: set[str] = set()
    address = there.interface(client.binding, client.version)
    holding: dict[str, Awaitable[str]] = {}
    if client.version == "1.0":
        described = card()
        described.supported_interfaces.append(address)
        operations = {one.name for one in ops.ALL}
        async with sdk_client(described, client.binding) as plain:
            for name, scenario in SCENARIOS.items():
                talk = hub_talk.Talk(Client(_Noting(plain, answered)))
                holding[name] = _held(scenario(talk), talk.lines, IN_1_0[name], limit)
            reasons = await asyncio.gather(*holding.values())
    else:
        async with calling(client, address, there.origin, peers) as calls:
            operations = {HUB[one].name for one in calls.operations}
            for name, one in CONVERSATIONS.items():
                if one.needs <= calls.operations:
                    told = transcript.Talk(_NotingCaller(calls, answered))
                    holding[name] = _held(one.hold(told), told.lines, IN_0_3[name], limit)
            reasons = await asyncio.gather(*holding.values())
    count.unanswered[client] = operations - answered
    for name, reason in zip(holding, reasons, strict=True):
        count.held.add(Cell(client, name))
        if reason:
            count.failures[Cell(client, name)] = reason


async def counted(server: Server, folder: Path, peers: Peers) -> Count:
    """The passes of a server, with every client over every binding."""
    count = Count()
    limit = SDK_PATIENCE if server.whose == "SDK" else PATIENCE
    # A server of 0.x mostly waits. That of 1.x works, and would lose passes to the load of all clients at once.
    some = asyncio.Semaphore(6 if server.executor == "0.3" else 1)

    async with running(server, folder) as there, asyncio.TaskGroup() as tasks:

        async def one(client: Side) -> None:
            async with some:
                await _of_client(client, there, peers, limit, count)

        for (who, version), binding in product(CLIENTS[server.executor], BINDINGS):
            tasks.create_task(one(Side(who, version, binding)))
    return count


async def counted_all(executors: Collection[str], peers: Peers) -> dict[Server, Count]:
    """The passes of the servers for executors of these majors."""
    counts = {}
    for server in SERVERS:
        if server.executor in executors:
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                counts[server] = await counted(server, Path(folder), peers)
            print(
                f"{server.executor} executor, {server}: {time.monotonic() - started:.0f} s", file=sys.stderr
            )
    return counts


def lost(counts: dict[Server, Count]) -> list[str]:
    """What passes before the SDK's server, and not before ours with the same executor."""
    found = []
    for server, count in counts.items():
        others = [other for other in counts if other.whose == "SDK" and other.executor == server.executor]
        kept = set().union(*(counts[other].passed for other in others))
        found += [
            f"{server.executor} executor, {server}: {cell.client}: {cell.conversation}: {count.failures[cell]}"
            for cell in sorted(kept & count.failures.keys(), key=str)
            if server.whose == "ours"
        ]
    return found


def table(counts: dict[Server, Count], executor: str) -> list[str]:
    """The rows of an executor: conversations of each client and, for each server, the bindings that pass."""
    servers = [one for one in counts if one.executor == executor]
    rows = [f"{f'executor of a2a-sdk {executor}':44}" + "".join(f"{one!s:>14}" for one in servers)]
    for who, version in CLIENTS[executor]:
        rows.append(f"client {who}, speaking {version}")
        names = IN_1_0 if version == "1.0" else IN_0_3
        for name in names:
            cells = [Cell(Side(who, version, binding), name) for binding in BINDINGS]
            held = [one for one in cells if any(one in counts[server].held for server in servers)]
            if held:
                passes = [len(counts[one].passed & set(held)) for one in servers]
                rows.append(f"  {name:42}" + "".join(f"{f'{n}/{len(held)}':>14}" for n in passes))
    totals = [f"{len(counts[one].passed)}/{len(counts[one].held)}" for one in servers]
    rows.append(f"{'all':44}" + "".join(f"{total:>14}" for total in totals))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.counted")
    parser.add_argument("--executor", choices=CLIENTS, action="append", help="of this major only")
    parser.add_argument("--reasons", action="store_true", help="also say why a conversation did not pass")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # of our server in this process: executors crash on purpose
    executors = arguments.executor or list(CLIENTS)
    with contextmanager(agents)() as agent, contextmanager(clients)() as client:
        counts = asyncio.run(counted_all(executors, Peers(agent, client)))
    for executor in executors:
        print("\n".join(table(counts, executor)), end="\n\n")
    if arguments.reasons:
        for server, count in counts.items():
            for cell, reason in count.failures.items():
                print(f"{server.executor} executor, {server}: {cell.client}: {cell.conversation}: {reason}")
    missing = lost(counts)
    for line in missing:
        print(f"lost: {line}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
