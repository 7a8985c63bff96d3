"""Builds the site: `python -m tests.docs.site` (`make docs`). A warning of the builder ends the build.

No page loads anything from another host. `llms.txt` lists the pages with their first sentence,
`llms-full.txt` has their text; each page is there as Markdown, too.
"""

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs import api
from tests.docs.pages import DOCS, ROOT, prose

TITLE = "a2a-bridge"
#: folders of pages, in the order in which people read them, and their titles
KINDS = {"tutorials": "Tutorials", "how-to": "How-to", "reference": "Reference", "explanation": "Explanation"}
#: attributes that make a browser load something
_LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
#: relations of <link> that load nothing
_NAMES = {"canonical", "next", "prev", "alternate"}


def title(page: Path) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert found is not None, f"{page} has no title"
    return found[1]


def first_sentence(page: Path) -> str:
    """The first sentence of a page, as plain text."""
    paragraphs = prose(page).split("\n\n")
    text = next(one for one in paragraphs if one.strip() and not re.match(r"\s*(#|<|!\[|\||- )", one))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split())).replace("`", "").replace("**", "")
    return re.split(r"(?<=[.:])\s(?=[A-Z`])", plain, maxsplit=1)[0].rstrip(":")


def pages(kind: str) -> list[Path]:
    """The pages of a kind, in the order of the navigation."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    found = sorted((DOCS / kind).rglob("*.md"))
    return sorted(found, key=lambda page: navigation.find(f" {page.relative_to(DOCS)}\n"))


def llms() -> str:
    """The text of llms.txt."""
    lines = [f"# {TITLE}", "", f"> {first_sentence(DOCS / 'index.md')}"]
    for kind, heading in KINDS.items():
        lines += ["", f"## {heading}", ""]
        lines += [
            f"- [{title(page)}]({page.relative_to(DOCS)}): {first_sentence(page)}" for page in pages(kind)
        ]
    return "\n".join(lines) + "\n"


def llms_full() -> str:
    """The text of llms-full.txt: every page, with its path before it."""
    every = [DOCS / "index.md", *(page for kind in KINDS for page in pages(kind))]
    parts = [f"<!-- {page.relative_to(DOCS)} -->\n\n{page.read_text('utf-8')}" for page in every]
    return "\n".join(parts)


def order_search(index: Path) -> None:
    """Puts names of the Python API behind pages about a subject, in the index of the search.

    The search takes the beginning of a word for the word, and what begins a title for the best result: `TlsFileError`
    for "tls". Two words before each name change that; the name alone still finds it first.
    """
    content = json.loads(index.read_text("utf-8"))
    kinds = _kinds()
    for item in content["items"]:
        page, _, section = item["location"].partition("#")
        if page.startswith("reference/api") and section:
            item["title"] = f"Python {kinds.get(item['title'], 'name')} {item['title']}"
            # Otherwise each name would be found for "api".
            item["path"] = ["Reference", "Python", *item["path"][2:]]
    index.write_text(json.dumps(content), "utf-8")


def _kinds() -> dict[str, str]:
    found = {}
    for module in api.MODULES:
        for one in api.names(module):
            value = getattr(importlib.import_module(module), one)
            is_function = inspect.isroutine(value)
            found[one] = "class" if inspect.isclass(value) else "function" if is_function else "constant"
    return found


class _Addresses(HTMLParser):
    """The addresses in a page: those that are loaded, and those of links."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name, value in attrs:
            if not value:
                continue
            if (tag, name) in _LOADS and (tag != "link" or values.get("rel") not in _NAMES):
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.linked.append(value)


def faults(site: Path) -> list[str]:
    """Addresses of other hosts that a page loads, and local addresses without a file."""
    found = []
    for page in sorted(site.rglob("*.html")):
        addresses = _Addresses()
        addresses.feed(page.read_text("utf-8"))
        name = page.relative_to(site)
        found += [f"{name} loads {one}" for one in addresses.loaded if urlsplit(one).netloc]
        for one in [*addresses.loaded, *addresses.linked]:
            parts = urlsplit(one)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            base = site if parts.path.startswith("/") or name.name == "404.html" else page.parent
            if not (base / unquote(parts.path).lstrip("/")).exists():
                found.append(f"{name}: {one} is no file of the site")
    for style in sorted(site.rglob("*.css")):
        outside = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)", style.read_text("utf-8"))
        found += [f"{style.relative_to(site)} loads {one}" for one in outside]
    return found


def build(folder: Path = ROOT) -> Path:
    """Builds a folder's site and gives its folder. Raises SystemExit with the place of what is wrong."""
    command = (sys.executable, "-m", "zensical", "build", "--strict", "--clean")
    site = folder / "site"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr.partition("Traceback")[0])
    for page in DOCS.rglob("*.md"):
        shutil.copyfile(page, site / page.relative_to(DOCS))
    order_search(site / "search.json")
    (site / "llms.txt").write_text(llms(), "utf-8")
    (site / "llms-full.txt").write_text(llms_full(), "utf-8")
    wrong = faults(site)
    if wrong:
        raise SystemExit("\n".join(wrong))
    return site


if __name__ == "__main__":
    print(f"{len(list(build().rglob('*.html')))} pages in site/")
