"""`chat` in a terminal: a pseudo-terminal, as a user has one."""

import os
import re
import select
import subprocess
import sys
import time

import pytest

from tests.patience import PATIENCE
from tests.tools.client.live import Live

pty = pytest.importorskip("pty")


class Terminal:
    """A command in a terminal."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "a2a_bridge", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.STDOUT,
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, f"{text}\n".encode())

    def until(self, pattern: str) -> re.Match[str]:
        """Reads until the output since the last call has the pattern."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := re.search(pattern, self.shown, re.DOTALL):
                self.shown = self.shown[found.end() :]
                return found
            if select.select([self._ours], [], [], 1.0)[0]:
                self.shown += os.read(self._ours, 4096).decode(errors="replace").replace("\r\n", "\n")
        raise AssertionError(f"{pattern} is not in {self.shown!r}")


@pytest.mark.requirement("CHAT_001", "AUTH_011")
def test_context_and_task_go_along(one: Live) -> None:
    terminal = Terminal("chat", "-a", one.reference)
    terminal.until("to Demo")
    terminal.type("tck-input-required")
    asked = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: input-required")
    terminal.until(r"to Demo \(it asks\)")
    terminal.type("the answer")
    answered = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: completed")
    assert answered.groups() == asked.groups()
    terminal.until("to Demo")
    terminal.type("")
    terminal.type("hello again")
    following = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: completed")
    assert following[2] == asked[2]
    assert following[1] != asked[1]
    terminal.until("to Demo")
    terminal.type("/quit")
    assert terminal.process.wait(PATIENCE) == 0
