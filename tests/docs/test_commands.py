"""The command lines of README.md and docs/reference/commands.md have the documented output, with free ports in place of the
usual ones.
"""

from __future__ import annotations

import re
import shlex
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from a2a_bridge import interface, serve
from tests.cli.commands import ANY_PORT, FILES, Running, command, serving
from tests.docs.pages import DOCS, ROOT, blocks, name
from tests.docs.test_code_blocks import weather_file

READY = re.compile(r"ready http=http://127\.0\.0\.1:\d+ grpc=127\.0\.0\.1:\d+")


def shape(text: str) -> str:
    """Output without the parts that differ from run to run: durations, and the blanks that fill columns."""
    return re.sub(r"\s+", " ", re.sub(r"\d+ ms", "N ms", text)).strip()


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "reference/commands.md"], ids=name)
async def test_the_commands_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weather = weather_file(tmp_path)
    ran = []
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(serve(weather, [interface("JSONRPC")]))
        running: Running | None = None
        for block in blocks(page, "console"):
            for entry in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                line, _, output = entry.partition("\n")
                words = shlex.split(
                    line.replace("http://localhost:9999", f"http://{theirs.http}"), comments=True
                )
                if words[0] != "a2a-bridge":
                    continue
                ran.append(words[1])
                if words[1] in ("serve", "gateway"):
                    running = await stack.enter_async_context(serving(*words[1:], *ANY_PORT, env=FILES))
                    assert READY.fullmatch(running.ready)
                    assert READY.fullmatch(output.strip()), f"{name(page)}: {line}"
                    continue
                assert running is not None
                port = running.http.rpartition(":")[2]
                done = await command(
                    *(
                        re.sub(r"^:8080", f":{port}", re.sub(r"localhost:50051$", running.grpc, word))
                        for word in words[1:]
                    )
                )
                assert done.code == 0, f"{name(page)}: {line}\n{done.err}"
                assert done.out
                if output.strip():
                    assert shape(done.out) == shape(output)
    assert {"serve", "gateway", "send", "compare"} <= set(ran)
