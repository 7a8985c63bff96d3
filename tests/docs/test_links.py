"""Links inside the project lead somewhere, and every page is in the navigation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, TEXTS, anchors, links, name


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name(page)}: {link}"


def test_every_page_is_in_the_navigation_and_in_the_index() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    index = (DOCS / "index.md").read_text()
    for page in PAGES:
        if page.is_relative_to(DOCS):
            path = str(page.relative_to(DOCS))
            assert f": {path}\n" in navigation, path
            assert path == "index.md" or f"]({path})" in index, path
