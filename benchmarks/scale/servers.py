"""Dimensions of a server: streams through a gateway, agents, callers and their rules."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.agents import AgentEntry, hosted, remote, serve_agents
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.auth.rules import Rule
from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import Candidate
from a2a_bridge.dialects import V1_0
from benchmarks.scale.dimension import Dimension, Window
from benchmarks.scale.hosted import TIMES, Made, make, options
from benchmarks.work import JSON_HEADERS, SEND, raw_bytes, send_json

CALL = raw_bytes({"jsonrpc": "2.0", "id": 1, "method": SEND, "params": send_json("x")})


@asynccontextmanager
async def gateway(_size: int, /, *, upstream: str) -> AsyncIterator[str]:
    """A gateway that reaches its agent over one binding. The agent is in the same process."""
    async with serve(Agent(Made(), name="Made"), [interface(upstream)], options()) as behind:
        at = interface(upstream, str(behind.grpc) if upstream == "GRPC" else f"http://{behind.http}")
        served = [interface("JSONRPC")]
        async with serve_gateway(behind.card, [Candidate(at, V1_0)], served, options()) as server:
            yield f"http://{server.http}"


@asynccontextmanager
async def with_keys(size: int, /, *, rules: bool) -> AsyncIterator[tuple[str, str]]:
    """A server that knows so many callers, by their keys, or one key and so many rules."""
    with tempfile.TemporaryDirectory() as folder:
        file = KeyFile(Path(folder) / "keys.json")
        made = file.create("first")
        tree = json.loads(file.path.read_bytes())
        # All have the same secret: making as many by the command would take minutes.
        records = [
            {**dataclasses.asdict(made.record), "id": f"key{number}"}
            for number in range(1 if rules else size)
        ]
        file.path.write_text(json.dumps({**tree, "keys": records}))
        last = tuple(
            Rule(("send",), principals=(f"caller-{number}",)) for number in range(size if rules else 0)
        )
        given = options(
            authentication=Authentication([ApiKeys(file)]),
            access_rules=(*last, Rule(("send",), principals=("first",))),
        )
        async with serve(Agent(Made(), name="Made"), [interface("JSONRPC")], given) as server:
            yield f"http://{server.http}", f"{records[-1]['id']}.{made.text.partition('.')[2]}"


@asynccontextmanager
async def agents(size: int, /) -> AsyncIterator[tuple[str, str]]:
    """So many hosted agents behind one server, which has a listener for operators."""
    given = options(admin=ListenAddress())
    entries = [
        hosted(f"agent-{number}", Agent(Made(), name=f"Agent {number}"), options()) for number in range(size)
    ]
    async with serve_agents(entries, given) as server:
        yield f"http://{server.http}", f"http://{server.admin}"


@asynccontextmanager
async def agents_behind(size: int, /) -> AsyncIterator[str]:
    """A gateway to so many agents, all at one address, which is in the same process."""
    async with serve(Agent(Made(), name="Made"), [interface("JSONRPC")], options()) as behind:
        at = Candidate(interface("JSONRPC", f"http://{behind.http}"), V1_0)
        entries: list[AgentEntry] = [
            remote(f"agent-{number}", behind.card, [at], options()) for number in range(size)
        ]
        async with serve_agents(entries, options()) as server:
            yield f"http://{server.http}"


async def open_streams(url: str, size: int, window: Window) -> None:
    """So many streams of tasks that go on, which are opened and stay open."""
    async with connect(url) as peer, AsyncExitStack() as stack:
        await _open_streams(peer, 10, stack)
        async with window():
            await _open_streams(peer, size, stack)


async def calls_beside(url: str, size: int, window: Window) -> None:
    """Calls while so many streams are open."""
    async with connect(url) as peer, AsyncExitStack() as stack:
        await _open_streams(peer, size, stack)
        async with window():
            for _ in range(TIMES):
                assert (await peer.send("x")).text == "x"


async def _open_streams(peer: Any, size: int, stack: AsyncExitStack) -> None:
    for _ in range(size):
        stream = await stack.enter_async_context(aclosing(peer.stream("hold")))
        await anext(stream)
        await anext(stream)


async def calls_with_key(where: tuple[str, str], _size: int, window: Window) -> None:
    """Calls of the last of the callers."""
    url, key = where
    await _repeat("POST", url + "/", window, headers={**JSON_HEADERS, "X-API-Key": key}, data=CALL)


async def calls_of_agent(where: tuple[str, str], size: int, window: Window) -> None:
    """Calls of the last of the agents."""
    url, _ = where
    await _repeat("POST", f"{url}/agents/agent-{size - 1}/", window, headers=JSON_HEADERS, data=CALL)


async def catalogue(where: tuple[str, str], _size: int, window: Window) -> None:
    """The list of all agents, as often as 20 people open it."""
    url, _ = where
    await _repeat("GET", f"{url}/agents", window, times=20)


async def scrape(where: tuple[str, str], _size: int, window: Window) -> None:
    """The metrics, as a scraper reads them ten times."""
    _, admin = where
    await _repeat("GET", f"{admin}/metrics", window, times=10)


async def _repeat(method: str, url: str, window: Window, *, times: int = TIMES, **request: Any) -> None:
    async def once() -> None:
        async with session.request(method, url, **request) as response:
            body = await response.read()
            assert response.status == 200, (response.status, body[:500])
            assert b'"error"' not in body[:100], body[:500]

    async with aiohttp.ClientSession() as session:
        await once()
        async with window():
            for _ in range(times):
                await once()


_FEW = (10, 40)
_CALLS = f"{TIMES} calls"
_STREAMS = (200, 600, 2_000)

ROWS = (
    *(
        Dimension(
            f"streams of a gateway, {binding} behind it", "opening them", _STREAMS, 1.0,
            partial(gateway, upstream=binding), open_streams, memory=1.0, small=_FEW,
        )
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    ),
    *(
        Dimension(
            f"streams of a gateway, {binding} behind it", f"{_CALLS} beside them", _STREAMS, 0.0,
            partial(gateway, upstream=binding), calls_beside, small=_FEW,
        )
        for binding in ("JSONRPC", "GRPC")
    ),
    Dimension(
        "chunks of an artifact, through a gateway", "one task", (3_000, 10_000, 30_000), 1.0,
        partial(gateway, upstream="JSONRPC"), partial(make, what="chunks"),
    ),
    Dimension("agents", "starting", (10, 100, 1_000), 1.0, agents, None, memory=1.0, small=_FEW),
    Dimension("agents", f"{_CALLS} of one", (10, 100, 1_000), 0.0, agents, calls_of_agent, small=_FEW),
    Dimension("agents", "GET /agents 20 times", (10, 100, 1_000), 1.0, agents, catalogue, small=_FEW),
    Dimension("agents", "GET /metrics 10 times", (10, 100, 1_000), 1.0, agents, scrape, small=_FEW),
    Dimension(
        "agents behind a gateway", "starting", (10, 100, 1_000), 1.0,
        agents_behind, None, memory=1.0, small=_FEW,
    ),
    Dimension("rules", _CALLS, (10, 1_000, 10_000), 0.0, partial(with_keys, rules=True), calls_with_key),
    Dimension("API keys", _CALLS, (10, 1_000, 10_000), 0.0, partial(with_keys, rules=False), calls_with_key),
)  # fmt: skip
