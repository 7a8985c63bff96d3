"""Lists in the text of pages match the code, and the pages can be rendered."""

import re
from pathlib import Path

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.masking import SECRET
from a2a_bridge.testing.each import each
from tests.docs import inventory, site
from tests.docs.pages import DOCS, PAGES, ROOT, name, prose, section, table


def test_the_headers_a_gateway_passes_on() -> None:
    rows = {
        row[0]: row[1]
        for row in table(section(DOCS / "how-to/bridge-an-agent.md", "Pass headers on"), "headers", "how")
    }
    said = set(re.findall(r"[A-Za-z][\w-]+", rows["of the caller"].partition(" are forwarded")[0]))
    assert {one.lower() for one in said} == DialOptions().forward


def test_the_headers_that_are_masked() -> None:
    said = re.search(r"masks the values of (.*?);", prose(DOCS / "reference/commands.md"), re.DOTALL)
    assert said is not None
    assert {one.lower() for one in re.findall(r"`([\w-]+)`", said[1])} == SECRET


@each("page", PAGES)
def test_tables_are_whole(page: Path) -> None:
    """A row with another number of cells than its head loses content when it is rendered."""
    width = 0
    for number, line in enumerate(prose(page).splitlines(), 1):
        cells = len(re.split(r"(?<!\\)\|", line.strip())) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, f"{name(page)}, row {number}: {line}"
        width = cells


#: the verbs that titles of tasks begin with
VERBS = {
    *("Add", "Ask", "Authenticate", "Bridge", "Call", "Change", "Check", "Choose", "Configure", "Deploy", "Give", "Install", "Keep"),
    *("Migrate", "Mount", "Operate", "Plan", "Relay", "Release", "Resume", "Run", "Secure", "Send", "Serve", "Set", "Sign", "Take"),
    *("Test", "Use", "Write"),
}  # fmt: skip


@each("page", site.pages("how-to"))
def test_a_task_is_one_page_with_a_verb(page: Path) -> None:
    assert site.title(page).split()[0] in VERBS, name(page)
    assert len(page.read_text().splitlines()) <= 120, name(page)


def test_the_inventory_has_every_page() -> None:
    lines = inventory.table()
    for page in PAGES:
        if page.name in ("README.md", "index.md"):
            continue
        assert any(f" {page.relative_to(DOCS)} " in line for line in lines), name(page)
    assert inventory.words(DOCS / "reference" / "api.md") == 0
    assert (
        0
        < inventory.words(DOCS / "reference" / "errors.md")
        < len((DOCS / "reference" / "errors.md").read_text().split())
    )


def test_the_site(built_site: Path) -> None:
    assert (built_site / "reference" / "wire.html").is_file()
    listed = (built_site / "llms.txt").read_text()
    whole = (built_site / "llms-full.txt").read_text()
    for page in PAGES[1:]:
        path = str(page.relative_to(DOCS))
        assert path == "index.md" or f"]({path}): " in listed, path
        assert page.read_text() in whole, path
        assert (built_site / path).read_bytes() == page.read_bytes()


def test_a_site_with_a_fault_is_none(tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    folder, made = tmp_path / "docs", tmp_path / "made"
    folder.mkdir()
    made.mkdir()
    config = (ROOT / "mkdocs.yml").read_text().partition("nav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config)
    (folder / "index.md").write_text("# A\n\n[gone](gone.md)\n")
    with pytest.raises(SystemExit, match="page does not exist"):
        site.build(tmp_path)
    html = '<script src="https://cdn.example/a.js"></script><a href="gone.html">a</a><a href="#here">b</a>'
    (made / "one.html").write_text(html)
    (made / "one.css").write_text("a { src: url('//fonts.example/a.woff') }")
    assert site.faults(made) == [
        "one.html loads https://cdn.example/a.js",
        "one.html: gone.html is no file of the site",
        "one.css loads //fonts.example/a.woff",
    ]
