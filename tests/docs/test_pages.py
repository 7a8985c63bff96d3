"""Lists in the text of pages match the code, and the pages can be rendered."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import a2a_bridge
from a2a_bridge import middleware
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.masking import SECRET
from a2a_bridge.testing.each import each
from tests.docs.pages import DOCS, PAGES, ROOT, name, prose, section, table
from tests.patience import PATIENCE


def test_the_headers_a_gateway_passes_on() -> None:
    rows = {
        row[0]: row[1]
        for row in table(section(DOCS / "how-to/bridge-an-agent.md", "What is forwarded"), "", "")
    }
    said = set(re.findall(r"[A-Za-z][\w-]+", rows["caller's headers"].partition(", and those")[0]))
    assert {one.lower() for one in said} == DialOptions().forward


def test_the_headers_that_are_masked() -> None:
    said = re.search(r"masks the values of (.*?);", prose(DOCS / "reference/commands.md"), re.DOTALL)
    assert said is not None
    assert {one.lower() for one in re.findall(r"`([\w-]+)`", said[1])} == SECRET


def test_the_names_of_the_library() -> None:
    said = (
        prose(DOCS / "how-to/use-the-library.md")
        .partition("`a2a_bridge.ext` has")[0]
        .partition("exports fourteen names")[2]
    )
    assert set(re.findall(r"`(\w+)`", said)) == set(a2a_bridge.__all__) - {"__version__"}


def test_the_middleware() -> None:
    said = (
        prose(DOCS / "how-to/use-the-library.md")
        .rpartition("`a2a_bridge.middleware` has")[2]
        .partition("limits the concurrent")[0]
        .replace("`serve`", "")
    )
    assert set(re.findall(r"`(\w+)`", said)) == set(middleware.__all__)


@each("page", PAGES)
def test_tables_are_whole(page: Path) -> None:
    """A row with another number of cells than its head loses content when it is rendered."""
    width = 0
    for number, line in enumerate(prose(page).splitlines(), 1):
        cells = len(re.split(r"(?<!\\)\|", line.strip())) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, f"{name(page)}, row {number}: {line}"
        width = cells


def test_the_pages_can_be_rendered(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reference" / "wire.html").is_file()
