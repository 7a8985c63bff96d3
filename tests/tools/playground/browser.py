"""The playground's page in the Chromium of this machine, one per module, and its commands. No tests.

Complaints of the browser fail the test: errors of scripts, the content security policy, requests to
elsewhere. With DOCS_PICTURES=FOLDER, tests write the pictures of the documentation there.
"""

import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: nothing that a browser does on its own; the sandbox rejects to run as root
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
TABS = ("compose", "task", "webhooks", "card", "history", "errors", "usage")
PICTURES = os.environ.get("DOCS_PICTURES")
#: bytes of a picture
LARGEST_PICTURE = 200_000
WIDE = {"width": 1280, "height": 800}


@dataclass(frozen=True)
class View:
    """A page with the playground."""

    page: Page
    #: what the browser complained about
    faults: list[str] = field(default_factory=list)

    def get(self, testid: str) -> Locator:
        """The visible elements of this name; those of other tabs are hidden."""
        return self.page.locator(f'[data-testid="{testid}"]:visible')

    def tab(self, name: str) -> None:
        self.get(f"tab-{name}").click()

    def choose(self, segment: str) -> None:
        """Chooses one of several segments; the radio button lies below its label."""
        self.get(segment).check(force=True)

    def cells(self, *ids: str) -> None:
        """Chooses these cells and no others."""
        for box in self.get("cell").all():
            box.set_checked(box.get_attribute("data-cell") in ids)

    def line(self, cell: str, hop: str = "client") -> Locator:
        """The row of a lane in the table of results."""
        return self._lane("lane-row", cell, hop)

    def answer(self, cell: str, hop: str = "client") -> Locator:
        """The answer of a lane, which is chosen for it."""
        self.line(cell, hop).get_by_test_id("lane-choose").click()
        return self._lane("answer", cell, hop)

    def _lane(self, testid: str, cell: str, hop: str) -> Locator:
        return self.page.locator(f'[data-testid="{testid}"][data-cell="{cell}"][data-hop="{hop}"]:visible')

    def send(self, text: str, *, stream: bool = False) -> None:
        """Writes a text in Compose, sends it, and waits for the end."""
        self.tab("compose")
        self.choose("mode-text")
        self.get("stream").set_checked(stream)
        self.get("text").fill(text)
        self.get("send").click()
        expect(self.get("status")).to_contain_text("done")

    def has_no_faults_of_accessibility(self) -> None:
        # Without the rules that are met, it takes half of the time.
        found = Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        faults = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
        assert not faults, faults

    def keeps_everything_inside(self) -> None:
        """No box of the page is narrower than what it holds."""
        wider = "one => one.offsetParent !== null && one.scrollWidth > one.clientWidth + 1"
        boxes = "[...document.querySelectorAll('.column, .answer, .results, .frame, .panel, main')]"
        found = self.page.evaluate(f"{boxes}.filter({wider}).map(one => one.outerHTML.slice(0, 300))")
        assert not found, found

    def picture(self, name: str) -> None:
        """Writes a picture for the documentation, when that is asked for."""
        if PICTURES is not None:
            path = Path(PICTURES) / f"playground-{name}.png"
            self.page.screenshot(path=path)
            assert path.stat().st_size < LARGEST_PICTURE, path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: install Chromium (`apt-get install chromium`), one of {', '.join(NAMES)}")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., View]]:
    """`show(ui)` opens a playground in a fresh window; members of the deep link and options may follow."""
    with ExitStack() as stack:
        views: list[View] = []

        def shown(ui: str, link: str = "", **options: Any) -> View:
            options.setdefault("viewport", WIDE)
            options.setdefault("color_scheme", "light")
            options.setdefault("reduced_motion", "reduce")
            context = stack.enter_context(browser.new_context(locale="en-GB", **options))
            context.set_default_timeout(PATIENCE * 1000)
            view = View(context.new_page())
            views.append(view)
            origin = ui.partition("/?")[0]
            view.page.on("console", lambda one: _take_note(view, one.type, one.text))
            view.page.on("pageerror", lambda error: view.faults.append(str(error)))
            view.page.on("request", lambda one: _stays_at(view, origin, one.url))
            view.page.goto(f"{ui}#{link}" if link else ui)
            expect(view.page.get_by_role("tablist", name="Playground")).to_be_visible()
            return view

        yield shown
        faults = [fault for view in views for fault in view.faults]
        assert not faults, faults


def _take_note(view: View, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        view.faults.append(text)


def _stays_at(view: View, origin: str, url: str) -> None:
    if not url.startswith((origin + "/", "data:", "blob:")):
        view.faults.append(f"a request to {url}")


@contextmanager
def program(*arguments: str) -> Iterator[dict[str, str]]:
    """A serving command as a user starts it, until the block ends; the addresses of its ready line."""
    with started(sys.executable, "-m", "a2a_bridge", *arguments) as addresses:
        yield addresses


@contextmanager
def started(*command: str) -> Iterator[dict[str, str]]:
    """A program until the block ends; the addresses of its ready line."""
    own = {"A2A_BRIDGE_STORE": "memory://", "XDG_CONFIG_HOME": os.devnull}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=own | os.environ
    )
    with process, ExitStack() as stop:
        stop.callback(_stop, process)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE), f"{command} did not start"
        words = dict(word.partition("=")[::2] for word in process.stdout.readline().split())
        assert "ready" in words, command
        yield words


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
