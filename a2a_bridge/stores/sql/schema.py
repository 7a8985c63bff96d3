"""The tables, for SQLite and PostgreSQL alike. `migrations/` builds them step by step; a test compares the
two.

Rules:
1. `tasks` holds columns that are searched and change often; large content is in `bodies` and written rarely.
2. A task is its body plus the events after `applied`, in order. Events are in segments: those of one commit
   in one row; see `segments.py`.
3. Times are nanoseconds since the epoch for values of the protocol, seconds for others.
4. `checksum` is the CRC-32 of key and content of the same row; in rows that an older version wrote, that of
   the content alone, or NULL. See `checksums.py`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    desc,
    false,
    text,
)

metadata = MetaData()

#: SQLite generates row numbers only for INTEGER columns
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

#: holder: the replica that works on the task, empty for none. version: counts writes of this row; a write
#: names the version before it. last: number of the last event. applied: of the last event in the body.
#: written: time of the last write of this row.
tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("state", Integer, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("applied", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("written", Float, nullable=False),
)
Index("tasks_listed", tasks.c.tenant, tasks.c.owner, desc(tasks.c.time), desc(tasks.c.id))
Index(
    "tasks_of_context", tasks.c.tenant, tasks.c.owner, tasks.c.context, desc(tasks.c.time), desc(tasks.c.id)
)
Index("tasks_in_state", tasks.c.tenant, tasks.c.owner, tasks.c.state, desc(tasks.c.time), desc(tasks.c.id))
Index(
    "tasks_held",
    tasks.c.holder,
    sqlite_where=text("holder <> ''"),
    postgresql_where=text("holder <> ''"),
)

bodies = Table(
    "bodies",
    metadata,
    Column("task", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
)

segments = Table(
    "segments",
    metadata,
    Column("task", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    sqlite_with_rowid=False,
)

#: the numbers of tasks, so that queries need not count; see `counts.py`. bucket: the time bucket, or ALL.
#: stripe: replicas write separate rows, so that none waits for another; the count is their sum
task_counts = Table(
    "task_counts",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("bucket", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Integer, primary_key=True, autoincrement=False),
    Column("stripe", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
Index(
    "task_counts_empty",
    task_counts.c.number,
    sqlite_where=text("number = 0"),
    postgresql_where=text("number = 0"),
)

#: values that all replicas share, such as the key of page tokens
settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

#: ids of sent messages, for idempotent sends. checksum: of the response
sends = Table(
    "sends",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("message", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("task", Text, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Column("holder", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("checksum", BigInteger),
)
Index("sends_by_age", sends.c.created)

#: data: the serialized config; encrypted if a key is configured. holder: the replica that delivers its
#: notifications; empty if none wait, * if any replica may deliver them. checksum: of data followed by aside
push_configs = Table(
    "push_configs",
    metadata,
    Column("task", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("aside", LargeBinary, nullable=False),
    Column("holder", Text, nullable=False, server_default=""),
    Column("checksum", BigInteger),
)
Index(
    "push_configs_with_mail",
    push_configs.c.holder,
    sqlite_where=text("holder <> ''"),
    postgresql_where=text("holder <> ''"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("task", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("event", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("due", Float, nullable=False),
    Column("dead", Boolean, nullable=False, server_default=false()),
    Column("error", Text, nullable=False, server_default=""),
    Column("created", Float, nullable=False),
    Column("webhook", Text, nullable=False),
    Column("checksum", BigInteger),
    sqlite_autoincrement=True,
)
Index("outbox_lines", outbox.c.task, outbox.c.config, outbox.c.number)
Index("outbox_dead", outbox.c.number, sqlite_where=text("dead = 1"), postgresql_where=text("dead"))

#: live replicas: `beat` is a counter; a replica without a heartbeat for one lease is dead,
#: independent of clocks
replicas = Table(
    "replicas",
    metadata,
    Column("id", Text, primary_key=True),
    Column("beat", BigInteger, nullable=False),
)

#: messages between replicas that have no other bus; `cluster/polling.py` uses them
messages = Table(
    "messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("recipient", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
Index("messages_of_recipient", messages.c.recipient)
