"""The files of the repository, and how to run a tool of its environment. No tests."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: Folders with Python source of ours.
SOURCES = (
    "a2a_bridge",
    "transports",
    "tools",
    "adapters",
    "proto",
    "release",
    "tests",
    "benchmarks",
    "examples",
)
#: those that users install
PRODUCT = ("a2a_bridge", "transports", "tools", "adapters")
#: The output of proto/generate.py and proto/models.py.
GENERATED = {
    *(ROOT / "a2a_bridge" / "pb" / f"{name}.py" for name in ("lf_a2a_v1", "google_rpc")),
    *(ROOT / "a2a_bridge" / "dialects" / name / "models.py" for name in ("v0_3", "v0_2_5")),
}


def pyproject(folder: str = "") -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))


def modules() -> list[Path]:
    """Every Python module that is not generated."""
    return sorted(
        path
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if path not in GENERATED and "__pycache__" not in path.parts
    )


def run(*command: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end with both outputs as text; does not judge its exit code."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
