"""The distribution `a2a-bridge` of PyPI, which has an import package of the same name."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import a2a_bridge


@pytest.mark.parametrize(
    ("other", "rejected"),
    [("a2a_bridge-0.2.0.dist-info", True), ("a2a_transport_bridge-0.1.0.dist-info", False)],
)
def test_two_distributions_with_this_package_are_rejected_with_the_remedy(
    tmp_path: Path, other: str, rejected: bool
) -> None:
    (tmp_path / "a2a_bridge").mkdir()
    shutil.copy(a2a_bridge.__file__, tmp_path / "a2a_bridge")
    (tmp_path / other).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "import a2a_bridge"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) is rejected
    assert ("pip uninstall -y a2a-bridge" in done.stderr) is rejected


# `make help` names every target that the documentation promises; it does not run them.
