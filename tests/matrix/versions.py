"""The sides (implementation, version, binding) to try through a gateway; differences, with reasons."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product

from tests.peers.faults import (
    AGENT,
    CLIENT,
    Fault,
    Mask,
    faults_of,
    without_defaults,
    without_snapshots,
    without_unmapped,
)
from tests.peers.processes import AGENTS as AGENT_PROGRAMS
from tests.peers.processes import ALL as BINDINGS
from tests.peers.processes import CLIENTS as CLIENT_PROGRAMS

VERSIONS = ("0.2.5", "0.3", "1.0")
OURS = "ours"


@dataclass(frozen=True)
class Side:
    """who: "ours", or the release of a2a-sdk. version: of the protocol."""

    who: str
    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.who} {self.version} {self.binding}"


_OURS = [Side(OURS, version, binding) for version, binding in product(VERSIONS, BINDINGS)]

#: the newest SDK's client speaks 1.0, and 0.3 by its compatibility layer
CLIENTS = [
    *_OURS,
    *(
        Side(release, program.speaks, binding)
        for release, program in CLIENT_PROGRAMS.items()
        for binding in program.bindings
    ),
    *(Side("1.3.0", version, binding) for version, binding in product(("0.3", "1.0"), BINDINGS)),
]
AGENTS = [
    *_OURS,
    *(
        Side(release, program.speaks, binding)
        for release, program in AGENT_PROGRAMS.items()
        for binding in program.bindings
    ),
]


@dataclass(frozen=True)
class Exclusion:
    """Cells that are not tried. client, agent: shell patterns of the names of the sides."""

    reason: str
    client: str = "*"
    agent: str = "*"

    def covers(self, client: Side, agent: Side) -> bool:
        return fnmatchcase(str(client), self.client) and fnmatchcase(str(agent), self.agent)


#: none: all operations that a client and an agent share are tried, and each conversation names its needs
EXCLUSIONS: tuple[Exclusion, ...] = ()

CELLS = [
    (client, agent)
    for client, agent in product(CLIENTS, AGENTS)
    if not any(one.covers(client, agent) for one in EXCLUSIONS)
]


@dataclass(frozen=True)
class Deviation:
    """A difference from the agent's own answers, in its cells; `mask` as in tests/peers/faults.py."""

    reason: str
    mask: Mask
    client: str = "*"
    agent: str = "*"
    conversation: str = "*"
    label: str = "*"
    sometimes: bool = False

    def __str__(self) -> str:
        return f"{self.client} to {self.agent}: {self.reason}"

    def covers(self, client: Side, agent: Side) -> bool:
        return fnmatchcase(str(client), self.client) and fnmatchcase(str(agent), self.agent)


DEVIATIONS = (
    Deviation(
        "a gateway offers to resume the streams of any agent, and says so in its cards",
        without_unmapped,
        conversation="extended_card",
    ),
    Deviation(
        "a stream of 1.0 begins with a task or a message (spec 3.1.2): where the agent's does not, a task is made up",
        without_snapshots,
        client="* 1.0 *",
        agent="* 0.*",
    ),
    *(
        Deviation(
            "a2a.v1 has no place for what only 1.0 says: it travels in metadata, and in a card as an extension",
            without_unmapped,
            client=f"* 0.* {binding}",
        )
        for binding in ("HTTP+JSON", "GRPC")
    ),
    Deviation(
        "append and lastChunk have no absence in 1.0, which the newest SDK speaks inside",
        without_defaults,
        client="1.3.0 *",
        agent="* 0.*",
    ),
)


def expected_differences(client: Side, agent: Side) -> list[Fault | Deviation]:
    """All allowed differences; first the bridge's own, known by their marks in metadata."""
    return [
        *(one for one in DEVIATIONS if one.covers(client, agent)),
        *faults_of(CLIENT, _release(client), client.binding),
        *faults_of(AGENT, _release(agent), agent.binding),
    ]


def _release(side: Side) -> str:
    return "1.3.0 compat" if (side.who, side.version) == ("1.3.0", "0.3") else side.who


def short_cells() -> list[tuple[Side, Side]]:
    """Each client side and each agent side at least once, versions and bindings mixed as much as that allows."""
    count = max(len(CLIENTS), len(AGENTS))
    # A stride that shares no factor with the count visits every agent, and not the one in the same place.
    return [
        (CLIENTS[number % len(CLIENTS)], AGENTS[(number * 7 + 4) % len(AGENTS)]) for number in range(count)
    ]
