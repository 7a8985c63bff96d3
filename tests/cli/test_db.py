"""`a2a-bridge db`: tables are made, checked, and rejected in plain words."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli.store_commands import db as app
from a2a_bridge.stores.sql.store import HEAD


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


def test_a_new_file_gets_its_tables(url: str) -> None:
    code, out, err = run("check", url)
    assert (code, out) == (2, "")
    assert f"a2a-bridge db upgrade {url}" in err
    assert run("upgrade", url)[:2] == (0, f"now at {HEAD}\n")
    code, out, _ = run("upgrade", url, "-o", "json")
    assert (code, json.loads(out)) == (0, {"before": HEAD, "now": HEAD})
    code, out, _ = run("check", url, "-o", "json")
    assert (code, json.loads(out)) == (0, {"found": HEAD, "needed": HEAD, "damaged": []})


@pytest.mark.parametrize(("number", "code"), [("0000", 1), ("9999", 1)])
def test_another_version_is_reported(url: str, tmp_path: Path, number: str, code: int) -> None:
    run("upgrade", url)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (number,))
        connection.commit()
    found, out, _ = run("check", url)
    assert found == code
    assert number in out
    if number == "9999":
        found, _, err = run("upgrade", url)
        assert found == 2
        assert "newer" in err


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", 2),
        ("memory://", 2),
        ("mysql://u:hidden@h/d", 2),
        ("postgresql://u:hidden@127.0.0.1:1/d", 3),
    ],
)
def test_an_unreachable_store_is_reported_without_secrets(url: str, code: int) -> None:
    for command in ("check", "upgrade"):
        found, out, err = run(command, url)
        assert (found, out) == (code, "")
        assert "error: " in err
        assert "hidden" not in err
        assert "--store" not in err  # which `db` has not


def test_a_database_of_something_else_is_left_alone(url: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("CREATE TABLE other (id)")
    for command in ("check", "upgrade"):
        code, _, err = run(command, url)
        assert code == 2
        assert "tables of another program" in err
