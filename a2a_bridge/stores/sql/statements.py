"""The statements of a group of writes: many rows in each, as few calls as possible. Other queries use
SQLAlchemy.

They are text, because compiling them anew for each group took as long as the database. The drivers run them
directly, many rows per call: one call per row from a thread beside a busy loop would wait for it each
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Table
from sqlalchemy.exc import SQLAlchemyError

from a2a_bridge.stores.sql.schema import bodies, segments, task_counts, tasks

#: maximum rows of one statement. PostgreSQL accepts 65,535 values, SQLite 32,766
_MOST = 64
#: the column that may be large, per table, and the bytes from which a row counts as large
_CONTENT = {bodies.name: 1, segments.name: 3}
_LARGE = 4096
#: bytes of a value that both databases accept
_LARGEST = 1_000_000_000

#: a write names the version before it, so a row that another process has written is not changed
#: columns with the time of a write: PostgreSQL gives its own, because the clocks of replicas differ
TIMES = {"written": "extract(epoch FROM now())"}
_TAILS = {
    tasks.name: (
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, time = excluded.time,"
        " version = excluded.version,"
        " last = excluded.last, applied = excluded.applied, holder = excluded.holder,"
        " written = excluded.written"
        " WHERE tasks.version = excluded.version - 1"
        " AND tasks.tenant = excluded.tenant AND tasks.owner = excluded.owner"
    ),
    bodies.name: " ON CONFLICT (task) DO UPDATE SET data = excluded.data, checksum = excluded.checksum",
    segments.name: "",
    task_counts.name: (
        " ON CONFLICT (tenant, owner, bucket, state, stripe)"
        " DO UPDATE SET number = task_counts.number + excluded.number"
    ),
}


class TooLargeError(SQLAlchemyError):
    """A value that no database accepts. Drivers report one as if the database were lost, or as a defect."""


def insert(
    driver: Any, mark: str, table: Table, rows: Sequence[Sequence[Any]], *, returning: str = ""
) -> list[Any]:
    """Inserts rows, or updates existing ones. Returns the cursors, whose `rowcount` is the number of rows
    changed.

    driver: the connection of the driver. mark: its placeholder for values. rows: values in the order of the
    columns. returning: an expression; the cursors return its value for each of those rows.
    """
    cursors = []
    column = _CONTENT.get(table.name)
    if column is not None and any(len(row[column]) > _LARGE for row in rows):
        large = [row for row in rows if len(row[column]) > _LARGE]
        if any(len(row[column]) > _LARGEST for row in large):
            raise TooLargeError(f"a row of {table.name} has more than {_LARGEST} bytes")
        _insert_large(driver, mark, table, large)
        rows = [row for row in rows if len(row[column]) <= _LARGE]
    for start in range(0, len(rows), _MOST):
        some = rows[start : start + _MOST]
        cursor = driver.cursor()
        cursor.execute(_text(table, len(some), mark, returning), tuple(chain.from_iterable(some)))
        cursors.append(cursor)
    return cursors


def _insert_large(driver: Any, mark: str, table: Table, rows: Sequence[Sequence[Any]]) -> None:
    """Inserts rows one by one, so that memory never holds a second copy of all of them."""
    cursor = driver.cursor()
    if mark != "?":
        for row in rows:
            cursor.execute(_text(table, 1, mark, ""), tuple(row))
        return
    # A statement in sqlite3's cache keeps its last values alive: this replaces them by empty ones.
    nothing = (*([None] * len(table.columns)), 0)
    cursor.executemany(_text_of_one(table), [*((*row, 1) for row in rows), nothing])


@lru_cache(maxsize=64)
def _text_of_one(table: Table) -> str:
    """An INSERT of one row, or of none if the extra last value is 0. For SQLite."""
    names = [column.name for column in table.columns]
    return (
        f"INSERT INTO {table.name} ({','.join(names)})"
        f" SELECT {','.join('?' * len(names))} WHERE ?{_TAILS[table.name]}"
    )


@lru_cache(maxsize=1024)
def _text(table: Table, rows: int, mark: str, returning: str) -> str:
    names = [column.name for column in table.columns]
    times = {} if mark == "?" else TIMES
    row = f"({','.join(times.get(name, mark) for name in names)})"
    tail = _TAILS[table.name] + (returning and f" RETURNING {returning}")
    # Names and placeholders come from this module and the schema; values are never part of the text.
    return f"INSERT INTO {table.name} ({','.join(names)}) VALUES {','.join([row] * rows)}{tail}"  # noqa: S608
