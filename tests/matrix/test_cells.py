"""The matrix is complete: three fronts, three upstreams, both agents, both clients, no silent gaps."""

from __future__ import annotations

from tests.matrix.cells import ALL_CELLS, CELLS, EXCLUSIONS


def test_every_cell_is_tried_or_excluded_for_a_reason() -> None:
    assert len(ALL_CELLS) == len(set(ALL_CELLS)) == 2 * 3 * 3 * 2
    for cell in set(ALL_CELLS) - set(CELLS):
        assert any(one.covers(cell) and one.reason for one in EXCLUSIONS), cell
    assert all(any(one.covers(cell) for cell in ALL_CELLS) for one in EXCLUSIONS)
