"""The default store of `serve`."""

import stat
from pathlib import Path

import pytest
import typer

from a2a_bridge import agent
from a2a_bridge.cli.server_options import FOLDER, file_name, store_url


@agent
async def parrot(text: str) -> str:
    """Repeats."""
    return text


def test_a_file_of_the_agents_name_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_url("", parrot) == "sqlite:///.a2a-bridge/parrot.db"
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert store_url("", parrot) == "sqlite:///.a2a-bridge/parrot.db"


def test_a_given_store_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_url("memory://", parrot) == "memory://"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Weather Agent", "wétter", "../../etc/passwd", "", "..", "x" * 300, "a/b"])
def test_any_name_becomes_a_file_name_of_its_own(name: str) -> None:
    made = file_name(name)
    assert made == Path(made).name
    assert made.isascii()
    assert len(made) <= 64
    assert not made.startswith(".")
    assert made != file_name(name + "!")


def test_names_that_can_be_file_names_stay() -> None:
    assert [file_name(name) for name in ("weather", "Weather-2.1_b")] == ["weather.db", "Weather-2.1_b.db"]


def test_a_folder_that_cannot_be_created_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    FOLDER.write_text("in the way")
    with pytest.raises(typer.Exit):
        store_url("", parrot)
    assert "--store" in capsys.readouterr().err
