"""Environments with an installed wheel and its requirements, linked from that of the tests. No tests."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.repository import ROOT, pyproject, run

#: the distributions of this project, by name, and their folders
OURS = {pyproject(folder)["project"]["name"]: ROOT / folder for folder in (".", "tools", "adapters")}
BRIDGE, TOOLS, ADAPTERS = OURS


def requirements(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The distributions and extras that an installation of `names` needs, with themselves."""
    found: dict[str, frozenset[str]] = {}
    pending = [Requirement(name) for name in names]
    while pending:
        one = pending.pop()
        name = canonicalize_name(one.name)
        extras = found.get(name, frozenset()) | one.extras
        if name in found and extras == found[name]:
            continue
        found[name] = extras
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            chosen = [{"extra": extra} for extra in (*extras, "")]
            if needed.marker is None or any(needed.marker.evaluate(each) for each in chosen):
                pending.append(needed)
    return found


def build(folder: Path) -> dict[str, Path]:
    """The wheel of each distribution of this project."""
    wheels = {}
    for name, source in OURS.items():
        done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / name, cwd=source)
        assert done.returncode == 0, done.stderr
        (wheels[name],) = (folder / name).iterdir()
    return wheels


def make(folder: Path, wheels: dict[str, Path], *names: str) -> Path:
    """An environment with some of our distributions; returns its folder of programs."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python3*/site-packages")
    needed = requirements(names)
    for name in needed.keys() - OURS.keys():
        for target, source in _files(name):
            (site / target).parent.mkdir(parents=True, exist_ok=True)
            if not (site / target).exists():
                (site / target).symlink_to(source)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"),
            *("--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"),
            *(wheels[name] for name in needed if name in OURS),
        ],
        check=True,
    )
    return folder / "bin"


def _files(name: str) -> Iterator[tuple[Path, Path]]:
    """The files of a distribution: below site-packages, and where they are."""
    for file in distribution(name).files or ():
        source = Path(os.path.normpath(file.locate()))
        if ".." not in file.parts and source.suffix != ".pyc" and source.exists():
            yield Path(file), source
