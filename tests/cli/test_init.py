"""`a2a-bridge init`: each kind of project has an agent that is served and a test that passes; nothing is overwritten."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.cli.starter_files import KINDS, files_of
from tests.cli.commands import ANY_PORT, command, serving
from tests.patience import PATIENCE

pytestmark = pytest.mark.process
#: langgraph is not here; `make frameworks` has its agents
HERE = [name for name in KINDS if name != "langgraph"]


@pytest.mark.parametrize("kind", HERE)
async def test_a_project_is_tested_and_served_at_once(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "My Desk_2"
    made = await command("init", str(folder), "--kind", kind)
    assert made.code == 0, made.err
    assert sorted(made.out.split("\n")[:-1]) == sorted(str(path) for path in folder.iterdir())
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "my-desk"
    done = subprocess.run(  # noqa: ASYNC221  nothing else runs
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout
    settings = ("--config", str(folder / "bridge.toml"))
    async with serving("serve", str(folder / "agent.py"), *settings, *ANY_PORT) as running:
        assert (await command("send", "-a", running.http, "hello", "-q")).out.strip() == "hello"


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_a_kind_are_valid(kind: str) -> None:
    files = files_of(kind, "desk", "1.0")
    assert not [name for name, text in files.items() if "$" in text]
    assert tomllib.loads(files["bridge.toml"])["http"] == "127.0.0.1:8080"
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text("mine")
    done = CliRunner().invoke(app, ["init"])
    assert done.exit_code == 2
    assert "has agent.py already, and nothing is overwritten" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
    assert (tmp_path / "agent.py").read_text() == "mine"
    for words, text in (
        (["agent.py"], "cannot be written"),
        (["x", "--kind", "crew"], "'crew'"),
        (["x", "--name", "My Desk"], "is no name of a project"),
        (["x", "y"], "unexpected extra argument"),
        (["x", "--knd", "program"], "--kind"),
    ):
        done = CliRunner().invoke(app, ["init", *words])
        assert (done.exit_code, text in done.output) == (2, True), done.output
    assert not (tmp_path / "x").exists()
