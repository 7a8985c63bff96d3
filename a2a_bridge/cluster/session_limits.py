"""What each session asks of PostgreSQL, so that a process that is suspended or cut off holds nothing up.

Rules:
1. A transaction whose client says nothing is rolled back, and its session ends: the locks of a suspended
   process are free before other replicas declare it dead. The process writes its group again when it goes on.
2. A statement waits for a lock for a limited time. The limit is longer than PostgreSQL takes to find a
   deadlock, and shorter than a store takes to reject new work.
3. The server detects a client that vanished without closing its connection.
4. Statements that write have no limit: PostgreSQL would apply one to a commit that waits for its standby, and
   report the commit as done.
5. After a pipeline the client has sent a Flush, with which PostgreSQL stops to measure how long it is idle.
   So a transaction that writes has a limit of its own, which ends before its commit begins (PostgreSQL 17).
6. Settings that a server does not know are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

#: of sessions that wait for a vanished client, as PostgreSQL names them
_KEEPALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
#: of a replica
REPLICA: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "1500ms",
    "statement_timeout": "30s",
    **_KEEPALIVE,
}
#: of the writing connection of a replica, in addition
WRITER: Mapping[str, str] = {"statement_timeout": "0", "transaction_timeout": "10s"}
#: of commands such as `db check`, which work on rows between their statements
COMMAND: Mapping[str, str] = {"idle_in_transaction_session_timeout": "60s", **_KEEPALIVE}

#: sets what the server knows. %s: names, and values in the same order
SET: LiteralString = """
    SELECT set_config(name, wanted.value, false)
    FROM unnest(CAST(%s AS text[]), CAST(%s AS text[])) AS wanted (name, value)
    JOIN pg_settings AS known USING (name)
"""


def arguments(limits: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The arguments of SET."""
    return list(limits), list(limits.values())


def session_name(replica: str) -> str:
    """The `application_name` of the session with which a replica writes: others end it with the replica."""
    return f"a2a-bridge {replica}"
