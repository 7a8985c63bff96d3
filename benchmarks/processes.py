"""Processes of a run: servers under test and load generators, each on its core, all ended with the run.

It does not depend on their work.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]

#: The fair setting for the official SDK; it has no effect on the others.
ENVIRONMENT = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false", "PYTHONHASHSEED": "0"}

#: seconds in which a server opens its port
PATIENCE = 30.0


class BenchmarkError(Exception):
    """A measurement is not valid. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the server under test, of the load generator, and of the other processes. None: any
    core.
    """

    server: int | None
    load: int | None
    other: int | None


def cores() -> Cores:
    """Different cores where there are at least two and the system can pin."""
    if not hasattr(os, "sched_getaffinity"):
        return Cores(None, None, None)
    free = sorted(os.sched_getaffinity(0))
    if len(free) < 2:
        return Cores(None, None, None)
    return Cores(free[0], free[1], free[2] if len(free) > 2 else free[1])


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Processes started inside run on `core`."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def tree(pid: int) -> list[Any]:
    """A process and its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU that a process and its descendants have taken, in user and system mode."""
    times = [one.cpu_times() for one in tree(pid)]
    return float(sum(one.user + one.system for one in times))


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Child:
    """A module of ours, or a program, as a process that talks in lines and ends when its standard input
    closes.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        core: int | None,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """command: a program that is run instead; `module` is its name then, and it ends on SIGTERM."""
        self._is_program = bool(command)
        self.name = module.rpartition(".")[2]
        # A file and not a pipe: it is not read while the process runs, and a full pipe would stop the
        # process.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        with on_core(core):
            self._process = subprocess.Popen(
                [*(command or (sys.executable, "-m", module)), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT, **(environment or {})},
                text=True,
                bufsize=1,
                # Ctrl-C is for the harness alone; it ends its children itself.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def write_line(self, line: str) -> None:
        """Writes one line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read_until(self, word: str, seconds: float = 60.0) -> list[str]:
        """Waits for a line that starts with `word`; its other words. Raises BenchmarkError at end or
        timeout.
        """
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._process.stdout], [], [], left)[0]:
                break
            line = self._process.stdout.readline()
            if not line:
                raise BenchmarkError(f"{self.name} ended before it said {word!r}\n{self.errors()}")
            first, *rest = line.split()
            if first == word:
                return rest
        raise BenchmarkError(f"{self.name} did not say {word!r} within {seconds:g} s\n{self.errors()}")

    def errors(self) -> str:
        """The end of the standard error of the process."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]

    def close(self) -> None:
        """Stops the process; kills it if it does not end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        if self._is_program:
            self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            for process in tree(self.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server(Child):
    """A server under test. It starts on any core, because imports take seconds, and then stays on its own.

    command: a program that is no module of ours. words: its addresses, if it does not print them itself.
    patience: seconds in which it starts.
    """

    def __init__(
        self,
        side: str,
        core: int | None,
        upstream: str = "",
        *,
        legacy: bool = False,
        store: str = "",
        command: Sequence[str] = (),
        words: dict[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        patience: float = 60.0,
    ) -> None:
        arguments = ["--upstream", upstream] if upstream and not command else []
        if store:
            arguments += ["--store", store]
        if legacy and side != "bare":
            arguments.append("--legacy")
        super().__init__(f"benchmarks.servers.{side}", arguments, None, command, environment)
        self._core = core
        self._patience = patience
        self._addresses = words
        self._words: dict[str, str] | None = None

    def address(self, family: str) -> str:
        """`host:port` of the listener for "http" or "grpc". Waits until the server is up, and pins it."""
        if self._words is None:
            if self._addresses is not None:
                self._wait_for(self._addresses["http"])
            self._words = self._addresses or dict(
                word.split("=", 1) for word in self.read_until("ready", self._patience)
            )
            if self._core is not None:
                for process in tree(self.pid):
                    for thread in process.threads():
                        os.sched_setaffinity(thread.id, {self._core})
        return self._words[family].removeprefix("http://")

    def _wait_for(self, address: str) -> None:
        """Waits until an address accepts connections. Raises BenchmarkError."""
        host, _, port = address.rpartition(":")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1.0):
                return
            time.sleep(0.05)
        raise BenchmarkError(f"{self.name} did not open its port\n{self.errors()}")
