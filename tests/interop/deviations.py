"""The deviations of the official SDK, with reasons: members of errors or lines that are not compared.

One that is no longer needed fails the test that uses it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.peers.processes import Agent

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


# Agents of the official SDK 1.x: those of `peer_agents`, with what clients need of their cards.


ALL_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


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


@pytest.fixture(scope="session")
def sdk_agents(peer_agents: Callable[..., Agent]) -> Callable[..., Peer]:
    """`sdk_agents("JSONRPC")` is a running agent with that binding only; without a name, with all three."""

    def get(*bindings: str) -> Peer:
        agent = peer_agents("1.3.0", *bindings)
        return Peer(agent.http, agent.grpc, agent.bindings)

    return get
