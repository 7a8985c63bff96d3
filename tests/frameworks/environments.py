"""Environments of frameworks, below .build/frameworks."""

import asyncio
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tests.architecture.repository import ROOT, pyproject
from tests.patience import PATIENCE

FOLDER = ROOT / ".build" / "frameworks"


def environment(name: str, packages: Sequence[str], *, newest: bool = False) -> Path:
    """The Python of a framework's environment, made if need be. newest: upgrades its packages."""
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


async def output_of(python: Path, *arguments: str, patience: float = PATIENCE) -> str:
    """The stdout of a program. Raises RuntimeError with the end of its stderr if it fails."""
    process = await asyncio.create_subprocess_exec(
        str(python), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), patience)
    if process.returncode:
        raise RuntimeError(err.decode()[-2000:])
    return out.decode()


def oldest_of(extra: str, package: str) -> str:
    """The oldest release of a package that an extra of the adapters allows; empty if it does not name it."""
    wanted = map(Requirement, pyproject("adapters")["project"]["optional-dependencies"][extra])
    found = (one.version for each in wanted if each.name == package for one in each.specifier)
    return min(found, key=Version, default="")


async def version_of(python: Path, package: str) -> str:
    program = f"from importlib.metadata import version; print(version({package!r}), end='')"
    return await output_of(python, "-c", program)
