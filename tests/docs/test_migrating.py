"""The commands of docs/how-to/migrate-clients.md work, in their order, against an agent of the SDK 0.3.26."""

import re
import shlex
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cli.commands import Running, command, serving
from tests.docs.pages import DOCS, blocks
from tests.peers.processes import JSONRPC, Agent

PAGE = DOCS / "how-to/migrate-clients.md"
_FIXED = re.compile(r"127\.0\.0\.1:(?:8080|50051|9100)$")


def commands() -> list[list[str]]:
    lines = [
        line.removeprefix("$ ")
        for block in blocks(PAGE, "console")
        for line in block.body.splitlines()
        if line.startswith("$ ")
    ]
    return [shlex.split(line) for line in lines]


def placed(words: list[str], running: Running | None, agent: str) -> list[str]:
    """The words of a command with the real addresses; free ports for listeners."""
    found = []
    for word in words:
        if word in ("http://localhost:9999", "http://localhost:9998"):
            found.append(agent)
        elif running is not None and word == "http://127.0.0.1:8080":
            found.append(running.http)
        elif running is not None and word == ":9100":
            found.append(running.addresses["usage"])
        else:
            found.append(_FIXED.sub("127.0.0.1:0", word))
    return found


@pytest.mark.sdk
async def test_every_command_of_the_page(
    peer_agents: Callable[..., Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = peer_agents("0.3.26", JSONRPC).http
    verbs = []
    running: Running | None = None
    async with AsyncExitStack() as stack:
        for program, verb, *words in commands():
            assert program == "a2a-bridge"
            verbs.append(verb)
            if verb == "gateway":
                running = await stack.enter_async_context(serving(verb, *placed(words, None, agent)))
                if "--usage-listen" in words:
                    counting = running
                continue
            at = counting if verb == "usage" else running
            done = await command(verb, *placed(words, at, agent))
            assert done.code == 0, f"{verb} {words}\n{done.out}{done.err}"
            assert done.out
            if verb == "usage":
                assert "JSONRPC" in done.out or "--a2a-version" in words or words[0].endswith(".json"), (
                    done.out
                )
    assert {"gateway", "card", "send", "compare", "usage"} <= set(verbs)


def test_the_page_names_every_step_that_can_be_undone() -> None:
    assert PAGE.read_text().count("To go back") >= 2
