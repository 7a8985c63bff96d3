"""Descriptors of programs: each is closed once, on every event loop, and none is left open."""

import asyncio
import io
import os
import subprocess
import tempfile
from collections import deque
from types import SimpleNamespace

import pytest

from a2a_bridge import Agent, Program
from tests.hosting.scene import COMPLETED, Talk
from tests.hosting.shell import shell, text_of

pytestmark = pytest.mark.process

PROGRAMS, AT_ONCE = 1000, 50


class Closes:
    """Counts closes of descriptors that are none: by the file of a pipe, and of a number that another owner has
    by then. Each close of a pipe gives the number to a copy of one file, which has to stay that file.
    """

    def __init__(self, copied: int) -> None:
        self.opened = self.wrong = 0
        self._copied, self._inode = copied, os.fstat(copied).st_ino
        self._copies: deque[int] = deque()

    def open(self, file: int, _mode: str, _buffering: int) -> io.FileIO:
        closes = self
        closes.opened += 1

        class Pipe(io.FileIO):
            def close(self) -> None:
                was_open = not self.closed
                closes.wrong += was_open and not is_open(self.fileno())
                super().close()
                if was_open:
                    closes.copy()

        return Pipe(file)

    def copy(self) -> None:
        self._copies.append(os.dup(self._copied))
        if len(self._copies) > 4 * AT_ONCE:
            self.check(self._copies.popleft())

    def check(self, number: int) -> None:
        if is_open(number) and os.fstat(number).st_ino == self._inode:
            os.close(number)
        else:
            self.wrong += 1

    def end(self) -> None:
        while self._copies:
            self.check(self._copies.popleft())


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_each_pipe_is_closed_once(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop

    async def work() -> None:
        talk = Talk(Agent(Program("cat", concurrency=AT_ONCE), name="test"))

        async def talks(number: int) -> None:
            for one in range(number, PROGRAMS, AT_ONCE):
                task = await talk.send(f"message {one}")
                assert (task.status.state, text_of(task)) == (COMPLETED, f"message {one}")

        await asyncio.gather(*map(talks, range(AT_ONCE)))
        await talk.close()

    with tempfile.TemporaryFile() as copied, asyncio.Runner(loop_factory=factory) as runner:
        closes = Closes(copied.fileno())
        monkeypatch.setattr(subprocess, "io", SimpleNamespace(open=closes.open))
        runner.run(work())
        closes.end()
    assert (closes.opened, closes.wrong) == (2 * PROGRAMS, 0)


@pytest.mark.usefixtures("files")
async def test_folders_in_the_output_leave_no_descriptor() -> None:
    talk = shell('mkdir "$A2A_OUT/1" "$A2A_OUT/2" "$A2A_QUESTION"; exit "$(cat)"')
    await talk.send("0")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    for code in ("0", "75"):
        await talk.send(code)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
    await talk.close()
