"""`send --check` and `--quiet`: what scripts read."""

from pathlib import Path

import pytest

from a2a_bridge.testing.each import each
from tests.cli.commands import command

pytestmark = pytest.mark.process

AGENT = '''
from a2a_bridge import agent
from a2a_bridge.ext import hub

@agent(task=True)
async def states(run):
    """Ends in the state that the message names."""
    yield "one "
    yield hub.Part(data={"struct_value": {}}) if run.text == "data" else "two"
    if run.text in ("failed", "rejected", "canceled", "input-required", "auth-required"):
        yield run.status(run.text, "no city")

@agent
async def direct(text: str) -> str:
    """Answers at once."""
    return text
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "states.py").write_text(AGENT)
    return str(tmp_path / "states.py")


@each(
    "state, code",
    [
        ("completed", 0),
        ("failed", 10),
        ("rejected", 11),
        ("canceled", 12),
        ("input-required", 13),
        ("auth-required", 13),
    ],
)
async def test_the_code_of_a_task_that_is_not_completed(target: str, state: str, code: int) -> None:
    done = await command("send", "-a", f"{target}:states", state, "--check", "-q")
    assert done.code == code, done
    error = f"error: the task is {state}: no city (--check)\n"
    assert done.err == (error if code else "")
    asked = "no city\n" if code == 13 else ""
    assert done.out == f"one two\n{asked}"


async def test_without_it_the_outcome_is_a_warning(target: str) -> None:
    done = await command("send", "-a", f"{target}:states", "failed")
    assert (done.code, "warning: the task is failed: no city" in done.err) == (0, True)
    assert (await command("send", "-a", f"{target}:direct", "hi", "--check")).code == 0


@each(
    "words, out",
    [
        (("direct", "hi"), "hi\n"),
        (("states", "data"), "one {}\n"),
        (("states", "failed", "--stream"), "one two\n"),
        (("direct", "hi", "--stream"), "hi\n"),
    ],
)
async def test_quiet_prints_the_answer_alone(target: str, words: tuple[str, ...], out: str) -> None:
    name, *rest = words
    done = await command("send", "-a", f"{target}:{name}", *rest, "--quiet")
    assert (done.code, done.out, done.err) == (0, out, "")


async def test_an_error_is_shown_by_a_quiet_command_too(target: str) -> None:
    done = await command("send", "-a", f"{target}:nobody", "hi", "-q")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
