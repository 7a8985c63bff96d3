"""The short form of the version grid: each client and each agent at least once. `make matrix` runs every
cell.
"""

from collections.abc import Callable

import pytest

from tests.matrix.bridged import Peers, compared
from tests.matrix.versions import (
    AGENTS,
    BINDINGS,
    CELLS,
    CLIENTS,
    DEVIATIONS,
    EXCLUSIONS,
    OURS,
    VERSIONS,
    Side,
    short_cells,
)
from tests.peers.processes import Agent, PeerClient

pytestmark = pytest.mark.sdk


@pytest.mark.parametrize(
    ("client", "agent"), [pytest.param(*cell, id=f"{cell[0]} to {cell[1]}") for cell in short_cells()]
)
async def test_the_output_equals_the_agents_answers(
    client: Side, agent: Side, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    found = await compared(agent, [client], Peers(peer_agents, peer_clients))
    assert not found[client].lines, "\n".join(found[client].lines)


def test_every_version_and_binding_stands_on_both_sides() -> None:
    for sides in (CLIENTS, AGENTS):
        ours = {(one.version, one.binding) for one in sides if one.who == OURS}
        assert ours == {(version, binding) for version in VERSIONS for binding in BINDINGS}
        assert {one.who for one in sides} >= {OURS, "0.2.16", "0.3.26", "1.3.0"}
        assert len(sides) == len(set(sides))


def test_every_cell_is_tried_or_excluded_for_a_reason() -> None:
    assert len(CELLS) == len(set(CELLS))
    left_out = {(client, agent) for client in CLIENTS for agent in AGENTS} - set(CELLS)
    assert all(any(one.covers(*cell) and one.reason for one in EXCLUSIONS) for cell in left_out)
    assert all(any(one.covers(*cell) for cell in left_out) for one in EXCLUSIONS)


def test_every_deviation_is_of_cells_that_are_tried() -> None:
    assert all(one.reason and any(one.covers(*cell) for cell in CELLS) for one in DEVIATIONS)


def test_the_short_form_has_every_client_and_every_agent() -> None:
    assert {client for client, _ in short_cells()} == set(CLIENTS)
    assert {agent for _, agent in short_cells()} == set(AGENTS)
