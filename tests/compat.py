"""Runs the unit suite in an environment per generation of protobuf; `make check` does not run it.

The first has the lower bound of every dependency. Tests marked `sdk` are left out.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".build" / "compat"

#: environment -> its requirement for protobuf; None: the lower bound of everything
ENVIRONMENTS = {"floors": None, "6": "protobuf>=6,<7", "7": "protobuf>=7,<8"}

#: Everything else in tests/ needs the official SDK, sockets or the tools of the lock.
SUITES = ("pb", "codec", "core", "dialects", "cards", "hosting", "middleware", "config")

TOOLS = ("pytest", "pytest-asyncio", "pytest-xdist", "hypothesis", "packaging", "hatchling")
#: The tests read google.api's options with it; which version fits depends on protobuf.
UNPINNED = ("googleapis-common-protos",)


def requirements(protobuf: str | None) -> list[str]:
    """Requirement lines of one environment."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    runtime = project["dependencies"] + project["optional-dependencies"]["server"]
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    )
    tools = [f"{name}=={locked[name]}" for name in TOOLS]
    wanted = runtime if protobuf else [floor(line) for line in runtime]
    return [*wanted, *([protobuf] if protobuf else []), *tools, *UNPINNED]


def floor(line: str) -> str:
    """The oldest version a requirement allows, as an exact requirement."""
    requirement = Requirement(line)
    lowest = next(clause.version for clause in requirement.specifier if clause.operator == ">=")
    return f"{requirement.name}=={lowest}"


def environment(name: str, protobuf: str | None) -> Path:
    """Makes an environment, or finds it as it should be; returns its Python."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.txt"
    lines = "\n".join(requirements(protobuf)) + "\n"
    if not stamp.exists() or stamp.read_text("utf-8") != lines:
        print(f"making {folder.relative_to(ROOT)}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = folder / "wanted.txt"
        wanted.write_text(lines, "utf-8")
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
        wanted.rename(stamp)
    return python


def test(python: Path) -> int:
    """Prints the versions and runs the unit suite; returns pytest's exit code."""
    about = "import google.protobuf as p, grpc; from google.protobuf.internal import api_implementation as i"
    about += "; print(f'protobuf {p.__version__} ({i.Type()}), grpcio {grpc.__version__}', flush=True)"
    subprocess.run([str(python), "-c", about], check=True)
    suites = [f"tests/{name}" for name in SUITES if any((ROOT / "tests" / name).glob("test_*.py"))]
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not sdk", *suites]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> int:
    """Runs all environments, or those named as arguments; 0 only if the suite passes in every one."""
    failed = []
    for name in sys.argv[1:] or ENVIRONMENTS:
        print(f"== {name}", flush=True)
        if test(environment(name, ENVIRONMENTS[name])) != 0:
            failed.append(name)
    print(f"compat: {f'failed in {failed}' if failed else 'passed in every environment'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
