"""The tables, for SQLite and PostgreSQL alike, and the statements with which a group of writes fills them.

`migrations/` builds the tables step by step; a test compares the two.

Rules of the tables:
1. `tasks` holds columns that are searched and change often; large content is in `bodies` and written rarely.
2. A task is its body plus the events after `applied`, in order. Events are in segments: the events of one
   commit in one row; see `row_format.py`. Messages that join the history are in `joined`.
3. Times are nanoseconds since the epoch for values of the protocol, seconds for others.
4. `checksum` is the CRC-32 of key and content of its row. In rows of an older version it covers the content
   alone, or is NULL.

The statements have many rows each, so that a group is few calls. Other queries use SQLAlchemy. They are text,
because compiling them anew for each group took as long as the database. The drivers run them directly, many
rows per call: one call per row from a thread beside a busy loop would wait for the loop each time.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

metadata = sa.MetaData()

#: SQLite generates row numbers only for INTEGER columns
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

#: holder: the replica that works on the task, empty for none. version: counts writes of this row; a write
#: names the version before it. last: number of the last event. applied: of the last event in the body.
#: written: time of the last write of this row. ended: of the write that ended the task; NULL before it. With
#: an index of `written` instead, PostgreSQL would write all indexes anew for each chunk of an artifact.
#: joined: number of the last row of `joined`. joined_applied: of the last one in the body.
tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("context", sa.Text, nullable=False),
    sa.Column("state", sa.Integer, nullable=False),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("applied", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("written", sa.Float, nullable=False),
    sa.Column("ended", sa.Float),
    sa.Column("joined", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("joined_applied", sa.BigInteger, nullable=False, server_default="0"),
)
_SCOPE, _NEWEST = (tasks.c.tenant, tasks.c.owner), (sa.desc(tasks.c.time), sa.desc(tasks.c.id))
sa.Index("tasks_listed", *_SCOPE, *_NEWEST)
# The state, so that the tasks of a context and state are counted without their rows.
sa.Index("tasks_of_context", *_SCOPE, tasks.c.context, *_NEWEST, tasks.c.state)
sa.Index("tasks_in_state", *_SCOPE, tasks.c.state, *_NEWEST)
_HELD = sa.text("holder <> ''")
sa.Index("tasks_held", tasks.c.holder, sqlite_where=_HELD, postgresql_where=_HELD)
_ENDED = sa.text("ended IS NOT NULL")
sa.Index("tasks_ended", tasks.c.ended, sqlite_where=_ENDED, postgresql_where=_ENDED)

bodies = sa.Table(
    "bodies",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("checksum", sa.BigInteger),
)

#: ended: as in `tasks`, in the last segment of an ended task; NULL in the others. A log leaves the index when
#: it is deleted.
segments = sa.Table(
    "segments",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("first", sa.BigInteger, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("checksum", sa.BigInteger),
    sa.Column("ended", sa.Float),
    sqlite_with_rowid=False,
)
sa.Index("segments_ended", segments.c.ended, sqlite_where=_ENDED, postgresql_where=_ENDED)

#: messages that joined the history of a task between its events, apart from those that are in the body only.
#: number: from 1 without gaps. after: the number of the event before the message
joined = sa.Table(
    "joined",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("after", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("checksum", sa.BigInteger),
    sqlite_with_rowid=False,
)

#: the numbers of tasks, so that queries need not count; see `counts.py`. bucket: the time bucket, or ALL.
#: stripe: replicas write separate rows, so that none waits for another; the count is their sum
task_counts = sa.Table(
    "task_counts",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("bucket", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("stripe", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
_EMPTY = sa.text("number = 0")
sa.Index("task_counts_empty", task_counts.c.number, sqlite_where=_EMPTY, postgresql_where=_EMPTY)

#: values that all replicas share, such as the key of page tokens
settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

#: ids of sent messages, for idempotent sends. checksum: of the response
sends = sa.Table(
    "sends",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("message", sa.Text, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("task", sa.Text, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("checksum", sa.BigInteger),
)
sa.Index("sends_by_age", sends.c.created)

#: data: the serialized config; encrypted if a key is configured. holder: the replica that delivers its
#: notifications; empty if none wait, * if any replica may deliver them. checksum: of data followed by aside
push_configs = sa.Table(
    "push_configs",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("ordinal", sa.BigInteger, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("aside", sa.LargeBinary, nullable=False),
    sa.Column("holder", sa.Text, nullable=False, server_default=""),
    sa.Column("checksum", sa.BigInteger),
)
sa.Index("push_configs_with_mail", push_configs.c.holder, sqlite_where=_HELD, postgresql_where=_HELD)

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("task", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("event", sa.LargeBinary, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("due", sa.Float, nullable=False),
    sa.Column("dead", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("error", sa.Text, nullable=False, server_default=""),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("webhook", sa.Text, nullable=False),
    sa.Column("checksum", sa.BigInteger),
    sqlite_autoincrement=True,
)
sa.Index("outbox_lines", outbox.c.task, outbox.c.config, outbox.c.number)
sa.Index("outbox_dead", outbox.c.number, sqlite_where=sa.text("dead = 1"), postgresql_where=sa.text("dead"))

#: live replicas: `beat` is a counter; a replica without a beat for one lease is dead, whatever clocks say
replicas = sa.Table(
    "replicas",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("beat", sa.BigInteger, nullable=False),
)

#: locks by name among the replicas; see `cluster/locks.py`. token: of the acquisition
locks = sa.Table(
    "locks",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("token", sa.LargeBinary, nullable=False),
)

#: messages between replicas that have no other bus; `cluster/bus.py` uses them
messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("recipient", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
sa.Index("messages_of_recipient", messages.c.recipient)


#: maximum rows of one statement. PostgreSQL accepts 65,535 values, SQLite 32,766
_MOST = 64
#: the column that may be large, per table, and the bytes from which a row counts as large
_CONTENT = {bodies.name: 1, segments.name: 3, joined.name: 3}
_LARGE = 4096
#: bytes of a value that both databases accept
_LARGEST = 1_000_000_000

#: columns with the time of a write: PostgreSQL gives its own, because the clocks of replicas differ. The
#: value for `ended` is there whether the task has ended
TIMES = {
    "written": "extract(epoch FROM now())",
    "ended": "CASE WHEN %s THEN extract(epoch FROM now()) END",
}
#: a write names the version before it, so a row that another process has written is not changed
_TAILS = {
    tasks.name: (
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, time = excluded.time,"
        " version = excluded.version,"
        " last = excluded.last, applied = excluded.applied, holder = excluded.holder,"
        " joined = excluded.joined, joined_applied = excluded.joined_applied,"
        " written = excluded.written, ended = excluded.ended"
        " WHERE tasks.version = excluded.version - 1"
        " AND tasks.tenant = excluded.tenant AND tasks.owner = excluded.owner"
    ),
    bodies.name: " ON CONFLICT (task) DO UPDATE SET data = excluded.data, checksum = excluded.checksum",
    segments.name: "",
    joined.name: "",
    task_counts.name: (
        " ON CONFLICT (tenant, owner, bucket, state, stripe)"
        " DO UPDATE SET number = task_counts.number + excluded.number"
    ),
}


class TooLargeError(SQLAlchemyError):
    """A value that no database accepts. Drivers report one as if the database were lost, or as a defect."""


def insert(
    driver: Any, mark: str, table: sa.Table, rows: Sequence[Sequence[Any]], *, returning: str = ""
) -> list[Any]:
    """Inserts or updates rows. Returns the cursors, whose `rowcount` is the number of rows changed.

    driver: the connection of the driver. mark: its placeholder for values. rows: values in the order of the
    columns. returning: an expression, of which the cursors return the value for each changed row.
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


def _insert_large(driver: Any, mark: str, table: sa.Table, rows: Sequence[Sequence[Any]]) -> None:
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
def _text_of_one(table: sa.Table) -> str:
    """An INSERT of one row, or of none if the extra last value is 0. For SQLite."""
    names = [column.name for column in table.columns]
    return (
        f"INSERT INTO {table.name} ({','.join(names)})"
        f" SELECT {','.join('?' * len(names))} WHERE ?{_TAILS[table.name]}"
    )


@lru_cache(maxsize=1024)
def _text(table: sa.Table, rows: int, mark: str, returning: str) -> str:
    names = [column.name for column in table.columns]
    times = {} if mark == "?" else TIMES
    row = f"({','.join(times.get(name, mark) for name in names)})"
    tail = _TAILS[table.name] + (returning and f" RETURNING {returning}")
    # Names and placeholders come from this module and the schema; values are never part of the text.
    return f"INSERT INTO {table.name} ({','.join(names)}) VALUES {','.join([row] * rows)}{tail}"  # noqa: S608
