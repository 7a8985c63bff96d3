"""Runs the adapter of a framework in its newest release, on sockets, before the official client."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.repository import ROOT
from tests.docs.pages import DOCS, blocks
from tests.frameworks.adapter_checks import CHECKS, run_checks
from tests.frameworks.environments import environment, output_of, version_of
from tests.frameworks.programs import ADAPTED, HERE, Adapted
from tests.frameworks.tables import write, written
from tests.patience import PATIENCE

PAGE = DOCS / "how-to/serve-frameworks.md"


@dataclass(frozen=True)
class Result:
    """The version of a framework, and the fault of each check; empty if there is none."""

    version: str
    faults: dict[str, str]


async def check(adapted: Adapted) -> Result:
    """All checks of an adapter, and the program of its page."""
    # The same order as in `make install`: the adapters depend on the project by its version.
    packages = ("-e", f"{ROOT}[server]", "-e", f"{ROOT / 'adapters'}[{adapted.name}]", *adapted.packages)
    python = environment(f"adapter-{adapted.name}", packages, newest=True)
    faults = await _checks(python, adapted)
    faults |= await _programs(python, adapted)
    return Result(await version_of(python, adapted.package), faults)


async def _checks(python: Path, adapted: Adapted) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        keys = []
        for name in ("ann", "bob"):
            made = await output_of(
                python, "-m", "a2a_bridge", "keys", "create", "--file", f"{folder}/keys.json", "--id", name
            )
            keys.append(made.split()[-1])
        async with _serving(python, folder, str(HERE / "adapted" / adapted.target)) as url:
            return await run_checks(url, *keys, adapted.refuses)


async def _programs(python: Path, adapted: Adapted) -> dict[str, str]:
    """The fault of the programs of the page."""
    page, found = DOCS / f"how-to/serve-{adapted.name}.md", {}
    for block in blocks(page, "python"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            path.write_text(block.body, "utf-8")
            try:
                await output_of(python, str(path))
            except RuntimeError as error:
                found[f"{page.name}:{block.line}"] = str(error)
    return found


@asynccontextmanager
async def _serving(python: Path, folder: str, target: str) -> AsyncIterator[str]:
    """The URL of an agent that is served by the command, for callers with keys."""
    places = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    arguments = ("-m", "a2a_bridge", "serve", target, *places, "--api-keys", f"{folder}/keys.json")
    process = await asyncio.create_subprocess_exec(
        str(python), *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # Read all the time: a full pipe would stop the server.
    log = asyncio.create_task(process.stderr.read())
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        if not line.startswith("ready "):
            raise RuntimeError((await log).decode()[-2000:])
        yield line.split("http=")[1].split()[0]
    finally:
        if process.returncode is None:
            process.terminate()
        await log
        await process.wait()


def write_table(adapted: Adapted, result: Result) -> None:
    """Writes the column of a framework, and keeps the others."""
    known = written(PAGE)
    column = f"{adapted.title} {result.version}"
    heads = []
    for one in ADAPTED:
        of_it = [head for row in known.values() for head in row if head.rpartition(" ")[0] == one.title]
        if one is adapted:
            heads.append(column)
        elif of_it:
            heads.append(of_it[0])
    rows = {}
    for name in CHECKS:
        cell = "no" if result.faults[name] or name in adapted.refuses else "yes"
        rows[name] = [cell if head == column else known.get(name, {}).get(head, "-") for head in heads]
    write(PAGE, heads, rows)
