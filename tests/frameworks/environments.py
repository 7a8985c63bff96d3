"""Environments of frameworks, below .build/frameworks."""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.architecture.repository import ROOT

FOLDER = ROOT / ".build" / "frameworks"


def environment(name: str, packages: Sequence[str], *, newest: bool = False) -> Path:
    """Makes the environment of a framework, or finds it as it should be; returns its Python.

    newest: whether packages that are there are upgraded.
    """
    folder = FOLDER / name
    python, stamp = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join(packages)
    found = stamp.exists() and stamp.read_text("utf-8") == wanted
    if not found or newest:
        print(f"installing {' '.join(packages)}", flush=True)
        if not found:
            venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
        subprocess.run([*command, *packages], check=True)
        stamp.write_text(wanted, "utf-8")
    return python
