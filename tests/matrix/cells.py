"""Cells (client, front, gateway, binding to the agent) and their expected differences, with reasons."""

from dataclasses import dataclass
from itertools import product

from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.interop import deviations as known
from tests.interop.deviations import Deviation

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
AGENTS = ("ours", "sdk")
CLIENTS = ("ours", "sdk")


@dataclass(frozen=True)
class Cell:
    """agent, client: implementations. front: the client's binding; upstream: the agent's."""

    agent: str
    upstream: str
    front: str
    client: str

    def __str__(self) -> str:
        return f"{self.client} client-{self.front}-gateway-{self.upstream}-{self.agent} agent"


def _cells() -> list[Cell]:
    """Every front with every upstream. Any two members of a cell meet in all combinations: the columns are those
    of an orthogonal array of nine rows and four factors. The official SDK has two thirds of the rows.
    """
    found = []
    for upstream, front in product(range(3), range(3)):
        agent = "sdk" if (upstream + front) % 3 else "ours"
        # Our own client has another binding than the agent's: a fault of it would show on both sides otherwise.
        client = "ours" if (upstream + 2 * front) % 3 == 1 else "sdk"
        found.append(Cell(agent, BINDINGS[upstream], BINDINGS[front], client))
    return found


CELLS = _cells()

GATEWAY_CHECKS = Deviation(
    "a gateway rejects an incomplete request itself, in its own words",
    "incomplete_requests",
    members=frozenset({"message", "violations", "metadata"}),
)
GATEWAY_CHECKS_PARTS = Deviation(
    "a gateway rejects a part without content, which the SDK's agent takes",
    "incomplete_requests",
    "*empty part*",
)


def of(card: hub.AgentCard, binding: str) -> hub.AgentInterface:
    """The interface of a card for a binding."""
    return next(one for one in card.supported_interfaces if one.protocol_binding == binding)


def deviations(cell: Cell) -> list[Deviation]:
    """The allowed differences of a cell from our client without a gateway, over the cell's upstream."""
    found = []
    if cell.agent == "sdk":
        found += [GATEWAY_CHECKS, GATEWAY_CHECKS_PARTS]
    if (cell.agent, cell.upstream) == ("sdk", "GRPC"):
        # It says nothing about its crash there, and the gateway says that its agent has failed.
        found.append(known.AGENT_CRASHES)
    if cell.client == "sdk":
        found.append(known.CLIENT_DROPS_DETAILS)
    return found
