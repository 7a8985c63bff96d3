"""Links inside the project lead somewhere, and every page is in the navigation."""

import re
import tomllib
from pathlib import Path

from a2a_bridge.testing.each import each
from tests.docs.pages import DOCS, PAGES, ROOT, TEXTS, anchors, links, name, prose
from tests.docs.site import KINDS


@each("page", TEXTS)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name(page)}: {link}"


#: what paths of modules are relative to
FOLDERS = (
    "",
    "a2a_bridge",
    "a2a_bridge/stores",
    "a2a_bridge/cli",
    "transports/a2a_bridge_transports",
    "tools/a2a_bridge_tools",
    "adapters/a2a_bridge_adapters",
)


@each("page", [ROOT / "ARCHITECTURE.md", DOCS / "explanation/design.md"])
def test_modules_that_the_design_names_exist(page: Path) -> None:
    for module in re.findall(r"`(\w+(?:/\w+)+\.py)`", prose(page)):
        assert any((ROOT / folder / module).exists() for folder in FOLDERS), module


def test_every_page_is_in_the_navigation_and_of_a_kind() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        if page.is_relative_to(DOCS):
            path = page.relative_to(DOCS)
            assert f": {path}\n" in navigation, path
            assert str(path) == "index.md" or path.parts[0] in KINDS, path


def test_links_of_the_source_distribution_stay_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for page in TEXTS:
        for link in links(page):
            if "://" not in link and not link.startswith("#"):
                target = (page.parent / link.partition("#")[0]).resolve().relative_to(ROOT)
                assert f"/{target.parts[0]}" in included, f"{name(page)}: {link}"
