"""No text of an agent, a provider or a file controls a terminal."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_bridge import connect
from a2a_bridge.cli import output
from a2a_bridge.cli.log_setup import TextFormat
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import command, serving
from tests.sites import site

#: a colour, a title, the start of a sequence in one character, a direction, a bell, and the end of a line
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egpj.exe\r"
#: how its beginning is shown: as text, in a Python literal, and as JSON
SHOWN = re.compile(r"\\+x1b\[31mred|\\u001b\[31mred")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

ERROR = {
    "code": -32602,
    "message": f"wrong {HOSTILE}",
    "data": [
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": f"f{HOSTILE}", "description": HOSTILE}],
        },
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": HOSTILE, "domain": HOSTILE},
    ],
}
STATUS = {"state": "TASK_STATE_FAILED", "message": {"messageId": "m", "role": "ROLE_AGENT"}}
STATUS["message"]["parts"] = [{"text": HOSTILE}]  # type: ignore[index]
FILE = {"raw": "eA==", "filename": f"{HOSTILE}.txt", "mediaType": HOSTILE}
LINK = {"url": f"https://x.example/{HOSTILE}"}
TASK = {
    "id": f"t{HOSTILE}",
    "contextId": f"c{HOSTILE}",
    "status": STATUS,
    "artifacts": [{"artifactId": HOSTILE, "name": HOSTILE, "parts": [FILE, LINK, {"text": HOSTILE}]}],
    "metadata": {HOSTILE: HOSTILE},
}
RESULTS = {
    "SendMessage": {"task": TASK},
    "GetTask": TASK,
    "ListTasks": {"tasks": [TASK], "nextPageToken": HOSTILE},
}


def hostile_card(place: str) -> Any:
    """A card with control characters wherever text can be."""
    interface = {"url": f"{place}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": HOSTILE,
        "description": HOSTILE,
        "version": HOSTILE,
        "provider": {"organization": HOSTILE, "url": HOSTILE},
        "supportedInterfaces": [
            interface,
            {**interface, "protocolBinding": HOSTILE},
            {**interface, "url": f"http://127.0.0.1:1/{HOSTILE}"},
            {**interface, "url": f"http://127.0.0.9{HOSTILE}/"},
        ],
        "capabilities": {"extensions": [{"uri": HOSTILE, "required": True}]},
        "defaultInputModes": [HOSTILE],
        "defaultOutputModes": [HOSTILE],
        "skills": [{"id": HOSTILE, "name": HOSTILE, "description": HOSTILE, "tags": [HOSTILE]}],
        "securitySchemes": {
            HOSTILE: {
                "oauth2SecurityScheme": {
                    "flows": {
                        "clientCredentials": {"tokenUrl": f"https://idp.example/{HOSTILE}", "scopes": {}}
                    }
                }
            }
        },
        "securityRequirements": [{"schemes": {HOSTILE: {"list": []}}}],
    }


@asynccontextmanager
async def hostile_agent(*, fails: bool) -> AsyncIterator[str]:
    """An agent whose every text has control characters. fails: answers each call with an error."""
    place = ""

    async def show(_request: web.Request) -> web.Response:
        return web.json_response(hostile_card(place))

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        result = RESULTS.get(asked["method"])
        reply = {"error": ERROR} if fails or result is None else {"result": result}
        text = json.dumps(
            {"jsonrpc": "2.0", "id": asked["id"], **reply}, ensure_ascii=asked["method"] == "GetTask"
        )
        return web.Response(text=text, content_type="application/json")

    async with site({"/.well-known/agent-card.json": show, "POST /{path:.*}": answer}) as url:
        place = url
        yield url


def assert_harmless(out: str, err: str) -> None:
    for stream in (out, err):
        found = CONTROL.search(stream)
        assert found is None, (found, stream[max(0, found.start() - 60) :][:120] if found else "")


AGENT = ("-a", "{}")
COMMANDS: list[tuple[str, ...]] = [
    ("send", "hi", *AGENT),
    ("send", "hi", *AGENT, "-v", "--debug"),
    ("send", "hi", *AGENT, "-o", "json"),
    ("send", "hi", *AGENT, "--save-fileparts", "{folder}"),
    ("send", "hi", *AGENT, "--stream"),
    ("send", "hi", *AGENT, "--as", "curl"),
    ("compare", "hi", *AGENT),
    ("task", "get", "t", *AGENT, "--debug"),
    ("task", "list", *AGENT, "-v"),
    ("task", "download", "t", *AGENT, "--output-dir", "{folder}"),
    ("card", "get", *AGENT, "-v", "--validate"),
    ("check", "{}"),
    ("check", "{}", "--send", "hi"),
    ("conformance", *AGENT),
    ("auth", "login", *AGENT, "--client-id", "c", "--client-secret", "s"),
]


@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_no_control_characters_reach_a_terminal(
    words: tuple[str, ...], fails: bool, tmp_path: Path
) -> None:
    async with hostile_agent(fails=fails) as place:
        done = await command(*(one.format(place, folder=tmp_path) for one in words), "--timeout", "20")
    assert_harmless(done.out, done.err)
    assert SHOWN.search(done.out + done.err), done
    assert "this program has failed" not in done.err
    if "json" in words and not fails:
        assert done.json["task"]["metadata"] == {HOSTILE: HOSTILE}


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_a_gateway_starts_and_logs_without_them(log_format: str) -> None:
    flags = ("--http", "127.0.0.1:0", "--no-grpc", "--log-format", log_format)
    async with hostile_agent(fails=True) as place, serving("gateway", place, *flags) as gateway:
        # An answer of the agent that is a fault of its own is logged with its text.
        sent = await command("send", "hi", "-a", gateway.http, "--transport", "JSONRPC")
        done = await gateway.ended_by_signal()
    assert_harmless(done.out, done.err)
    assert_harmless(sent.out, sent.err)
    assert SHOWN.search(done.err), done.err
    if log_format == "json":
        lines = [json.loads(line) for line in done.err.splitlines()]
        assert any("\x1b[31mred" in str(line) or HOSTILE in line["message"] for line in lines)


def test_the_log_of_the_bridge_quotes_and_that_of_an_agent_has_its_colours() -> None:
    def line(logger: str) -> str:
        return TextFormat().format(logging.LogRecord(logger, logging.INFO, "", 0, "\x1b[31mred", None, None))

    assert "\x1b" not in line("a2a_bridge.gateway")
    assert line("weather").endswith("\x1b[31mred\x1b[0m")


def test_a_text_of_a_peer_makes_no_further_record_of_the_log() -> None:
    text = "failed: no\n2026-01-01T00:00:00.000Z ERROR a2a_bridge: forged\r\u2028x"
    try:
        int("x")
    except ValueError:
        record = logging.LogRecord("a2a_bridge.gateway", logging.INFO, "", 0, "%s", (text,), sys.exc_info())
    first, *others = TextFormat().format(record).splitlines()
    assert first.endswith(r"failed: no\n2026-01-01T00:00:00.000Z ERROR a2a_bridge: forged\r\u2028x")
    assert (others[0], others[-1]) == (
        "  Traceback (most recent call last):",
        "  ValueError: invalid literal for int() with base 10: 'x'",
    )


async def test_a_malformed_url_of_a_card_takes_no_other_interface_away() -> None:
    async with hostile_agent(fails=False) as place, connect(place) as peer:
        page = await peer.list_tasks(hub.ListTasksRequest())
    assert page.tasks[0].metadata[HOSTILE] == HOSTILE


def test_nothing_on_stderr_stands_in_a_line_that_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal both streams are on one screen."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((80, 24)))
    output.data("half a line", end="")
    output.progress("task t: working, 1 s")
    output.data(" and the rest", end="")
    output.print_message("note: the stream broke")
    output.progress("task t: working, 2 s")
    output.data("done")
    assert screen.getvalue() == (
        f"half a line and the rest\nnote: the stream broke\n\rtask t: working, 2 s\r{' ' * 20}\rdone\n"
    )


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2
