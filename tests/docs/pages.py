"""The pages of the documentation and their content. No tests."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
#: pages and other texts whose links are followed
TEXTS = [
    *PAGES,
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]

#: a block may be indented: it is then in a tab
_FENCE = re.compile(
    r"(?:<!-- (?P<note>[^>]*) -->\n)?^(?P<indent> *)```(?P<kind>\w*)\n(?P<body>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. note: the HTML comment right before it. line: of the fence, for messages."""

    kind: str
    body: str
    note: str
    line: int


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, kind: str) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            found["kind"], dedent(found["body"]), found["note"] or "", text.count("\n", 0, found.start()) + 1
        )
        for found in _FENCE.finditer(text)
        if found["kind"] == kind
    ]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The ids that headings get, as the renderer makes them, and those of the page itself."""
    found = set(re.findall(r'<a id="([^"]+)">', prose(page)))
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def section(page: Path, heading: str) -> str:
    """The content under a heading, up to the next one of the same or a higher level."""
    text = page.read_text()
    start = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert start is not None, f"{name(page)} has no heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text: str, *columns: str) -> list[list[str]]:
    """The rows of the first table whose head begins with `columns`; backticks and outer blanks are gone."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _cells(line)[: len(columns)] == list(columns):
            rows = []
            for row in lines[number + 2 :]:
                if not row.startswith("|"):
                    break
                rows.append(_cells(row))
            return rows
    raise AssertionError(f"no table {columns}")


def _cells(line: str) -> list[str]:
    if not line.startswith("|"):
        return []
    # A pipe inside a cell is written as \|.
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [part.strip().replace("\\|", "|").replace("`", "") for part in parts]
