"""The scripted executors of both majors of the SDK, before our server and before the SDK's own. No tests."""

import os
import sysconfig
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from a2a_bridge import Agent
from a2a_bridge.app.runtime import ServeOptions, connect, serve_agent
from a2a_bridge.cards import interface
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.interop.sdk_agent import ScriptedExecutor, card
from tests.matrix.bridged import EVERYWHERE
from tests.peers.processes import AGENTS, ALL, ROOT, python_of, started
from tests.peers.processes import Agent as PeerAgent

#: what the environment of a2a-sdk 0.3 lacks for our server
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "transports"), sysconfig.get_path("purelib")])


def hosted() -> Agent:
    """The scripted agent, as an executor of a2a-sdk 1.x with cards of that SDK."""
    extended = card([], "Scripted (ours)")
    extended.skills.add(id="more", name="More", description="For those who may", tags=["extended"])
    return Agent(ScriptedExecutor, card=card([], "Scripted (ours)"), extended_card=extended)


def url_of(store: str, folder: Path) -> str:
    return f"sqlite:///{folder / 'tasks.db'}" if store == "sqlite" else "memory://"


def options(store: str, folder: Path) -> ServeOptions:
    return ServeOptions(store=url_of(store, folder))


@asynccontextmanager
async def hosted_0_3(store: str, folder: Path) -> AsyncIterator[tuple[str, hub.AgentCard]]:
    """The scripted executor of a2a-sdk 0.3 on our engine, in a process with that SDK: its origin and card."""
    python = python_of("0.3", same=True)
    program = str(ROOT / "tests" / "peers" / "executor_0_3.py")
    with started((python, program, PATHS, url_of(store, folder))) as (_, words):
        async with connect(words["http"]) as peer:
            yield words["http"], peer.card


@dataclass(frozen=True)
class Server:
    """executor: the major of the SDK. whose: "SDK" or "ours". store: "memory" or "sqlite"."""

    executor: str
    whose: str
    store: str

    def __str__(self) -> str:
        return f"{self.whose}, {self.store}"


#: The environment of a2a-sdk 0.3 has no SQLAlchemy, so that its server keeps tasks in memory only.
SERVERS = (
    *(Server("1.x", *where) for where in product(("SDK", "ours"), ("memory", "sqlite"))),
    Server("0.3", "SDK", "memory"),
    *(Server("0.3", "ours", store) for store in ("memory", "sqlite")),
)


@dataclass(frozen=True)
class Running:
    """A running server: the origin of its card, and its interfaces."""

    origin: str
    interfaces: tuple[hub.AgentInterface, ...]

    def interface(self, binding: str, version: str) -> hub.AgentInterface:
        return next(
            one
            for one in self.interfaces
            if (one.protocol_binding, one.protocol_version) == (binding, version)
        )


@asynccontextmanager
async def running(server: Server, folder: Path) -> AsyncIterator[Running]:
    """The server, until the block ends. folder: for the file of its store."""
    async with AsyncExitStack() as stack:
        if server.whose == "SDK":
            release = "0.3.26" if server.executor == "0.3" else "1.3.0 compat"
            kept = ("--sqlite", str(folder / "sdk.db")) if server.store == "sqlite" else ()
            _, words = stack.enter_context(started((*AGENTS[release].command, *kept)))
            agent = PeerAgent(release, words["http"], words["grpc"], ALL)
            versions = ("0.3",) if server.executor == "0.3" else ("1.0", "0.3")
            there = [
                interface(binding, agent.url(binding), version=version)
                for version, binding in product(versions, ALL)
            ]
            yield Running(agent.http, tuple(there))
        elif server.executor == "0.3":
            origin, described = await stack.enter_async_context(hosted_0_3(server.store, folder))
            yield Running(origin, tuple(described.supported_interfaces))
        else:
            opening = serve_agent(hosted(), EVERYWHERE, options(server.store, folder))
            ours = await stack.enter_async_context(opening)
            yield Running(f"http://{ours.http}", tuple(ours.card.supported_interfaces))
