"""The table of requirements names tests that exist, and links that can be followed."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from a2a_bridge.testing.each import each
from tests.requirements import REQUIREMENTS, Requirement, summary

ROOT = Path(__file__).parents[2]


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@each("row", [pytest.param(row, id=row.id) for row in REQUIREMENTS])
def test_the_tests_of_a_requirement_exist(row: Requirement) -> None:
    for name in row.tests:
        file, _, function = name.partition("::")
        path = ROOT / file if file.startswith("a2a_bridge/") else ROOT / "tests" / file
        assert path.is_file(), f"{row.id}: there is no {file}"
        assert function in functions(path), f"{row.id}: {file} has no {function}"


@each("row", [pytest.param(row, id=row.id) for row in REQUIREMENTS])
def test_a_row_is_complete(row: Requirement) -> None:
    assert bool(row.tests) is not bool(row.gap), "either tests or the reason why there are none"
    assert re.fullmatch(r"\d+(\.\d+)*", row.section)
    assert row.behaviour.endswith(".")
    assert row.link.startswith("https://github.com/a2aproject/A2A/blob/v")


def test_ids_are_unique() -> None:
    ids = [row.id for row in REQUIREMENTS]
    assert len(ids) == len(set(ids))


def test_the_summary_names_each_gap() -> None:
    shown = Requirement("a", "1", "A.", ("b::c",))
    lines = summary([shown, Requirement("d", "8.4", "D.", gap="not done")])
    assert lines[0] == "2 required behaviours, 1 tests that show them, 1 gaps"
    assert lines[1:] == [f"gap: D. ({shown.link}, section 8.4): not done"]
