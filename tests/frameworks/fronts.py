"""Runs tests/fronts with the newest release of a front's official client, in an environment of its own."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.architecture.repository import ROOT
from tests.docs.pages import DOCS
from tests.frameworks.environments import environment, version_of
from tests.frameworks.programs import Front
from tests.frameworks.tables import write

#: the columns, and the id that a test before such an agent has
COLUMNS = {"an agent of 1.0 over gRPC": "GRPC 1.0", "an agent of 0.3 over JSON-RPC": "JSONRPC 0.3"}
#: what tests need that the fronts do not
TESTING = (
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    "hypothesis",
    "httpx",
    "psutil",
    "psycopg[binary]",
    "cryptography",
)


@dataclass(frozen=True)
class Result:
    """The release of the client, and the fault of each test by its file and name; empty if there is none."""

    version: str
    faults: dict[str, str]


def page(front: Front) -> Path:
    return DOCS / f"how-to/serve-{front.name}-clients.md"


async def check(front: Front, version: str = "") -> Result:
    """Runs the tests of a front. version: of its client; the newest unless one is given."""
    client = f"{front.name}=={version}" if version else front.name
    packages = ("-e", f"{ROOT}[server]", "-e", f"{ROOT / 'adapters'}[{front.name}]", client, *TESTING)
    python = environment(f"front-{front.name}{version and '-oldest'}", packages, newest=not version)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ("-q", "-n", "2", "-p", "no:cacheprovider", f"--junitxml={report}")
        files = [str(ROOT / "tests" / "fronts" / one) for one in front.tests]
        process = await asyncio.create_subprocess_exec(
            str(python), "-m", "pytest", *options, *files, cwd=ROOT
        )
        code = await process.wait()
        if code not in (0, 1):  # no tests, or some that could not be loaded
            raise RuntimeError(f"pytest ended with {code}")
        faults = {}
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  pytest wrote it
            name = f"{case.attrib['classname'].rpartition('.')[2]}.py::{case.attrib['name']}"
            faults[name] = "\n".join(one.attrib.get("message", one.tag) for one in case)
    return Result(await version_of(python, front.name), faults)


def write_table(front: Front, result: Result) -> None:
    rows = {row: [_cell(front, result, row, column) for column in COLUMNS] for row in front.rows}
    write(page(front), list(COLUMNS), rows, f"`{front.name}` {result.version}")


def _cell(front: Front, result: Result, row: str, column: str) -> str:
    """Whether all tests of a cell pass: those whose name has nothing of another row or column."""
    others = {one for names in front.rows.values() for one in names} - set(front.rows[row])
    others |= set(COLUMNS.values()) - {COLUMNS[column]}
    found = [fault for name, fault in result.faults.items() if not any(one in name for one in others)]
    return "yes" if found and not any(found) else "no"
