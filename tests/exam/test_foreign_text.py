"""Foreign text does not become code or control: a test for each row of the table in docs/explanation/security-model.md
whose bound is ours (others: tests/cli/test_terminal.py, tests/tools/client/test_wire.py, tests/runtime/test_front_page.py).
"""

import ast
import io
import logging
import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.page import agent_page
from a2a_bridge.cli.log_setup import TextFormat, configure_logging, open_logging
from a2a_bridge.cli.server_flags import LogFormat, ServeFlags
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.fronts.openai_answers import text_of_parts
from a2a_bridge_tools.client.equivalents import Request, format_request
from a2a_bridge_tools.client.flags import EquivalentKind
from a2a_bridge_tools.playground.page import MOST, Deliveries
from tests.architecture.repository import ROOT
from tests.runtime.scene import commands

#: a bell, the end of a command's quotes for a terminal, a sequence in one character, a direction, a forged line
HOSTILE = "a\x07\x03\x9b2J\u202e\x1b]0;t\x07\n2026-01-01T00:00:00.000Z ERROR a2a_bridge: forged\x1b[8mhidden"
CONTROL = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]|\x1b(?!\\[\\d*m)|\x1b\\[8m")


def record(logger: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(logger, logging.WARNING, "", 0, "Invalid Host header: %s", (text,), None)


@each("logger", ["mcp.server.transport_security", "a2a_bridge.gateway", "weather"])
def test_no_library_writes_control_into_the_log(logger: str) -> None:
    line = TextFormat().format(record(logger, HOSTILE))
    assert not CONTROL.search(line)
    assert [one[:4] for one in line.splitlines()[1:] if not one.startswith("  ")] == []


def failing(text: str) -> None:
    raise ValueError(text)


def test_an_exception_makes_no_record() -> None:
    try:
        failing(HOSTILE)
    except ValueError:
        told = logging.LogRecord("weather", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    first, *others = TextFormat().format(told).splitlines()
    assert first.endswith(" ERROR weather: failed")
    assert all(one.startswith("  ") for one in others)


@pytest.fixture
def loggers() -> Iterator[None]:
    """The root logger, as it was."""
    root, bridge = logging.getLogger(), logging.getLogger("a2a_bridge")
    kept = [(one, list(one.handlers), one.level, one.propagate) for one in (root, bridge)]
    yield
    for one, handlers, level, propagate in kept:
        one.handlers[:] = handlers
        one.setLevel(level)
        one.propagate = propagate


@pytest.mark.usefixtures("loggers")
def test_a_log_that_the_agent_has_configured_is_cleaned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging(ServeFlags())
    logging.basicConfig(format="theirs %(message)s", level=logging.INFO)
    open_logging(None, LogFormat.TEXT)
    for name in ("mcp.server.transport_security", "a2a_bridge.gateway"):
        logging.getLogger(name).warning("Invalid Host header: %s", HOSTILE)
    shown = screen.getvalue()
    assert shown.count("theirs Invalid") == 2
    assert not CONTROL.search(shown)
    assert "\n2026" not in shown


def as_command(kind: EquivalentKind, binding: str, url: str, body: str = "{}") -> list[str]:
    candidate = Candidate(interface(binding, url, version="1.0"), V1_0)
    call: Any = Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), CallContext())
    request = Request("POST", url, (), body)
    text = format_request(kind, request, call, candidate, {})
    assert not CONTROL.search(text)
    return shlex.split(text)


def test_an_address_is_no_option_and_no_pattern() -> None:
    words = as_command(EquivalentKind.GRPCURL, "GRPC", "--next:9")
    assert words[-3:] == ["--", "--next:9", "POST"]
    assert as_command(EquivalentKind.CURL, "JSONRPC", "http://x/[1-5]")[:2] == ["curl", "-g"]
    assert as_command(EquivalentKind.CURL, "JSONRPC", "http://x/{a,b}")[:2] == ["curl", "-g"]
    assert as_command(EquivalentKind.CURL, "JSONRPC", "http://x/1-5")[:2] == ["curl", "-sS"]


def test_what_is_pasted_ends_no_quotes() -> None:
    assert "http://x/%07%03%C2%9B/" in as_command(EquivalentKind.CURL, "JSONRPC", "http://x/\x07\x03\x9b/")
    body = as_command(EquivalentKind.CURL, "JSONRPC", "http://x/", '{"a":"\x7f\x9b"}')[-1]
    assert ast.literal_eval(body) == {"a": "\x7f\x9b"}
    as_command(EquivalentKind.GRPCURL, "GRPC", "x\x03:9", '{"a":"\x9b"}')
    as_command(EquivalentKind.PYTHON, "GRPC", "x\x03\x9b:9")


def test_the_page_of_an_agent_has_no_options_and_no_patterns() -> None:
    card = hub.AgentCard(name="n")
    for binding, url in (
        ("GRPC", "--next:9"),
        ("JSONRPC", "http://x/[1-5]\x03"),
        ("HTTP+JSON", "http://x/{a,b}"),
    ):
        card.supported_interfaces.add(
            url=url, protocol_binding=binding, protocol_version="1.0", tenant="t\x9b"
        )
    page = agent_page(card, "http://x").decode()
    shown = commands(page)
    assert not [one for one in shown if CONTROL.search(one)]
    words = sorted((shlex.split(one) for one in shown), key=lambda one: one[0])
    assert [one[:2] for one in words[:2]] == [["curl", "-g"]] * 2
    assert words[2][-3:-1] == ["--", "--next:9"]


def test_a_file_is_one_link_of_markdown() -> None:
    script = hub.Part(url="javascript:alert(1)", filename="a", media_type="image/png")
    assert text_of_parts([script]).strip() == "a: javascript:alert%281%29"
    name, url = "a](http://x)\n# b <i>`\\", "https://x.example/a) [b](javascript:alert(1)\n\x9b"
    for part in (hub.Part(url=url, filename=name), hub.Part(raw=b"x", filename=name, media_type="image/png")):
        text = text_of_parts([part]).strip()
        found = re.fullmatch(r"!?\[([^][\\`<>\n]*)\]\(([^()\\<>\s]*)\)", text)
        assert found is not None, text
        assert not CONTROL.search(text)


def test_nothing_writes_spreadsheets() -> None:
    """A cell that begins with = is a formula. Whoever adds an export of CSV adds its row and its bound."""
    folders = ("a2a_bridge", "transports", "tools", "adapters")
    files = [one for folder in folders for one in (ROOT / folder).rglob("*.py")]
    assert len(files) > 400
    assert [
        one
        for one in files
        if re.search(r"^\s*(import|from) (csv|openpyxl|pandas)\b", one.read_text("utf-8"), re.MULTILINE)
    ] == []


async def test_deliveries_are_kept_by_their_bytes() -> None:
    """One byte of a body becomes six of JSON."""
    kept = Deliveries()
    for _ in range(100):
        kept.take([], b"\0" * 64 * 1024, 64 * 1024)
    lines = kept.lines()
    found = [await anext(lines) for _ in range(len(kept._kept))]
    await lines.aclose()
    assert 5 < len(found) < 100
    assert sum(map(len, found)) <= MOST
