"""The tables that a run of the SDKs of other languages writes into docs/reference/sdks.md."""

from datetime import date

from tests.matrix.bridged import Result
from tests.matrix.versions import OURS, Side
from tests.peers.faults import AGENT, Fault, nothing
from tests.sdks.programs import Sdk
from tests.sdks.table import BEGIN, DIRECT, END, PAGE, SERVED, THROUGH, table, written

SDK = Sdk("a2a-x 1", "x", "x", "x", (), ("x",), (("1.0", (), ("JSONRPC", "GRPC")),))
THEIRS = Side("a2a-x 1", "1.0", "JSONRPC")
ALSO = Side("a2a-x 1", "1.0", "GRPC")
MINE = Side(OURS, "1.0", "JSONRPC")
FAULT = Fault("answers a|b (x.go, F)", AGENT, "a2a-x 1", ("JSONRPC",), nothing)


def lines(*cells: tuple[str, Side, Side, Result]) -> list[str]:
    tried = {(way, client, agent): result for way, client, agent, result in cells}
    return table([SDK], tried, date(2026, 11, 22)).splitlines()


def test_the_cells_of_a_side() -> None:
    right, excused, wrong = Result((), operations=3), Result((), frozenset({FAULT}), 2), Result(("x",))
    shown = lines(
        (DIRECT, THEIRS, THEIRS, right),
        (SERVED, THEIRS, MINE, wrong),
        (SERVED, MINE, THEIRS, excused),
        (THROUGH, THEIRS, MINE, right),
        (THROUGH, THEIRS, ALSO, wrong),
        (THROUGH, MINE, THEIRS, excused),
    )
    assert shown[0] == "The last run, of 2026-11-22: 6 cells, 10 operations, 2 of the cells differ."
    assert "| a2a-x 1 | 1.0 | JSONRPC | yes | no | yes* | 1 of 2 | yes* |" in shown
    assert "| a2a-x 1 | 1.0 | GRPC | - | - | - | - | no |" in shown
    assert shown[-1] == "| a2a-x 1 | agent | JSONRPC | answers a\\|b (x.go, F) |"


def test_faults_of_others_are_not_listed() -> None:
    other = Fault("another", AGENT, "1.3.0", ("GRPC",), nothing)
    shown = lines((THROUGH, THEIRS, MINE, Result((), frozenset({other}), 1)))
    assert not any("another" in line for line in shown)


def test_the_page_keeps_the_text_around_its_tables() -> None:
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    assert written(written(page, "old\n"), "new\n") == written(page, "new\n")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    assert written(page, "new\n").startswith(before)
    assert written(page, "new\n").endswith(after)
