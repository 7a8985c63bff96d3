"""A SQLite file that is deleted, replaced or overwritten while it is open: nothing more is acknowledged."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.stores import StoreOptions, open_store
from a2a_bridge.hosting.stores.sql import file_watch
from a2a_bridge.hosting.stores.sql.store import SqlStore
from a2a_bridge.testing.store_scene import Author
from tests.patience import PATIENCE

OPTIONS = StoreOptions(ack_timeout=0.1)


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, f"{path}.copy")
    Path(f"{path}.copy").replace(path)


def restore(path: Path) -> None:
    shutil.copyfile(path.with_name("backup"), path)


def move(path: Path, there: Path) -> None:
    path.rename(there)


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (delete, "store.db was deleted or replaced"),
        (replace, "store.db was deleted or replaced"),
        (restore, "store.db was written over"),
        (delete_log, "store.db-wal was deleted or replaced"),
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
    async with open_store(sqlite_url, OPTIONS) as store:
        await Author(store).begin("before").writer.synced()
        assert store.refusal() is None
        change(path)
        if noticed == "when asked":
            refusal = store.refusal()
            assert refusal is not None
            assert refusal.reason is Reason.UNAVAILABLE
        with pytest.raises(A2AError) as refused:
            await Author(store).begin("after").writer.synced()
        assert refused.value.reason is Reason.UNAVAILABLE
        assert store.refusal() is not None
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
        waiting = asyncio.ensure_future(author.writer.synced())
        assert isinstance(store, SqlStore)
        async with asyncio.timeout(PATIENCE):
            while store.writer.refusal() is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0.01)
        move(path.with_name("away"), path)
        await waiting
        assert store.refusal() is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (1,)


async def test_harmless_changes_of_a_file_are_ignored(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_PAUSE", 0.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    async with open_store(sqlite_url, OPTIONS) as store:
        with closing(sqlite3.connect(path)) as other:
            for number, command in enumerate(("VACUUM", "PRAGMA wal_checkpoint(PASSIVE)")):
                await Author(store).begin(f"task {number}").writer.synced()
                other.execute(command)
                assert store.refusal() is None
        await Author(store).begin("task").writer.synced()
