"""The tables of the grid of clients: what `make fronts` has recorded is what they say."""

import re
from pathlib import Path

from tests.fronts.grid.results import recorded
from tests.fronts.grid.table import GROUPS

PROGRAMS = Path(__file__).parent / "grid" / "programs"


def test_each_cell_is_recorded_as_the_table_says() -> None:
    found = recorded()
    assert list(found) == [one.program for group in GROUPS for one in group.clients]
    for group in GROUPS:
        names = [one.name for one in group.features]
        for client in group.clients:
            told = found[client.program]
            assert re.match(r"\d+\.\d+", told["version"])
            assert told["cells"] == {name: name not in client.refused for name in names}
            assert set(client.refused) <= set(names)


def test_each_program_is_in_a_table() -> None:
    files = {one.name for one in PROGRAMS.iterdir() if one.suffix in (".py", ".mjs")}
    assert files - {"tell.py", "tell.mjs"} == {one.program for group in GROUPS for one in group.clients}
