"""`a2a-bridge push`: numbers at their limits."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli.store_commands import db, push

#: larger than every integer of a database
HUGE = str(2**63)


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert CliRunner().invoke(db, ["upgrade", url]).exit_code == 0
    return url


@pytest.mark.parametrize(
    ("words", "code", "document"),
    [
        (("list", "--limit", HUGE), 0, {"notifications": []}),
        (("list", "--after", HUGE), 0, {"notifications": []}),
        (("retry", HUGE), 1, {"retried": 0}),
    ],
    ids=["limit", "after", "retry"],
)
def test_a_number_that_no_row_can_have(
    store: str, words: tuple[str, ...], code: int, document: object
) -> None:
    done = CliRunner().invoke(push, [*words, "--store", store, "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)) == (code, document)
