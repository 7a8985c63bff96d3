"""The notebook of docs/tutorials/notebook.md, and its run in Jupyter: `python -m tests.docs.notebook PYTHON`.

PYTHON: of an environment with nbconvert and ipykernel, which sees the packages of this one (`make docs` has it).
A block with the note `cell` is a cell; a block of text after it is what the cell prints.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "tutorials" / "notebook.md"
FILE = PAGE.with_suffix(".ipynb")
NOTE = "cell"
#: seconds of the whole run
_LIMIT = 240


class Cell(NamedTuple):
    """Code, and what it prints; line: of the code in the page."""

    code: str
    printed: str
    line: int


def cells() -> list[Cell]:
    """The cells of the page, in its order."""
    found: list[Cell] = []
    for block in sorted(blocks(PAGE, "python") + blocks(PAGE, "text"), key=lambda one: one.line):
        if block.kind == "python" and block.note == NOTE:
            found.append(Cell(block.body, "", block.line))
        elif block.kind == "text":
            found[-1] = found[-1]._replace(printed=block.body)
    return found


def document() -> str:
    """The notebook, without what its cells print (nbformat 4.5)."""
    made: dict[str, Any] = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{number}",
                "metadata": {},
                "outputs": [],
                "source": cell.code.rstrip("\n").splitlines(keepends=True),
            }
            for number, cell in enumerate(cells(), 1)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def execute(python: str) -> list[str]:
    """What each cell prints in Jupyter. Raises SystemExit with the traceback of a cell that fails."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--to", "notebook", "--execute", "--output-dir", folder, str(FILE))
        command = (python, "-m", "jupyter", "nbconvert", *options)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
        if done.returncode:
            raise SystemExit(done.stderr)
        run = json.loads((Path(folder) / FILE.name).read_text("utf-8"))
    return ["".join(text for one in cell["outputs"] for text in one.get("text", ())) for cell in run["cells"]]


if __name__ == "__main__":
    for cell, printed in zip(cells(), execute(sys.argv[1]), strict=True):
        if printed != cell.printed:
            raise SystemExit(f"{PAGE}, line {cell.line}: the cell prints\n{printed}")
    print(f"{len(cells())} cells of {FILE.name} print in Jupyter what the page shows")
