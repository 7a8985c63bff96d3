"""An official conformance suite against `a2a-bridge serve`: `make tck TCK=DIR`.

.venv/bin/python -m tests.tck DIR [--python PROGRAM] [--server NAME | --gateway]

DIR is a checkout of a2a-tck for 1.0, 0.3 or 0.2.5, with its requirements in DIR/.venv or in PROGRAM. Only the public
command line of the suite is used (run_tck.py), and the reports that pytest writes. --server: of `serve`, such as
envoy. --gateway: the suite of 1.0 calls `gateway` before an agent of the official SDK. Which tests are expected to
fail, and why, is in expected/VERSION.toml. The exit code is 0 if exactly these fail, 1 if not, 2 if the suite did not
run.
"""

import argparse
import os
import selectors
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
#: seconds until the server is ready, and for one run of the suite
START, RUN = 60.0, 600.0
#: The suites have receivers of notifications on this machine.
_PUSH = ("--push-allow", "127.0.0.0/8")


@dataclass(frozen=True)
class Part:
    """One call of run_tck.py. name: of its tests, before their ids. options: further ones."""

    name: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """A version's suite. url: the option for the address. agent: in agent.py. flags: of `serve`."""

    version: str
    url: str
    agent: str
    parts: tuple[Part, ...]
    flags: tuple[str, ...] = ()


_CATEGORIES = ("mandatory", "capabilities", "quality", "features")
_TRANSPORTS = ("jsonrpc", "grpc", "rest")
_EQUIVALENCE = "transport-equivalence"
#: the suites of 0.x want each interface of a card to be a URL
_URLS = ("--grpc-urls", "http-in-0.x")

SUITES = (
    Suite("1.0", "--sut-host", "scenarios", (Part(""),)),
    Suite(
        "0.3",
        "--sut-url",
        "waiting",
        (
            *(
                Part(f"{transport} {category} ", ("--category", category, "--transports", transport))
                for transport, category in product(_TRANSPORTS, _CATEGORIES)
            ),
            Part(f"{_EQUIVALENCE} ", ("--category", _EQUIVALENCE, "--transports", ",".join(_TRANSPORTS))),
        ),
        _URLS,
    ),
    Suite(
        "0.2.5",
        "--sut-url",
        "waiting",
        tuple(Part(f"{category} ", ("--category", category)) for category in _CATEGORIES),
        _URLS,
    ),
)


class NotRunError(Exception):
    """The suite did not run."""


def suite_of(checkout: Path) -> Suite:
    """The suite in a checkout, by the options of its run_tck.py. Raises NotRunError."""
    try:
        text = (checkout / "run_tck.py").read_text(encoding="utf-8")
    except OSError as error:
        raise NotRunError(f"{checkout} is no checkout of a2a-tck: {error}") from error
    if "--sut-host" in text:
        return SUITES[0]
    return SUITES[1] if "--transports" in text else SUITES[2]


@contextmanager
def served(suite: Suite, server: str) -> Iterator[str]:
    """The URL of the suite's agent on `serve`. Raises NotRunError."""
    free = "127.0.0.1:0"
    listening = (
        ("--server", server, "--listen", free) if server == "envoy" else ("--http", free, "--grpc", free)
    )
    agent = f"{HERE / 'agent.py'}:{suite.agent}"
    with ready(
        "-m", "a2a_bridge", "serve", agent, "--store", "memory://", *_PUSH, *listening, *suite.flags
    ) as url:
        yield url


@contextmanager
def before_sdk() -> Iterator[str]:
    """The URL of a gateway before the agent of the official SDK. Raises NotRunError."""
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with (
        ready(str(HERE / "sdk_agent.py")) as agent,
        ready("-m", "a2a_bridge", "gateway", agent, *_PUSH, *free) as url,
    ):
        yield url


@contextmanager
def ready(*program: str) -> Iterator[str]:
    """The HTTP address in the ready line of a Python program, which runs meanwhile. Raises NotRunError."""
    command = [sys.executable, *program]
    # The agent of the SDK ends with its standard input.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                line = process.stdout.readline() if selector.select(START) else ""
            words = dict(word.partition("=")[::2] for word in line.split())
            if "http" not in words:
                raise NotRunError("the agent did not start")
            yield words["http"]
        finally:
            process.terminate()


def run(suite: Suite, checkout: Path, python: str, url: str) -> dict[str, str]:
    """Why each test that was not skipped failed, or ""; an endless part has failed. Raises NotRunError."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(suite.parts):
            report = Path(folder, f"{number}.xml")
            # Only the suite of 1.0 takes arguments for pytest; the others call it without a report of this kind.
            last = ("--", f"--junitxml={report}") if suite.version == "1.0" else ()
            environment = os.environ | ({} if last else {"PYTEST_ADDOPTS": f"--junitxml={report}"})
            command = [python, "run_tck.py", suite.url, url, *part.options, *last]
            try:
                subprocess.run(command, cwd=checkout, env=environment, check=False, timeout=RUN)
                found |= {part.name + name: why for name, why in outcomes(report).items()}
            except subprocess.TimeoutExpired:
                found[f"{part.name}(all tests)"] = f"not ended after {RUN:g} s"
            except (OSError, ElementTree.ParseError) as error:
                raise NotRunError(f"{' '.join(command)}: {error}") from error
    if not found:
        raise NotRunError("the suite has run no test")
    return found


def outcomes(report: Path) -> dict[str, str]:
    """The tests in a JUnit report that were not skipped: "", or the first line of why each failed."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  written by the suite that was just run
        name = f"{case.get('classname')}::{case.get('name')}"
        problem = next((one for one in case if one.tag in ("failure", "error")), None)
        if problem is not None:
            found[name] = (problem.get("message") or "failed").partition("\n")[0]
        elif case.find("skipped") is None:
            found.setdefault(name, "")
    return found


def expected(version: str) -> dict[str, str]:
    """The tests that are expected to fail, each with the reason. Raises ValueError for one without."""
    found = tomllib.loads((EXPECTED / f"{version}.toml").read_text(encoding="utf-8"))
    for name, reason in found.items():
        if not (isinstance(reason, str) and reason):
            raise ValueError(f"{version}.toml: {name!r} needs a reason")
    return found


def compared(known: dict[str, str], found: dict[str, str]) -> list[str]:
    """A line for each difference between the expected failures and the outcomes."""
    failed = {name: why for name, why in found.items() if why}
    lines = [f"failed: {name}: {why}" for name, why in failed.items() if name not in known]
    for name, reason in known.items():
        if name not in failed:
            outcome = "passed" if name in found else "not run"
            lines.append(f"{outcome}, expected to fail: {name} ({reason})")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tck")
    parser.add_argument("checkout", type=Path, help="a checkout of a2a-tck")
    parser.add_argument("--python", default="", help="its Python; DIR/.venv/bin/python, or this one")
    parser.add_argument("--server", default="builtin", choices=("builtin", "envoy"), help="of `serve`")
    parser.add_argument("--gateway", action="store_true", help="before an agent of the SDK (suite of 1.0)")
    options = parser.parse_args(arguments)
    own = options.checkout.absolute() / ".venv" / "bin" / "python"
    python = options.python or str(own if own.exists() else sys.executable)
    try:
        suite = suite_of(options.checkout)
        with before_sdk() if options.gateway else served(suite, options.server) as url:
            found = run(suite, options.checkout, python, url)
    except NotRunError as error:
        print(error, file=sys.stderr)
        return 2
    known = expected(suite.version)
    differences = compared(known, found)
    print(f"\na2a-tck for {suite.version}: {len(found)} tests, {sum(map(bool, found.values()))} failed")
    for name, reason in known.items():
        print(f"  expected: {name}: {reason}")
    for line in differences:
        print(f"  {line}")
    print("as expected" if not differences else f"{len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
