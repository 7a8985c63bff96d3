"""Every two members of a cell are tried together."""

from dataclasses import astuple
from itertools import combinations, product

from tests.matrix.cells import AGENTS, BINDINGS, CELLS, CLIENTS


def test_each_two_members_meet_in_every_combination() -> None:
    members = (AGENTS, BINDINGS, BINDINGS, CLIENTS)
    for one, other in combinations(range(len(members)), 2):
        met = {(astuple(cell)[one], astuple(cell)[other]) for cell in CELLS}
        assert met == set(product(members[one], members[other]))
    assert len(CELLS) == len(set(CELLS))
