"""Runs the adapter of a framework in its newest release, on sockets, with the contract of `a2a_bridge.testing`,
and compares its answers with those of plain calls in the newest and in the oldest release.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from traceback import extract_tb

from packaging.version import Version

from a2a_bridge import connect
from a2a_bridge.ext import DialOptions
from a2a_bridge.testing.adapter_contract import AdapterContract, Caller
from tests.architecture.repository import ROOT
from tests.docs.pages import DOCS, blocks
from tests.frameworks.environments import environment, oldest_of, output_of, version_of
from tests.frameworks.programs import ADAPTED, EXECUTORS, HERE, Adapted
from tests.frameworks.tables import write, written
from tests.patience import PATIENCE

PAGE = DOCS / "how-to/serve-frameworks.md"
#: the command of the page of a framework
SERVED = re.compile(r"a2a-bridge serve (\S+\.py):\w+")
#: the tests of the contract by the rows of the table
CHECKS = {
    name.removeprefix("test_").replace("_", " "): test
    for name, test in vars(AdapterContract).items()
    if name.startswith("test_")
}


async def keep(name: str, ann: Caller, bob: Caller, *, changes_arguments: bool = True) -> None:
    """Runs one test of the contract. Raises what it raises."""
    contract, test = AdapterContract(), CHECKS[name]
    contract.changes_arguments = changes_arguments
    known = {"ann": ann, "bob": bob}
    await test(contract, **{one: known[one] for one in signature(test).parameters if one in known})


@dataclass(frozen=True)
class Result:
    """The version of a framework, and the fault of each check; empty if there is none."""

    version: str
    faults: dict[str, str]


async def check(adapted: Adapted) -> Result:
    """All checks of an adapter, and the program of its page."""
    # The same order as in `make install`: the adapters depend on the project by its version.
    adapters = () if adapted in EXECUTORS else ("-e", f"{ROOT / 'adapters'}[{adapted.name}]")
    packages = ("-e", f"{ROOT}[server]", *adapters, *adapted.packages)
    python = environment(f"adapter-{adapted.name}", packages, newest=True)
    faults = await _checks(python, adapted)
    faults |= await _programs(python, adapted)
    version = await version_of(python, adapted.package)
    if adapted.answers:
        faults |= await _answers(python, adapted, version)
        oldest = oldest_of(adapted.name, adapted.package)
        if Version(oldest) < Version(version):
            pinned = (*packages, f"{adapted.package}=={oldest}")
            faults |= await _answers(environment(f"oldest-{adapted.name}", pinned), adapted, oldest)
    return Result(version, faults)


async def _answers(python: Path, adapted: Adapted, version: str) -> dict[str, str]:
    """The shapes of agents whose tasks have another answer than the plain call of the framework."""
    program = HERE / "answers" / adapted.answers
    told = json.loads(await output_of(python, str(program), patience=5 * PATIENCE))
    title = f"answers with {version}"
    faults = {f"{title}: {name}": str(fault) for name, fault in told["faults"].items()}
    return {f"{title}, {told['shapes']} shapes": "", **faults}


async def _checks(python: Path, adapted: Adapted) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        async with callers(python, folder, str(HERE / "adapted" / adapted.target)) as (ann, bob):
            return {
                name: await fault(
                    keep(name, ann, bob, changes_arguments=name not in adapted.refuses), name in adapted.lacks
                )
                for name in CHECKS
            }


@asynccontextmanager
async def callers(python: Path, folder: str, target: str) -> AsyncIterator[tuple[Caller, Caller]]:
    """Two callers, with API keys, of an agent that is served by the command."""
    keys = []
    for name in ("ann", "bob"):
        made = await output_of(
            python, "-m", "a2a_bridge", "keys", "create", "--file", f"{folder}/keys.json", "--id", name
        )
        keys.append(made.split()[-1])
    async with (
        serving(python, folder, target, "--api-keys", f"{folder}/keys.json") as url,
        connect(url, options=DialOptions(parameters={"x-api-key": keys[0]})) as ann,
        connect(url, options=DialOptions(parameters={"x-api-key": keys[1]})) as bob,
    ):
        yield Caller(ann), Caller(bob)


async def fault(check: Awaitable[None], lacking: bool) -> str:
    """The fault of a check; empty if it passes, or fails as the table says (lacking)."""
    try:
        await check
    except Exception as error:  # noqa: BLE001  it is the row of a table
        where = extract_tb(error.__traceback__)[-1]
        return "" if lacking else f"{error!r} at line {where.lineno}: {where.line}"
    return "it passes, and the table says that it does not" if lacking else ""


async def _programs(python: Path, adapted: Adapted) -> dict[str, str]:
    """The fault of the program of the page, as a program and served by the command of the page."""
    page = DOCS / f"how-to/serve-{adapted.name}.md"
    if not page.exists():
        return {}
    (block,) = blocks(page, "python")
    with tempfile.TemporaryDirectory() as folder:
        target = SERVED.search(page.read_text("utf-8"))
        assert target is not None, page
        path = Path(folder) / target[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.body, "utf-8")
        try:
            said = (await output_of(python, str(path))).strip()
            async with serving(python, folder, target[0].split()[-1]) as url, connect(url) as peer:
                told = (await peer.send("the weather in Oslo?")).text
        except RuntimeError as error:
            return {page.name: str(error)}
    return {page.name: "" if said == told else f"it prints {said!r}, and the task has {told!r}"}


@asynccontextmanager
async def serving(python: Path, folder: str, target: str, *flags: str) -> AsyncIterator[str]:
    """The URL of an agent that is served by the command."""
    places = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    arguments = ("-m", "a2a_bridge", "serve", target, *places, *flags)
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
    for one in (*ADAPTED, *EXECUTORS):
        of_it = [head for row in known.values() for head in row if head.rpartition(" ")[0] == one.title]
        if one is adapted:
            heads.append(column)
        elif of_it:
            heads.append(of_it[0])
    rows = {}
    for name in CHECKS:
        cell = "no" if result.faults[name] or name in (*adapted.refuses, *adapted.lacks) else "yes"
        rows[name] = [cell if head == column else known.get(name, {}).get(head, "-") for head in heads]
    write(PAGE, heads, rows)
