"""The line of progress: on stderr, in a terminal, and nowhere else."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.tools.client.live import Live

pty = pytest.importorskip("pty")


def in_terminal(*words: str, code: int = 0) -> tuple[str, str]:
    """Standard output, and what a terminal got on standard error."""
    ours, theirs = pty.openpty()
    words = (sys.executable, "-m", "a2a_bridge", *words)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        assert process.stdout is not None
        shown, end = b"", time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # the other side is closed
                    break
        else:
            process.kill()
            raise AssertionError(f"the command has not ended: {shown!r}")
        out = process.stdout.read().decode()
        assert process.wait(PATIENCE) == code, shown
    os.close(ours)
    return out, shown.decode().replace("\r\n", "\n")


def screen(shown: str) -> list[str]:
    """The lines that a terminal has at the end."""
    lines = []
    for line in shown.split("\n"):
        cells: list[str] = []
        for piece in line.split("\r"):
            cells[: len(piece)] = piece
        lines.append("".join(cells).rstrip())
    return lines


def test_a_long_task_is_shown_while_it_is_waited_for(one: Live) -> None:
    out, shown = in_terminal("send", "tck-long-running", "-a", one.reference)
    identifier = next(line.removeprefix("Task: ") for line in out.splitlines() if line.startswith("Task: "))
    assert re.search(rf"\rtask {identifier}: working, \d s", shown)
    assert not [line for line in screen(shown) if "working, " in line]
    assert "\r" not in out
    assert "\x1b" not in out


def test_a_task_that_is_looked_at_again(one: Live) -> None:
    started, _ = in_terminal("send", "tck-cancel", "--async", "-a", one.reference)
    identifier = next(
        line.removeprefix("Task: ") for line in started.splitlines() if line.startswith("Task: ")
    )
    waiting = ("task", "get", identifier, "--wait", "--timeout", "5s")
    out, shown = in_terminal(*waiting, "-a", one.reference, "-o", "json", code=5)
    assert re.search(rf"\rtask {identifier}: working, \d s; Ctrl-C leaves it", shown)
    assert out.count("\n") == 1
    assert "TIMEOUT" in out
    in_terminal("task", "cancel", identifier, "-a", one.reference)


def test_files_are_counted(one: Live, tmp_path: Path) -> None:
    sent, shown = in_terminal(
        "send", "tck-artifact-file", "-a", one.reference, "--save-fileparts", str(tmp_path / "a")
    )
    assert "\rsaving 1 of 1: " in shown
    identifier = next(line.removeprefix("Task: ") for line in sent.splitlines() if line.startswith("Task: "))
    out, shown = in_terminal(
        "task", "download", identifier, "-a", one.reference, "--output-dir", str(tmp_path / "b")
    )
    assert "\rsaving 1 of 1: output.txt" in shown
    assert not [line for line in screen(shown) if line.startswith("saving")]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["output.txt"]
    assert "\r" not in out


def test_the_size_of_files_is_shown_until_there_is_a_task(one: Live, tmp_path: Path) -> None:
    # An agent that takes its time before it says anything: it gives its response when all is done.
    file = tmp_path / "sent.bin"
    file.write_bytes(b"x" * 5000)
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import asyncio\n"
        "from a2a_bridge import agent\n"
        "@agent\n"
        "async def slow(text: str) -> str:\n"
        "    await asyncio.sleep(2.5)\n"
        "    return text\n"
    )
    out, shown = in_terminal("send", "hello", "--file-part", str(file), "-a", str(slow))
    assert "\rwaiting for the agent (1 file, 5000 bytes), 1 s" in shown
    assert "hello" in out


async def test_without_a_terminal_there_is_no_line(one: Live) -> None:
    done = await one.run("send", "tck-long-running")
    assert done.code == 0
    assert "\r" not in done.err
    assert "working, " not in done.err
    assert done.fields["State"] == "completed"
