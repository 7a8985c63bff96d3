"""The committed protobuf modules and models match proto/, and differences are noticed."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, run

GENERATE = ROOT / "proto" / "generate.py"
MODELS = ROOT / "proto" / "models.py"
DIALECTS = ROOT / "a2a_bridge" / "dialects"
COMMITTED = ROOT / "a2a_bridge" / "pb"


def test_committed_modules_are_current() -> None:
    done = run(sys.executable, GENERATE, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_committed_models_are_current() -> None:
    done = run(sys.executable, MODELS, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_change_of_the_models_is_named(tmp_path: Path) -> None:
    for version in ("v0_3", "v0_2_5"):
        shutil.copytree(DIALECTS / version, tmp_path / version)
    models = tmp_path / "v0_2_5" / "models.py"
    models.write_text(models.read_text().replace("id: Text", "id: Flag"))
    done = run(sys.executable, MODELS, "--check", tmp_path)
    assert done.returncode == 1
    assert "committed/v0_2_5" in done.stderr
    assert "committed/v0_3" not in done.stderr


@pytest.mark.parametrize("name", ["descriptors.binpb", "lf_a2a_v1.py", "lf_a2a_v1.pyi", "google_rpc.py"])
def test_drift_of_one_file_is_named(tmp_path: Path, name: str) -> None:
    copy = shutil.copytree(COMMITTED, tmp_path / "pb")
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data + b"\n")
    done = run(sys.executable, GENERATE, "--check", copy)
    assert done.returncode == 1
    assert name in done.stderr
    assert (copy / name).read_bytes() == data + b"\n", "--check must not write"


def test_a_missing_file_is_drift(tmp_path: Path) -> None:
    copy = shutil.copytree(COMMITTED, tmp_path / "pb")
    (copy / "google_rpc.pyi").unlink()
    assert run(sys.executable, GENERATE, "--check", copy).returncode == 1


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        assert run(sys.executable, GENERATE, folder, PYTHONHASHSEED=seed).returncode == 0
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) <= {path.name for path in COMMITTED.iterdir()}
