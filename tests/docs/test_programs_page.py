"""docs/how-to/serve-a-program.md: its programs do what it says, and its lists match the code."""

import re
import shutil
from pathlib import Path

import pytest

from a2a_bridge import Agent, Program, connect
from a2a_bridge.cli.server_flags import ServeFlags
from a2a_bridge.core.options import options_of
from a2a_bridge.hosting.programs import FIXED
from a2a_bridge.hosting.programs.output import KINDS
from a2a_bridge.hosting.programs.process import GRACE
from tests.cli.commands import ANY_PORT, command, serving
from tests.docs.pages import DOCS, blocks, prose, section, table
from tests.docs.test_commands import READY

PAGE = DOCS / "how-to/serve-a-program.md"
PROTOCOL = DOCS / "reference/programs.md"


@pytest.mark.process
@pytest.mark.parametrize(("language", "interpreter"), [("sh", "sh"), ("js", "node"), ("python", "python3")])
async def test_the_examples(language: str, interpreter: str, tmp_path: Path) -> None:
    if shutil.which(interpreter) is None:
        pytest.skip(f"there is no {interpreter}")
    (block,) = (one for one in blocks(PAGE, language) if one.body.startswith("#!"))
    found = re.search(r"^(?:#|//) (weather\S+)$", block.body, re.MULTILINE)
    assert found is not None
    path = tmp_path / found[1]
    path.write_text(block.body)
    path.chmod(0o700)
    async with connect(Agent(Program(path), name="weather")) as peer:
        asked = await peer.send("")
        assert (asked.state, asked.text) == ("input-required", "Which city?")
        answered = await peer.send("Oslo", task=asked.task)
        assert answered.state == "completed"
        assert answered.text.removeprefix("looking…\n") == "Oslo: 21 °C\n"


@pytest.mark.process
async def test_the_first_command() -> None:
    (block,) = blocks(PAGE, "console")
    line, _, output = block.body.partition("\n")
    assert READY.fullmatch(output.strip())
    async with serving(*line.removeprefix("$ a2a-bridge ").split(), *ANY_PORT) as running:
        assert READY.fullmatch(running.ready)
        assert (await command("send", "-a", running.http, "hello")).text == "hello"


def test_the_lists() -> None:
    flags = set(re.findall(r"`(--exec-[a-z-]+)`", section(PAGE, "The command line")))
    assert flags == {
        f"--{name.replace('_', '-')}" for name in options_of(ServeFlags) if name.startswith("exec_")
    }
    events = table(section(PROTOCOL, "Events"), "event")
    assert {row[0].split('"')[1]: set(re.findall(r"\w+", row[1])) for row in events} == {
        name: set(beside) for name, beside in KINDS.items()
    }
    passed = (
        prose(PROTOCOL).partition("Of the variables of the server it gets ")[2].partition(" and those of")[0]
    )
    assert tuple(re.findall(r"`(\w+)`", passed)) == FIXED
    assert f"after {GRACE:g} seconds" in prose(PROTOCOL)
