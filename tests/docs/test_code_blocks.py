"""Every Python block of docs/ is a program, and runs as a file as a reader would save it.

`needs EXTRA`: run by `make frameworks`. `cell`: of a notebook. `# name.py`: its name; later blocks of the page may import it.
"""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import Agent, connect, serve
from tests.docs.notebook import NOTE
from tests.docs.pages import PAGES, ROOT, Block, blocks, name
from tests.patience import PATIENCE


def programs(page: Path) -> list[Block]:
    return [
        block
        for block in blocks(page, "python")
        if block.note != NOTE and not block.note.startswith("needs ")
    ]


#: those of README.md have tests of their own: see test_readme
WITH_CODE = [page for page in PAGES if programs(page) and page != ROOT / "README.md"]

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


async def run(path: Path, place: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        path.name,
        cwd=path.parent,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'transports'}",
            "PYTHONWARNINGS": "error",
        },
    )
    try:
        _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"{place} does not end") from None
    assert (process.returncode, errors.decode()) == (0, ""), place


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
async def test_the_python_blocks_of_a_page_are_programs(page: Path, tmp_path: Path) -> None:
    for block in programs(page):
        source = _PORTS.sub(":0", block.body)
        place = f"{name(page)}:{block.line}"
        module = re.match(r"# (\w+\.py)\n", source)
        path = tmp_path / (module[1] if module is not None else f"line_{block.line}.py")
        path.write_text(source)
        await run(path, place)


@pytest.mark.parametrize(
    ("page", "agent"), [("how-to/resume-streams.md", "counter"), ("how-to/keep-tasks.md", "report")]
)
async def test_only_the_last_piece_of_an_artifact_is_marked_as_such(page: str, agent: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(next(one.body for one in blocks(ROOT / "docs" / page, "python") if f"{agent}.py" in one.body), names)  # noqa: S102
    async with connect(names[agent]) as peer:
        events = [event async for event in peer.stream("go")]
    pieces = [event.artifact_update for event in events if event.WhichOneof("payload") == "artifact_update"]
    assert [piece.last_chunk for piece in pieces] == [False, False, True]


async def test_the_agents_of_the_pages_answer() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for page in ("write-an-agent.md", "change-the-card.md"):
        for block in blocks(ROOT / "docs" / "how-to" / page, "python"):
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
