"""A SQLite file that is deleted, replaced, overwritten or cut while it is open: nothing more is acknowledged."""

import asyncio
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import TaskQuery
from a2a_bridge.stores.sql import file_watch
from a2a_bridge.stores.sql.store import SqlStore
from a2a_bridge.testing.store_scene import HERE, Author
from tests.patience import PATIENCE
from tests.stores.impatience import PATIENT, impatient


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, f"{path}.copy")
    Path(f"{path}.copy").replace(path)


def restore(path: Path) -> None:
    shutil.copyfile(path.with_name("backup"), path)


def size(path: Path) -> int:
    """Bytes; -1 if there is no file."""
    return path.stat().st_size if path.exists() else -1


def log_size(path: Path) -> int:
    return size(Path(f"{path}-wal"))


def begin_another(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.write_bytes(b"")


def move(path: Path, there: Path) -> None:
    path.rename(there)


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def cut_log(path: Path) -> None:
    os.truncate(f"{path}-wal", 0)


def shorten_log(path: Path) -> None:
    os.truncate(f"{path}-wal", log_size(path) - 1)


def overwrite_log(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(bytes(log_size(path)))


def shorten(path: Path) -> None:
    """The last page, which is in the file only."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(path, size(path) - 1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (delete, "store.db was deleted or replaced"),
        (replace, "store.db was deleted or replaced"),
        (restore, "store.db was written over"),
        (delete_log, "store.db-wal was deleted or replaced"),
        (cut_log, "store.db-wal was cut or written over"),
        (shorten_log, "store.db-wal was cut or written over"),
        (overwrite_log, "store.db-wal was cut or written over"),
        (shorten, "store.db was cut or written over"),
    ],
)
@pytest.mark.parametrize("noticed", ["at a commit", "when asked"])
async def test_nothing_is_acknowledged_after_the_file_is_gone(
    sqlite_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], None],
    text: str,
    noticed: str,
) -> None:
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    shutil.copyfile(path, path.with_name("backup"))
    async with open_store(sqlite_url, PATIENT) as store:
        await Author(store).begin("before").writer.sync()
        assert store.rejection() is None
        change(path)
        if noticed == "when asked":
            rejection = store.rejection()
            assert rejection is not None
            assert rejection.reason is Reason.UNAVAILABLE
        with pytest.raises(A2AError) as rejected, impatient(store):
            await Author(store).begin("after").writer.sync()
        assert rejected.value.reason is Reason.UNAVAILABLE
        assert store.rejection() is not None
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len([one for one in said if text in one]) == 1


async def test_a_file_that_is_put_back_is_written_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    async with open_store(sqlite_url) as store:
        move(path, path.with_name("away"))
        author = Author(store).begin("task")
        waiting = asyncio.ensure_future(author.writer.sync())
        assert isinstance(store, SqlStore)
        async with asyncio.timeout(PATIENCE):
            while store.writer.rejection() is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0.01)
        move(path.with_name("away"), path)
        await waiting
        assert store.rejection() is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (1,)


async def test_harmless_changes_of_a_file_are_ignored(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    async with open_store(sqlite_url, PATIENT) as store:
        with closing(sqlite3.connect(path)) as other:
            checkpoints = [f"PRAGMA wal_checkpoint({kind})" for kind in ("PASSIVE", "RESTART", "TRUNCATE")]
            for number, command in enumerate(("VACUUM", *checkpoints, "VACUUM")):
                await Author(store).begin(f"task {number}").writer.sync()
                other.execute(command)
                assert store.rejection() is None
        await Author(store).begin("task").writer.sync()


async def test_checkpoints_are_no_alarm(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process restarts and truncates the log, again and again, while this one writes and looks."""
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    done = threading.Event()

    def checkpoint() -> int:
        count = 0
        with closing(sqlite3.connect(path, timeout=0.01, check_same_thread=False)) as other:
            while not done.is_set():
                with suppress(sqlite3.OperationalError):  # busy
                    other.execute(f"PRAGMA wal_checkpoint({('RESTART', 'TRUNCATE')[count % 2]})")
                    count += 1
        return count

    async with open_store(sqlite_url) as store:
        assert isinstance(store, SqlStore)
        running = asyncio.create_task(asyncio.to_thread(checkpoint))
        try:
            for number in range(100):
                await Author(store).begin(f"task {number}").writer.sync()
                assert not store._database.misplaced
        finally:
            done.set()
        assert await running > 10
    assert not [
        one for one in caplog.records if one.name == "a2a_bridge.store" and one.levelno >= logging.ERROR
    ]


async def test_reads_while_the_file_is_away_leave_its_log_alone(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that made an empty file at the path would destroy the log, and with it acknowledged tasks."""
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    away = path.with_name("away")
    async with open_store(sqlite_url, PATIENT) as store:
        for number in range(20):
            await Author(store).begin(f"before {number}").writer.sync()
        before = log_size(path)
        assert before > 0
        move(path, away)
        # More than the pool keeps, so that new connections are made.
        reads = [store.list(HERE, TaskQuery()) for _ in range(40)]
        answers = await asyncio.gather(*reads, return_exceptions=True)
        assert (size(path), log_size(path)) == (-1, before)
        for answer in answers:
            if isinstance(answer, BaseException):
                assert isinstance(answer, A2AError)
                assert answer.reason is Reason.UNAVAILABLE
        with pytest.raises(A2AError), impatient(store):
            await Author(store).begin("lost").writer.sync()
        move(away, path)
        async with asyncio.timeout(PATIENCE):
            while store.rejection() is not None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0.01)
        await Author(store).begin("after").writer.sync()
    with closing(sqlite3.connect(path)) as connection:
        found = {name for (name,) in connection.execute("SELECT id FROM tasks")}
    assert {f"before {number}" for number in range(20)} | {"after"} <= found


async def test_another_file_at_the_path_is_not_opened(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    async with open_store(sqlite_url, PATIENT) as store:
        await Author(store).begin("before").writer.sync()
        before = log_size(path)
        begin_another(path)
        await asyncio.gather(*(store.list(HERE, TaskQuery()) for _ in range(40)), return_exceptions=True)
        assert (size(path), log_size(path)) == (0, before)
        move(path.with_name("away"), path)
