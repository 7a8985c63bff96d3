"""The search of the site, in a browser: a subject leads to the page about it, an error text to its symptom."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from a2a_bridge.testing.each import each
from tests.patience import PATIENCE
from tests.tools.playground.browser import browser

__all__ = ["browser"]

pytestmark = pytest.mark.process

#: words → the page that has to be among the first results, and how many of them count
WANTED = (
    ("tls", "how-to/use-tls.html", 3),
    ("api key", "how-to/authenticate-callers.html", 1),
    ("port", "how-to/deploy.html", 1),
    ("cors", "how-to/secure-a-bridge.html", 1),
    ("langgraph", "how-to/serve-langgraph.html", 1),
    ("docker", "how-to/deploy.html", 1),
    ("Address already in use", "reference/symptoms.html", 3),
    ("Connection refused", "reference/symptoms.html", 3),
    ("certificate verify failed", "reference/symptoms.html", 3),
    ("TlsFiles", "reference/api-servers.html", 1),
    ("use_bridge_key", "reference/api-versions.html", 1),
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """The log would be part of the output of the tests."""


@pytest.fixture(scope="module")
def address(built_site: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(built_site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


@each("words, page, first", WANTED)
def test_a_search_leads_to_its_page(
    browser: Browser, address: str, words: str, page: str, first: int
) -> None:
    view = browser.new_page()
    view.set_default_timeout(PATIENCE * 1000)
    view.goto(f"{address}/index.html")
    view.keyboard.press("/")
    view.get_by_role("combobox", name="Search").fill(words)
    results = view.locator("a[href*='?h=']")
    results.first.wait_for()
    links = [one.get_attribute("href") or "" for one in results.all()]
    assert any(f"/{page}" in link for link in links[:first]), links
    view.close()
