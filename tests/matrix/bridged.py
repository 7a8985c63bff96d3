"""Runs cells of the version grid: an agent, a gateway to it in every version, and clients of the gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import product

import httpx

from a2a_bridge.app.runtime import Server, connect, serve_agent, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.agent import card, scripted_agent
from tests.interop.sdk_client import sdk_client
from tests.matrix.versions import BINDINGS, OURS, VERSIONS, Deviation, Side, expected_differences
from tests.patience import PATIENCE
from tests.peers.callers import LACKING, BareCaller, Caller, PeerCaller, ServiceCaller
from tests.peers.conversations import CONVERSATIONS
from tests.peers.faults import ALONE, Fault, differences, faults_of
from tests.peers.processes import Agent, PeerClient
from tests.peers.transcript import Lines, settled, transcripts

#: everything, newest first
EVERYWHERE = [
    interface(binding, version=version) for version, binding in product(reversed(VERSIONS), BINDINGS)
]
#: clients that run concurrently; the SDKs' agents spend most of the time waiting
AT_ONCE = 4
OPTIONS = DialOptions(timeout=PATIENCE)
#: for agents of the SDKs, which at 0.x take files as base64 text in the bytes of a2a.v1
BASE64 = replace(OPTIONS, base64_files=True)
#: agents that take the content of a file there, as in a2a.v1; a2a_bridge/peers shows the source
RAW = replace(OPTIONS, base64_files=False)
RAW_FILES = frozenset({"a2a-go 2.3.1 compat", "a2a-js 1.3.0 compat", "a2a-js 0.3.14"})


@dataclass(frozen=True)
class Peers:
    """The source of agents and clients of the SDKs (tests/peers/processes.py)."""

    agents: Callable[..., Agent]
    clients: Callable[[str], PeerClient]
    #: clients of other languages: a side that has one, and the origin of a card -> that client
    services: Callable[[Side, str], Service | None] = lambda _side, _origin: None


@dataclass(frozen=True)
class Upstream:
    """An agent: the interface to dial, its card's origin, and a caller without us that knows its answers."""

    interface: hub.AgentInterface
    origin: str
    bare: Caller
    options: DialOptions = OPTIONS


@dataclass(frozen=True)
class Result:
    """The result of a cell.

    lines: unexpected differences of the transcripts. excuses: the faults that explain the others. operations:
    the number of compared lines.
    """

    lines: tuple[str, ...]
    excuses: frozenset[Fault | Deviation] = frozenset()
    operations: int = 0


@asynccontextmanager
async def upstream(side: Side, peers: Peers) -> AsyncIterator[Upstream]:
    async with AsyncExitStack() as stack:
        if side.who == OURS:
            agent = scripted_agent()
            server = await stack.enter_async_context(serve_agent(agent, EVERYWHERE))
            near = await stack.enter_async_context(connect(agent))
            yield Upstream(found_in(server, side), f"http://{server.http}", ServiceCaller(near.service))
            return
        running = peers.agents(side.who)
        there = interface(side.binding, running.url(side.binding), version=side.version)
        if side.version == "1.0":
            # It has no 0.x interface: our own plain client is used.
            plain = interface("GRPC", running.url("GRPC"), version="1.0")
            dialled = find("GRPC").dial(plain, by_version("1.0"), OPTIONS)
            yield Upstream(there, running.http, ServiceCaller(await stack.enter_async_context(dialled)))
            return
        # Node.js closes idle connections after 5 seconds, and a busy machine may use one too late.
        limits = httpx.Limits(keepalive_expiry=1)
        client = httpx.AsyncClient(timeout=PATIENCE, verify=False, limits=limits)  # noqa: S501  no TLS
        http = await stack.enter_async_context(client)
        extended = f"{running.http}/agent/authenticatedExtendedCard" if side.version == "0.2.5" else ""
        options = RAW if side.who in RAW_FILES else BASE64
        yield Upstream(there, running.http, BareCaller(http, running.url("JSONRPC"), extended), options)


@asynccontextmanager
async def gateway(there: Upstream) -> AsyncIterator[Server]:
    """A gateway in every version and binding, to one interface of an agent."""
    described = card()
    described.supported_interfaces.append(there.interface)
    candidate = Candidate(there.interface, by_version(there.interface.protocol_version))
    async with serve_gateway(described, [candidate], EVERYWHERE, dial_options=there.options) as server:
        yield server


def found_in(server: Server, side: Side) -> hub.AgentInterface:
    wanted = by_version(side.version)
    return next(
        one
        for one in server.card.supported_interfaces
        if one.protocol_binding == side.binding and by_version(one.protocol_version) is wanted
    )


@asynccontextmanager
async def calling(
    side: Side, there: hub.AgentInterface, origin: str, peers: Peers, options: DialOptions = OPTIONS
) -> AsyncIterator[Caller]:
    """The client of a cell. Those of other programs know nothing but the origin, and read the card there."""
    if side.who == OURS:
        async with find(side.binding).dial(there, by_version(side.version), options) as service:
            yield ServiceCaller(service, "0.3" if side.version == "1.0" else side.version)
    elif (service := peers.services(side, origin)) is not None:
        yield ServiceCaller(service)
    elif side.who == "1.3.0":
        described = card()
        described.supported_interfaces.append(there)
        async with sdk_client(described, side.binding) as service:
            yield ServiceCaller(service, without=LACKING.get((side.version, side.binding), ()))
    else:
        yield PeerCaller(peers.clients(side.who), side.who, side.binding, origin=origin)


def judged(
    expected: dict[str, Lines], got: dict[str, Lines], client: Side, agent: Side, more: Iterable[Fault] = ()
) -> Result:
    """The comparison of a client's answers with those of the agent. more: faults besides those of the sides."""
    known = [*expected_differences(client, agent), *more]

    def found(excuses: list[Fault | Deviation]) -> tuple[str, ...]:
        return tuple(line for name in got for line in differences(name, expected[name], got[name], excuses))

    lines = found(known) if got else ("no conversation was possible",)
    needed = list(known)
    for one in known:
        others = [other for other in needed if other is not one]
        if found(others) == lines:
            needed = others
    # A conversation that was not begun cannot show that its fault is needed.
    needed += [one for one in known if isinstance(one, Fault) and one.endless and one not in needed]
    return Result(lines, frozenset(needed), sum(map(len, got.values())))


def held(client: Side) -> list[str]:
    endless = {
        one.conversation
        for one in expected_differences(client, client)
        if isinstance(one, Fault) and one.endless
    }
    return [name for name in CONVERSATIONS if name not in endless]


async def direct(client: Side, agent: Side, peers: Peers) -> Result:
    """The same without a gateway: both sides speak the same version over the same binding."""
    async with (
        upstream(agent, peers) as there,
        calling(client, there.interface, there.origin, peers, there.options) as caller,
    ):
        expected, got = await asyncio.gather(settled(there.bare), transcripts(caller, held(client)))
    alone = faults_of(ALONE, client.who, client.binding) if client == agent else ()
    return judged(expected, got, client, agent, alone)


async def compared(agent: Side, clients: Iterable[Side], peers: Peers) -> dict[Side, Result]:
    """For each client, the comparison of its answers through a gateway with those of the agent."""
    async with upstream(agent, peers) as there, gateway(there) as server, asyncio.TaskGroup() as tasks:
        expecting = tasks.create_task(settled(there.bare))
        some = asyncio.Semaphore(AT_ONCE)

        async def one(client: Side) -> Result:
            try:
                async with (
                    some,
                    calling(client, found_in(server, client), f"http://{server.http}", peers) as caller,
                ):
                    got = await transcripts(caller, held(client))
            except Exception as error:  # noqa: BLE001  a cell that breaks is a result, too
                return Result((f"broke: {type(error).__name__}: {error}",))
            return judged(await expecting, got, client, agent)

        results = {client: tasks.create_task(one(client)) for client in clients}
        await asyncio.gather(*results.values())
    return {client: task.result() for client, task in results.items()}
