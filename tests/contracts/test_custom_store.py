"""The example of a store that is written with the base class passes its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_store"


def test_the_example_passes_its_own_tests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_store.py"],
        cwd=EXAMPLE,
        env=os.environ | {"PYTHONPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "87 passed" in done.stdout
