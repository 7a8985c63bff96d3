"""The deviations of the official SDK, with reasons: members of errors or lines that are not compared.

One that is no longer needed fails the test that uses it.
"""

import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub

Lines = list[tuple[str, Any]]


@dataclass(frozen=True)
class Deviation:
    """scenario, label: shell patterns. members: those of errors that are not compared; none: nothing is."""

    reason: str
    scenario: str
    label: str = "*"
    members: frozenset[str] = frozenset()

    def masked(self, lines: Lines) -> Lines:
        """The lines without the parts that are not compared."""
        return [
            (label, self._mask(outcome) if fnmatchcase(label, self.label) else outcome)
            for label, outcome in lines
            if self.members or not fnmatchcase(label, self.label)
        ]

    def _mask(self, outcome: Any) -> Any:
        if not isinstance(outcome, dict) or "error" not in outcome:
            return outcome
        error = {name: value for name, value in outcome["error"].items() if name not in self.members}
        return {"error": error}


#: of an agent of the SDK, for any client
AGENT_CRASHES = Deviation(
    "the SDK shows a crash of the agent in other words on each binding, on gRPC with the exception's class",
    "crashes",
    members=frozenset({"message"}),
)
AGENT_REPEATS_VIOLATIONS = Deviation(
    "the SDK's agent repeats the violations in the metadata, on the HTTP bindings only",
    "incomplete_requests",
    members=frozenset({"metadata"}),
)

#: of the SDK's client, with any agent
CLIENT_DROPS_DETAILS = Deviation(
    "the SDK's client has an exception for each error and drops most that came with it",
    "*",
    members=frozenset({"violations", "metadata", "details", "code", "name"}),
)
CLIENT_CRASHES = Deviation(
    "the SDK's client has no exception for an error without a reason, as its agent sends for a crash",
    "crashes",
    members=frozenset({"reason", "message"}),
)
CLIENT_BREAKS_LINES = Deviation(
    "the SDK's client ends lines of an event stream at U+2028, which its agent sends as it is",
    "line_ends_of_unicode",
    "stream*",
)


def differences(
    scenario: str, expected: Lines, got: Lines, deviations: Iterable[Deviation] = ()
) -> list[str]:
    """The differences without the deviations, and the deviations that are not needed."""
    fitting = [one for one in deviations if fnmatchcase(scenario, one.scenario)]
    found = [f"{scenario}: {text}" for text in _compared(*_masked(expected, got, fitting))]
    if not found:
        for one in fitting:
            others = [other for other in fitting if other is not one]
            if one.scenario != "*" and not _compared(*_masked(expected, got, others)):
                found.append(f"{scenario}: no longer true: {one.reason}")
    return found


def _masked(expected: Lines, got: Lines, deviations: Iterable[Deviation]) -> tuple[Lines, Lines]:
    for one in deviations:
        expected, got = one.masked(expected), one.masked(got)
    return expected, got


def _compared(expected: Lines, got: Lines) -> list[str]:
    found = [
        f"{want[0]}\n  expected {want}\n  got      {have}"
        for want, have in zip(expected, got, strict=False)
        if want != have
    ]
    if len(expected) != len(got):
        found.append(f"{len(expected)} lines expected, got {len(got)}: {got[len(expected) :]}")
    return found[:1]


# Agents of the official SDK as processes, one per set of bindings and test process.


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
