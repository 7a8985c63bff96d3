"""Faults of the database of a running server, as context managers, from outside if possible. No tests."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.durability.serving import Served

#: size of a file system for a test, in bytes
SMALL = 4 << 20


@dataclass(frozen=True)
class Scene:
    """A server, its database file, and the file with the present faults (see sabotage.py)."""

    served: Served
    database: Path
    sabotage: Path


Trouble = Callable[[Scene], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def no_writing(scene: Scene) -> AsyncIterator[None]:
    """Every write to a file fails (EFBIG), as for a process at the end of its quota."""
    soft, hard = resource.prlimit(scene.served.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.served.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(scene.served.pid, resource.RLIMIT_FSIZE, (soft, hard))


@asynccontextmanager
async def database_full(scene: Scene) -> AsyncIterator[None]:
    """SQLite reports a full disk (SQLITE_FULL)."""
    with _sabotage(scene, "full"):
        yield


@asynccontextmanager
async def read_only(scene: Scene) -> AsyncIterator[None]:
    """SQLite reports a read-only database (SQLITE_READONLY)."""
    with _sabotage(scene, "readonly"):
        yield


@contextmanager
def _sabotage(scene: Scene, what: str) -> Iterator[None]:
    scene.sabotage.write_text(what, "ascii")
    try:
        yield
    finally:
        scene.sabotage.unlink()


@asynccontextmanager
async def locked(scene: Scene) -> AsyncIterator[None]:
    """Another process holds the lock for writing, like a backup that hangs (SQLITE_BUSY)."""
    with closing(sqlite3.connect(scene.database, isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout=10000")
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@asynccontextmanager
async def disk_full(scene: Scene) -> AsyncIterator[None]:
    """The file system of the database is full (ENOSPC). It must be one of `small_disk`."""
    filler = scene.database.with_name("filler")
    await asyncio.to_thread(_fill, filler)
    try:
        yield
    finally:
        filler.unlink()


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


@asynccontextmanager
async def corrupted(scene: Scene) -> AsyncIterator[None]:
    """All pages but the first are overwritten, and restored at the end."""
    with closing(sqlite3.connect(scene.database, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with scene.database.open("r+b") as file:
        content = file.read()
        file.seek(4096)
        file.write(os.urandom(len(content) - 4096))
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.write(content)


class CannotMount(Exception):  # noqa: N818  a plain word for it
    """No file system can be made here. The text is the reason."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own. Raises CannotMount where that is not allowed."""
    place = folder / "disk"
    place.mkdir()
    mount = shutil.which("mount") or "mount"
    options = f"size={SMALL},mode=0777"
    try:
        done = subprocess.run(
            [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise CannotMount("there is no mount") from error
    if done.returncode:
        raise CannotMount(done.stderr.strip())
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
