"""The compliance report of the client commands: `make cli` runs the tests of the requirements and writes it.

A status comes from tests marked `requirement`: `fail` if one fails, `not_measured` if one was skipped or
there is none. What is not `pass` has a note. docs/reference/cli-compliance.yaml has the shape of
compliance-report.template.yaml; the page cli-compliance.md is made from it.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_bridge.cli.specification import CODES, ERROR
from a2a_bridge.core.options import CLIENT_PREFIX
from tests.tools.specification import DEFAULTS, NOTES, REQUIREMENTS, REVISION, VERSION

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "reference/cli-compliance.yaml"
PAGE = ROOT / "docs" / "reference/cli-compliance.md"
TESTS = "tests/tools/client"
#: why a requirement has no test
MISSING = "there is no such command yet, or no test shows it"
STATUSES = ("pass", "partial", "fail", "not_measured", "na")
SIZES = {1: 39, 2: 15, 3: 12}


class Outcomes:
    """A plugin of pytest: the outcomes of the tests, by requirement."""

    def __init__(self) -> None:
        self.by_requirement: dict[str, dict[str, str]] = defaultdict(dict)
        self._requirements: dict[str, list[str]] = {}
        self.failed_codes: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            names = [
                CLIENT_PREFIX + name for marker in item.iter_markers("requirement") for name in marker.args
            ]
            self._requirements[item.nodeid] = names

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        for name in self._requirements.get(report.nodeid, ()):
            if self.by_requirement[name].get(report.nodeid) != "failed":
                self.by_requirement[name][report.nodeid] = report.outcome


def status_of(outcomes: Mapping[str, str]) -> tuple[str, str | None]:
    """Status and note of a requirement, from the outcomes of its tests."""
    counts = Counter(outcomes.values())
    if counts["failed"]:
        first = next(name for name, one in outcomes.items() if one == "failed")
        return "fail", f"{counts['failed']} of {len(outcomes)} tests fail; the first is {first}"
    if not outcomes:
        return "not_measured", MISSING
    if counts["skipped"]:
        return "not_measured", f"{counts['skipped']} of {len(outcomes)} tests were skipped"
    return "pass", None


def report(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    today = datetime.now(UTC).date().isoformat()
    requirements = {}
    for name, one in REQUIREMENTS.items():
        status, note = status_of(outcomes.get(name, {}))
        note = note or NOTES.get(name)
        tests = sorted({test.partition("::")[2].partition("[")[0] for test in outcomes.get(name, {})})
        requirements[name] = {
            "tier": one.tier,
            "area": one.area,
            "spec": one.spec,
            "requirement": one.text,
            "status": status,
            "note": note,
            "evidence": f"{TESTS}: {', '.join(tests)} ({len(outcomes.get(name, {}))} runs)"
            if tests
            else None,
        }
    summary, satisfied = {}, True
    for tier, total in SIZES.items():
        counts = Counter(one["status"] for one in requirements.values() if one["tier"] == tier)
        satisfied = satisfied and counts["pass"] + counts["na"] == total
        summary[f"tier_{tier}"] = {
            "total": total,
            **{name: counts[name] for name in STATUSES},
            "satisfied": satisfied,
        }
    claimed = max((tier for tier in SIZES if summary[f"tier_{tier}"]["satisfied"]), default=0)
    shipped = requirements[f"{CLIENT_PREFIX}DEFAULT_001"]["status"] == "pass"
    codes = requirements[f"{CLIENT_PREFIX}EXIT_001"]["status"] == "pass"
    return {
        "report": {
            "tool": "a2a-bridge",
            "tool_version": version("a2a-transport-bridge"),
            "language": "Python",
            "repository": "a2a-bridge",
            "maintainer": "the authors of a2a-bridge",
            "report_date": today,
            "spec_version": VERSION,
            "spec_revision": REVISION,
            "a2a_versions": ["1.0", "0.3"],
            "agent_tested": "a2a-bridge server; agents of a2a-sdk 1.3.0 and 0.3.26",
            "agent_tck_conformant": "unknown",
            "transports_covered": ["HTTP+JSON", "JSON-RPC", "gRPC"],
            "tier_claimed": claimed,
            "designation": "conformant",
        },
        "summary": summary,
        "requirements": requirements,
        "default_001_breakdown": {
            name: {"shipped": shipped, "overridable": shipped, "note": f"{flag} overrides it"}
            for name, flag in DEFAULTS.items()
        },
        "error_codes": {
            ERROR + name: {"emitted": codes, "note": f"exit code {exit_}"} for name, exit_ in CODES.items()
        },
        "attestation": {
            "reported_by": "make cli",
            "date": today,
            "statement": "The statuses are the outcomes of tests against live agents.",
        },
    }


def page(made: Mapping[str, Any]) -> str:
    head = made["report"]
    lines = [
        "# The command line, measured",
        "",
        f"The client commands against the specification of an A2A command line, {head['spec_version']} of {head['spec_revision']}.",
        f"Measured on {head['report_date']} with {head['agent_tested']},",
        f"over {', '.join(head['transports_covered'])}. `make cli` writes this page and [the report](cli-compliance.yaml) from the",
        f"outcomes of tests (`{TESTS}`). Tier claimed: {head['tier_claimed']}.",
        "",
        "| tier | requirements | "
        + " | ".join(name.replace("_", " ") for name in STATUSES)
        + " | satisfied |",
        "|---|---|" + "---|" * (len(STATUSES) + 1),
    ]
    for name, row in made["summary"].items():
        cells = [name[-1], row["total"], *(row[one] for one in STATUSES), "yes" if row["satisfied"] else "no"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| identifier | tier | requirement | status | note |", "|---|---|---|---|---|"]
    for name, row in made["requirements"].items():
        text = row["requirement"].replace("|", "\\|")
        status = row["status"].replace("_", " ")
        lines.append(f"| `{name}` | {row['tier']} | {text} | {status} | {row['note'] or ''} |")
    return "\n".join(lines) + "\n"


def write(made: Mapping[str, Any]) -> None:
    FILE.write_text(yaml.safe_dump(dict(made), sort_keys=False, allow_unicode=True, width=110))
    PAGE.write_text(page(made))


def main() -> int:
    """Runs the tests and writes both files. 0 if no test failed."""
    outcomes = Outcomes()
    code = pytest.main(
        ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", TESTS, *sys.argv[1:]], plugins=[outcomes]
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return int(code)
    made = report(outcomes.by_requirement)
    write(made)
    for name, row in made["summary"].items():
        print(name, row)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
