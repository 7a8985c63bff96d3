"""The table of pairs of bounds is complete: see `pairs.py`, which proves it."""

from tests.limits.pairs import ROOT, SHOWN, found


def test_every_side_of_a_pair_of_bounds_is_in_the_table() -> None:
    known = {(file, side) for file, sides in SHOWN.items() for side in sides}
    assert {(one.file, side) for one in found() for side in one.sides} == known


def test_the_tests_of_the_table_exist() -> None:
    for test in (test for sides in SHOWN.values() for test in sides.values()):
        if test.startswith("#"):
            assert len(test) > 20, "a side that no test can see has its reason"
            continue
        file, *_, name = test.split("::") if "::" in test else (test, "")
        assert (ROOT / file).exists(), test
        assert not name or f"def {name}(" in (ROOT / file).read_text(), test
