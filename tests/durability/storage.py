"""Reads a database of the bridge without the bridge: the log of a task, and the list of tasks."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from a2a_bridge.pb import lf_a2a_v1 as hub


@contextmanager
def _connected(store: str) -> Iterator[tuple[Any, str]]:
    """A connection, and the form of a parameter in its SQL."""
    if store.startswith("sqlite:///"):
        with closing(
            sqlite3.connect(f"file:{store.removeprefix('sqlite:///')}?mode=ro", uri=True)
        ) as connection:
            yield connection, "?"
    else:
        with psycopg.connect(store, autocommit=True) as connection:
            yield connection, "%s"


def log_of(store: str, task_id: str) -> list[hub.StreamResponse]:
    """The events of a task. Raises ValueError when their numbers are not 1, 2, 3 and so on."""
    with _connected(store) as (connection, mark):
        rows = connection.execute(
            f"SELECT first, last, data FROM segments WHERE task = {mark} ORDER BY first",  # noqa: S608
            (task_id,),
        ).fetchall()
    log: list[hub.StreamResponse] = []
    for first, last, data in rows:
        if first != len(log) + 1:
            raise ValueError(f"{task_id}: event {first} follows {len(log)}")
        log.extend(hub.StreamResponse.FromString(piece) for piece in _pieces(bytes(data)))
        if last != len(log):
            raise ValueError(f"{task_id}: a segment up to {last} ends at {len(log)}")
    return log


def tasks(store: str) -> dict[str, int]:
    """The number of the last event by task."""
    with _connected(store) as (connection, _):
        return dict(connection.execute("SELECT id, last FROM tasks").fetchall())


def held(store: str) -> list[str]:
    """Tasks that a process works on, or worked on when it died."""
    with _connected(store) as (connection, _):
        return [row[0] for row in connection.execute("SELECT id FROM tasks WHERE holder <> ''").fetchall()]


def sound(store: str) -> str:
    """The result of SQLite's check of its file; `ok` without a fault."""
    with _connected(store) as (connection, _):
        return "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check").fetchall())


def _pieces(data: bytes) -> Iterator[bytes]:
    """The values of member 1, which is repeated and the only one."""
    at = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise ValueError(f"a segment has {data[at]:#x} at {at}")
        at += 1
        length = shift = 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[at : at + length]
        at += length
