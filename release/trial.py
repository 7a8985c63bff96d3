"""Installs built distributions as a stranger does, and runs what README promises.

Each environment is empty before, and is made by pip from the built files and a registry. Programs run in a
folder with copies of the examples: no file of the repository is on their path.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.interpreters import SUPPORTED, find

ROOT = Path(__file__).resolve().parent.parent
NAME = "a2a-transport-bridge"
#: seconds of one program
LIMIT = 600
#: repetitions of a measured start; the median counts
STARTS = 5

#: installation -> its requirements
INSTALLATIONS: Mapping[str, tuple[str, ...]] = {
    "base": (NAME,),
    "server": (f"{NAME}[server]",),
    "fronts": (f"{NAME}-adapters[fronts]",),
    "all": (f"{NAME}[all]",),
}
#: what other projects install, for a comparison
OTHERS: Mapping[str, tuple[str, ...]] = {"a2a-sdk[all]": ("a2a-sdk[all]",), "fastmcp": ("fastmcp",)}
#: what each import costs; the name of an installation, and what is imported there
IMPORTS = {
    "base": (
        "a2a_bridge",
        "a2a_bridge_transports.jsonrpc",
        "a2a_bridge_transports.http_json",
        "a2a_bridge_transports.grpc",
    ),
    "a2a-sdk[all]": ("a2a.client", "a2a.server.request_handlers"),
    "fastmcp": ("fastmcp",),
}


class Environment(NamedTuple):
    """One installation, and its programs."""

    folder: Path
    programs: Path

    def run(self, *command: object, cwd: Path) -> str:
        """The output of a program of the environment."""
        return run(self.programs / str(command[0]), *command[1:], cwd=cwd)


class FailedError(Exception):
    """A step failed; the text says which and why."""


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """The output of a program; raises FailedError with it if the program fails."""
    words = [str(part) for part in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env=clean_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise FailedError(f"{' '.join(words)}\n{done.stdout}")
    return done.stdout


def expect(text: str, said: str) -> None:
    """Raises FailedError unless the text is in the output of a program."""
    if text not in said:
        raise FailedError(f"expected {text!r} in {said!r}")


def try_all(packages: Path, dist: Path, programs: Path, version: str, *, compare: bool) -> None:
    """Tries all installations on all Pythons; raises FailedError at the first failure.

    packages: the built files. dist: where the bill of materials goes. programs: those of
    release/requirements.lock. compare: also measure installations of other projects.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copytree(ROOT / "examples", work / "examples")
        shutil.copy(ROOT / "release" / "smoke.py", work)
        figures: list[str] = []
        for minor in SUPPORTED:
            here = minor == sys.version_info.minor
            python = Path(sys.executable) if here else find(minor)
            if python is None:
                print(f"release: Python 3.{minor} is not on this machine", flush=True)
                continue
            made = {
                name: install(work / f"3.{minor}-{name}", python, packages, version, needs)
                for name, needs in INSTALLATIONS.items()
            }
            if here:
                figures += [figures_of(name, one, work) for name, one in made.items()]
                list_materials(programs, made["all"].folder, dist / f"{NAME}-{version}.cdx.json", version)
            try_base(made["base"], work)
            try_fronts(made["fronts"], work)
            try_demo(made["all"], work)
            try_starter(made["all"], work / f"3.{minor}-starter")
            print(f"release: everything works on Python 3.{minor}", flush=True)
        try_runners(programs, packages, version, work)
        if compare:
            for name, needs in OTHERS.items():
                one = install(work / name, Path(sys.executable), packages, None, needs)
                figures.append(figures_of(name, one, work))
        print("\n".join(figures), flush=True)


def list_materials(programs: Path, environment: Path, bill: Path, version: str) -> None:
    """Writes the bill of materials of an environment. Its subject is our distribution.

    bill: the file to write. Raises FailedError if the subject is another one.
    """
    command = ("environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml", "-o", bill)
    run(programs / "cyclonedx-py", *command, environment)
    written = json.loads(bill.read_text("utf-8"))
    subject = written["metadata"].get("component", {})
    named = subject.get("name"), subject.get("version")
    if named != (NAME, version):
        raise FailedError(f"the subject of {bill.name} is {named}")
    # The program leaves it out, and scanners look a distribution up by it.
    subject["purl"] = f"pkg:pypi/{NAME}@{version}"
    bill.write_text(json.dumps(written, indent=2) + "\n", "utf-8")


def install(
    folder: Path, python: Path, packages: Path, version: str | None, needs: tuple[str, ...]
) -> Environment:
    """A new environment with some requirements, ours at a version."""
    print(f"release: installing {' '.join(needs)} into {folder.name}", flush=True)
    run(python, "-m", "venv", folder)
    made = Environment(folder, folder / "bin")
    pins = [f"{NAME}{part}=={version}" for part in ("", "-tools", "-adapters")] if version else []
    (folder / "ours.txt").write_text("\n".join(pins), "utf-8")
    command = ("pip", "install", "--quiet", "--disable-pip-version-check", "--find-links", packages)
    made.run(*command, "--constraint", folder / "ours.txt", *needs, cwd=folder)
    return made


def try_base(made: Environment, work: Path) -> None:
    """A call over each binding, on the base installation."""
    expect("JSONRPC hello\nHTTP+JSON hello\nGRPC hello\n", made.run("python", work / "smoke.py", cwd=work))


def try_demo(made: Environment, work: Path) -> None:
    """The demo, with the official SDK beside everything of ours; then a server and a call of the tools."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]
    peers = [one for one in groups if one.startswith(("a2a-sdk", "uvicorn"))]
    made.run("pip", "install", "--quiet", "--disable-pip-version-check", *peers, cwd=work)
    print(made.run("python", "demo.py", cwd=work / "examples").splitlines()[-1])
    with serving(made, "serve", "examples/echo_agent.py", cwd=work) as address:
        expect("hello", made.run("a2a-bridge", "send", "-a", address, "hello", cwd=work))


def try_starter(made: Environment, folder: Path) -> None:
    """A starter project of each kind but LangGraph: its test passes, and its agent is served."""
    made.run("pip", "install", "--quiet", "--disable-pip-version-check", "pytest", cwd=folder.parent)
    for kind in ("function", "executor", "program"):
        project = folder / kind
        made.run("a2a-bridge", "init", project, "--kind", kind, cwd=folder.parent)
        if "4 passed" not in (said := made.run("python", "-m", "pytest", "-q", cwd=project)):
            raise FailedError(f"the test of a starter project ({kind}) does not pass: {said}")
        with serving(made, "serve", "agent.py", "--config", "bridge.toml", cwd=project) as address:
            expect("hello", made.run("a2a-bridge", "send", "-a", address, "hello", "-q", cwd=project).strip())


def try_fronts(made: Environment, work: Path) -> None:
    """A chat of OpenAI's API with an agent of A2A."""
    with serving(made, "front", "openai", "examples/echo_agent.py", cwd=work) as address:
        request = urllib.request.Request(  # noqa: S310  an address of ours
            f"{address}/v1/chat/completions",
            json.dumps({"model": "Echo", "messages": [{"role": "user", "content": "hello"}]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT) as response:  # noqa: S310
            expect("hello", json.load(response)["choices"][0]["message"]["content"])


def try_runners(programs: Path, packages: Path, version: str, work: Path) -> None:
    """The command by `uvx` and by `pipx run`, from the built files."""
    needed, home = f"{NAME}[all]=={version}", str(work / "home")
    # pipx splits the arguments of pip as a shell does.
    links = shlex.join(("--find-links", str(packages)))
    uv = (programs / "uv", "tool", "run", "--quiet", "--find-links", packages, "--refresh-package", NAME)
    pipx = (programs / "pipx", "run", "--quiet", "--spec", needed, "--pip-args", links)
    for command in ((*uv, "--python", sys.executable, "--from", needed), pipx):
        said = run(*command, "a2a-bridge", "--version", UV_TOOL_DIR=home, PIPX_HOME=home, PIPX_BIN_DIR=home)
        expect(version, said)
        print(f"release: {Path(command[0]).name} runs {said.strip()}", flush=True)


def figures_of(name: str, made: Environment, work: Path) -> str:
    """Packages, megabytes, and the milliseconds of imports and of `--help`, as a row of a table."""
    found = json.loads(made.run("pip", "list", "--format=json", "--disable-pip-version-check", cwd=work))
    count = len([one for one in found if one["name"] not in ("pip", "setuptools")])
    size = sum(
        path.stat().st_size
        for path in made.folder.glob("lib/**/*")
        if path.is_file() and "/pip/" not in str(path)
    )
    row = [name, f"{count} packages", f"{size / 1e6:.0f} MB"]
    nothing = _start(made, work, "python", "-c", "pass")
    for module in IMPORTS.get(name, ()):
        spent = _start(made, work, "python", "-c", f"import {module}") - nothing
        row.append(f"import {module} {1000 * spent:.0f} ms")
    if name in ("server", "all"):
        row.append(f"--help {1000 * _start(made, work, 'a2a-bridge', '--help'):.0f} ms")
    return " | ".join(row)


@contextmanager
def serving(made: Environment, *words: str, cwd: Path) -> Iterator[str]:
    """A server of the command; gives the address of its HTTP port."""
    command = [str(made.programs / "a2a-bridge"), *words, "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=cwd, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            first = "" if process.stdout is None else process.stdout.readline()
            expect("ready ", first)
            yield dict(word.split("=", 1) for word in first.split()[1:])["http"]
        finally:
            process.terminate()
            process.wait(LIMIT)


def clean_environment() -> dict[str, str]:
    """The environment without what would lead to the repository."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _start(made: Environment, work: Path, *command: str) -> float:
    """Seconds of a start: the median of several, after one that is not counted."""
    spent = []
    for _ in range(STARTS + 1):
        begun = time.perf_counter()
        made.run(*command, cwd=work)
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent[1:])
