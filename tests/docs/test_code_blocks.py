"""Every Python block of docs/ runs, in the order of its page and in one namespace for each page.

A block whose first line is `# name.py` is a module too, which later blocks may import. A block after a
comment `<!-- not run: why -->` is compiled only.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from a2a_bridge import Agent, connect, serve
from tests.docs.pages import PAGES, ROOT, Block, blocks, name

#: those of README.md are programs: see test_readme
WITH_CODE = [page for page in PAGES if blocks(page, "python") and page != ROOT / "README.md"]
SECONDS = 60

#: ports that pages name because people like round numbers
_PORTS = re.compile(r"(?<=127\.0\.0\.1):(?:8080|50051)\b")


def weather_file(folder: Path) -> Agent:
    """Writes the weather.py of README.md, and gives its agent."""
    (block,) = (one for one in blocks(ROOT / "README.md", "python") if one.body.startswith("# weather.py"))
    (folder / "weather.py").write_text(block.body)
    names: dict[str, Any] = {"__name__": "weather"}
    exec(block.body, names)  # noqa: S102
    made = names["weather"]
    assert isinstance(made, Agent)
    return made


async def run(block: Block, page: Path, names: dict[str, Any], folder: Path) -> None:
    source = _PORTS.sub(":0", block.body)
    module = re.match(r"# (\w+\.py)\n", source)
    if module is not None:
        (folder / module[1]).write_text(source)
    place = f"{name(page)}:{block.line}"
    code = compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if block.note.startswith("not run:"):
        return
    result = eval(code, names)  # noqa: S307  our own pages
    if inspect.iscoroutine(result):
        await asyncio.wait_for(result, SECONDS)


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
async def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    server = grpc.aio.server()
    names: dict[str, Any] = {
        "__name__": "page",
        "my_grpc_aio_server": server,
    }
    before = set(sys.modules)
    try:
        for block in blocks(page, "python"):
            await run(block, page, names, tmp_path)
    finally:
        await server.stop(None)
        for module in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
                del sys.modules[module]


async def test_the_agents_of_expose_answer() -> None:
    page = ROOT / "docs" / "expose.md"
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        if block.body.startswith("# ") or "@agent(" in block.body:
            exec(block.body, names)  # noqa: S102
    async with serve(names["echo"]) as server, connect(str(server.grpc)) as peer:
        assert (await peer.send("hello")).text == "hello"
    async with connect(names["weather"]) as peer:
        reply = await peer.send("Oslo")
        assert (reply.state, reply.text) == ("completed", "looking… Oslo: 21 °C")
    async with connect(names["report"]) as peer:
        task = (await peer.send("go")).task
        assert task is not None
        assert [one.name for one in task.artifacts] == ["table.csv", "summary"]
        assert "".join(part.text for part in task.artifacts[0].parts) == "col1,col2\n1,2\n"
        assert task.status.message.parts[0].text == "1 parts read"
    async with connect(names["desk"]) as peer:
        assert (await peer.send("?")).text == "without"
