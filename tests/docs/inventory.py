"""The pages with their kind, their words, and the tests that run them: `python -m tests.docs.inventory`."""

import re
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.site import KINDS, pages

#: what is generated or written by a program
_WRITTEN = re.compile(r"<!-- (?:generated|written) by .*?-->.*?<!-- end of .*?-->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_WHOLE = ("<!-- generated from ", "This page is made from ")
#: blocks of a page, and the tests that run them
_BLOCKS = {"python": "test_code_blocks", "console": "test_cli_page"}


def is_generated(page: Path) -> bool:
    """Whether a program writes the whole page."""
    return any(one in page.read_text("utf-8") for one in _WHOLE) or page.name == "cli-compliance.md"


def words(page: Path) -> int:
    """The words of a page that a person has written: without code, and without the lines between cells."""
    if is_generated(page):
        return 0
    text = _CODE.sub("", _WRITTEN.sub("", page.read_text("utf-8")))
    return sum(any(map(str.isalnum, one)) for one in text.split())


def tests(page: Path) -> list[str]:
    """The tests of a page: those of its blocks, and those that name the page."""
    found = {name for kind, name in _BLOCKS.items() if blocks(page, kind)}
    if "by `make generate`" in page.read_text("utf-8"):
        found.add("test_cli_page")
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if re.search(rf"[\"/]{re.escape(page.name)}\"", path.read_text("utf-8")):
            found.add(path.stem)
    return sorted(found)


def table() -> list[str]:
    """A line for each page, and the sums."""
    lines, total = [], 0
    for kind in KINDS:
        written = sum(words(page) for page in pages(kind))
        total += written
        made = sum(is_generated(page) for page in pages(kind))
        lines.append(f"{kind}: {len(pages(kind))} pages, {made} of them generated, {written:,} words")
        lines += [
            f"  {page.relative_to(DOCS)!s:44} {'generated' if is_generated(page) else words(page):>9}  "
            f"{', '.join(tests(page)) or 'test_links, test_pages'}"
            for page in pages(kind)
        ]
    return [*lines, f"all: {total + words(DOCS / 'index.md'):,} words"]


if __name__ == "__main__":
    print("\n".join(table()))
