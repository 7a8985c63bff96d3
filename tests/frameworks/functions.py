"""Runs the functions of pages for frameworks that need no adapter, with the newest and the oldest release of each.

The program is that of the page. The checks are those of the contract of adapters that a function can pass: its
model is replaced by the scripted one.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from a2a_bridge import connect
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.testing.adapter_contract import Caller
from tests.architecture.repository import ROOT
from tests.docs.pages import DOCS, blocks
from tests.frameworks.adapters import PAGE, SERVED, callers, fault, keep, serving
from tests.frameworks.environments import environment, version_of
from tests.frameworks.programs import HERE, Function
from tests.frameworks.tables import write, written

PART = "functions"
#: the answer of the program of each page
ANSWER = "sunny in Oslo"
#: the columns of the table
CHECKS = (
    "streamed text is chunks",
    "a conversation goes on",
    "two tasks of one context at once",
    "a cancelled turn and the one after it",
    "a crash without its text",
)
CALLERS = "two callers with one context id"
COLUMNS = ("newest", "oldest", *CHECKS, CALLERS)


@dataclass(frozen=True)
class Result:
    """The newest version, and the fault of each check in both releases; empty if there is none."""

    version: str
    faults: dict[str, str]


async def check(function: Function) -> Result:
    packages = ("-e", f"{ROOT}[server]", *function.packages)
    newest = environment(f"function-{function.name}", (*packages, function.package), newest=True)
    oldest = environment(f"oldest-{function.name}", (*packages, f"{function.package}=={function.oldest}"))
    faults = await _checks(newest, function)
    faults |= {f"{name}, {function.oldest}": one for name, one in (await _checks(oldest, function)).items()}
    return Result(await version_of(newest, function.package), faults)


def page(function: Function) -> Path:
    return DOCS / f"how-to/serve-{function.name}.md"


async def _checks(python: Path, function: Function) -> dict[str, str]:
    """The fault of the program of the page, and of each check."""
    (block,) = blocks(page(function), "python")
    command = SERVED.search(page(function).read_text("utf-8"))
    assert command is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "desk.py").write_text(block.body, "utf-8")
        try:
            async with serving(python, folder, command[0].split()[-1]) as url, connect(url) as peer:
                told = (await peer.send("the weather in Oslo?")).text
        except RuntimeError as error:
            return dict.fromkeys((page(function).name, *CHECKS, CALLERS), str(error)[-400:])
        faults = {page(function).name: "" if told == ANSWER else f"the task has {told!r}"}
        async with callers(python, folder, f"{HERE / 'adapted' / 'page_function.py'}:served") as (ann, bob):
            for name in CHECKS:
                faults[name] = await fault(keep(name, ann, bob), name in function.lacks)
            faults[CALLERS] = await fault(_two_callers(ann, bob), CALLERS in function.lacks)
    return faults


async def _two_callers(ann: Caller, bob: Caller) -> None:
    """The first half of the contract: a function asks no questions."""
    where = new_id()
    await ann.say("mine", where=where)
    assert (await bob.say("recall", where=where)).text == "recall"
    assert (await ann.say("recall", where=where)).text == "mine,recall"


def write_row(function: Function, result: Result, known: tuple[Function, ...]) -> None:
    """Writes the row of a framework, and keeps the others."""
    rows = {row: tuple(cells.values()) for row, cells in written(PAGE, PART).items()}
    wrong = {name.partition(",")[0] for name, one in result.faults.items() if one}
    cells = ["no" if name in wrong or name in function.lacks else "yes" for name in (*CHECKS, CALLERS)]
    rows[_title(function)] = (result.version, function.oldest, *cells)
    order = [_title(one) for one in known]
    write(PAGE, COLUMNS, {one: rows[one] for one in order if one in rows}, part=PART)


def _title(function: Function) -> str:
    return f"[{function.title}]({page(function).name})"
