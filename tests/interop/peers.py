"""Agents of the official SDK as processes, one per set of bindings and test process.

Fixtures for other folders: `from tests.interop.peers import sdk_agents`.
"""

import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub

AGENT = Path(__file__).with_name("sdk_agent.py")
ALL_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: time limit in seconds for the ready line, also on a busy machine
START = 240.0


@dataclass(frozen=True)
class Peer:
    """A running agent: the addresses of its bindings."""

    http: str
    grpc: str
    bindings: tuple[str, ...]

    def interface(self, binding: str) -> hub.AgentInterface:
        url = {"JSONRPC": self.http + "/", "HTTP+JSON": self.http, "GRPC": self.grpc}[binding]
        return hub.AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")

    def card(self) -> hub.AgentCard:
        """The card as far as clients need it to choose and to check capabilities."""
        return hub.AgentCard(
            name="peer",
            version="1.2.3",
            supported_interfaces=[self.interface(binding) for binding in self.bindings],
            capabilities=hub.AgentCapabilities(
                streaming=True, push_notifications=True, extended_agent_card=True
            ),
        )


@contextmanager
def sdk_agent(*bindings: str) -> Iterator[Peer]:
    """Runs sdk_agent.py until the block ends."""
    arguments = [part for binding in bindings for part in ("--binding", binding)]
    process = subprocess.Popen(
        [sys.executable, str(AGENT), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, ExitStack() as stop:
        stop.callback(_stop, process)
        words = dict(word.partition("=")[::2] for word in _first_line(process).split())
        assert "ready" in words
        yield Peer(words.get("http", ""), words.get("grpc", ""), bindings)


def _first_line(process: subprocess.Popen[str]) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(START), "the agent did not start"
    return process.stdout.readline()


def _stop(process: subprocess.Popen[str]) -> None:
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.fixture(scope="session")
def sdk_agents() -> Iterator[Callable[..., Peer]]:
    """`sdk_agents("JSONRPC")` is a running agent with that binding only; without a name, with all three."""
    running: dict[tuple[str, ...], Peer] = {}
    with ExitStack() as stack:

        def get(*bindings: str) -> Peer:
            wanted = bindings or ALL_BINDINGS
            if wanted not in running:
                running[wanted] = stack.enter_context(sdk_agent(*wanted))
            return running[wanted]

        yield get
