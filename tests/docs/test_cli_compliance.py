"""docs/reference/cli-compliance.yaml is complete, its counts are true, and the page says the same."""

from collections import Counter
from typing import Any

import yaml

from a2a_bridge.cli.specification import CODES, ERROR
from tests.tools.compliance import FILE, PAGE, SIZES, STATUSES, page, report
from tests.tools.specification import DEFAULTS, REQUIREMENTS, REVISION

MADE: dict[str, Any] = yaml.safe_load(FILE.read_text())


def test_every_requirement_has_a_status_and_a_note_unless_it_passes() -> None:
    assert list(MADE["requirements"]) == list(REQUIREMENTS)
    for name, row in MADE["requirements"].items():
        assert (row["tier"], row["requirement"]) == (REQUIREMENTS[name].tier, REQUIREMENTS[name].text)
        assert row["status"] in STATUSES
        assert row["status"] == "pass" or row["note"], name
        assert row["status"] != "pass" or row["evidence"], name


def test_the_counts_are_true() -> None:
    satisfied = True
    for tier, total in SIZES.items():
        found = Counter(row["status"] for row in MADE["requirements"].values() if row["tier"] == tier)
        row = MADE["summary"][f"tier_{tier}"]
        assert (row["total"], sum(found.values())) == (total, total)
        assert {name: row[name] for name in STATUSES} == {name: found[name] for name in STATUSES}
        satisfied = satisfied and found["pass"] + found["na"] == total
        assert row["satisfied"] is satisfied
    assert MADE["report"]["tier_claimed"] == sum(row["satisfied"] for row in MADE["summary"].values())
    assert MADE["report"]["spec_revision"] == REVISION
    assert list(MADE["default_001_breakdown"]) == list(DEFAULTS)
    assert list(MADE["error_codes"]) == [ERROR + name for name in CODES]


def test_the_page_is_made_from_the_report() -> None:
    assert PAGE.read_text() == page(MADE)


def test_a_status_can_fail() -> None:
    name = "A2ACLI_SEND_001"
    for outcome, status in (("passed", "pass"), ("failed", "fail"), ("skipped", "not_measured")):
        made = report({name: {"tests/a.py::test_a[x]": outcome, "tests/a.py::test_b": "passed"}})
        assert made["requirements"][name]["status"] == status
        assert made["summary"]["tier_1"]["satisfied"] is False
