"""The picture of a terminal in the tutorial is the command's output; `make pictures` writes it."""

import asyncio
import os
import pty
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from tests.cli.commands import ANY_PORT, serving
from tests.docs.pages import DOCS, blocks
from tests.patience import PATIENCE

pytestmark = pytest.mark.process

NAME = "terminal-compare.svg"
#: a folder: the picture is written there
PICTURES = os.environ.get("DOCS_PICTURES")
#: columns of the terminal; pixels of a character and a line
COLUMNS, WIDE, HIGH = 66, 8.4, 20
STYLE = """
  text { font: 14px ui-monospace, Menlo, Consolas, monospace; white-space: pre; fill: #1f2328 }
  rect { fill: #f6f8fa; stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #151b23; stroke: #3d444d } }
"""
#: times are never the same
TIME = re.compile(r" +\d+ ms")


async def printed(*words: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)},
        )
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        text = os.read(ours, 65536).decode()  # a terminal holds 4 KiB, which is more than this output
    finally:
        os.close(ours)
        os.close(theirs)
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n").rstrip("\n")


def drawn(lines: list[str]) -> str:
    width, height = round(COLUMNS * WIDE) + 24, len(lines) * HIGH + 24
    texts = "\n".join(
        f'  <text x="12" y="{26 + HIGH * number}">{escape(line)}</text>' for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" xml:space="preserve">\n'
        f"  <title>{escape(lines[0])}</title>\n  <style>{STYLE}  </style>\n"
        f'  <rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>\n{texts}\n</svg>\n'
    )


async def test_the_picture_is_what_the_command_prints(tmp_path: Path) -> None:
    agent = tmp_path / "weather.py"
    agent.write_text(blocks(DOCS / "tutorials" / "bridge.md", "python")[0].body)
    old = (
        "serve",
        str(agent),
        "--http",
        "127.0.0.1:0",
        "--no-grpc",
        "--versions",
        "0.3",
        "--advertise",
        "JSONRPC",
    )
    async with serving(*old) as behind, serving("gateway", behind.http, *ANY_PORT) as gateway:
        text = await printed(sys.executable, "-m", "a2a_bridge", "compare", "-a", gateway.http, "Oslo")
    now = drawn(["$ a2a-bridge compare -a :8080 Oslo", *text.splitlines()])
    assert now.count("identical") == 8
    if PICTURES is not None:
        await asyncio.to_thread(Path(PICTURES, NAME).write_text, now, "utf-8")
    kept = (DOCS / "pictures" / NAME).read_text("utf-8")
    assert TIME.sub("", kept) == TIME.sub("", now)
