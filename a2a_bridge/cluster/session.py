"""Sessions of PostgreSQL: one for statements about replicas, which never hangs; limits of all sessions.

With the limits, a process that is suspended or cut off holds nothing up.

Rules of PostgresSession, which knows no statement:
1. Every statement has a timeout. A statement that exceeds it loses its connection; the next statement makes a
   new connection.
2. Each statement is a transaction of its own, so a pooler may pool by transaction.
3. A statement that the server could not serialize is repeated.
4. Statements run one at a time in a thread, so the session can be used from several event loops.

Rules of the limits:
1. A transaction of a silent client is rolled back, and its session ends: the locks of a suspended process are
   free before other replicas declare it dead. The process writes its group again when it goes on.
2. A statement waits for a lock for a limited time. The limit is longer than PostgreSQL takes to find a
   deadlock, and shorter than a store takes to reject new work.
3. The server detects a client that vanished without closing its connection.
4. Statements that write have no limit: PostgreSQL would apply a limit to a commit that waits for its standby,
   too, and report that commit as done.
5. After a pipeline the client has sent a Flush, with which PostgreSQL stops to measure how long it is idle.
   So a transaction that writes has a limit of its own, which ends before its commit begins (PostgreSQL 17).
6. Settings that a server does not know are left out.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, LiteralString

if TYPE_CHECKING:
    from psycopg import Connection

#: seconds for a statement, and for connecting
SECONDS = 5.0
#: attempts for a statement that cannot be serialized
_TRIES = 5
#: TCP keep-alive of idle connections: seconds after which a lost server is detected
_CLIENT_KEEPALIVE: Any = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3}
#: of sessions that wait for a vanished client, as PostgreSQL names them
_SERVER_KEEPALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
#: of a replica
REPLICA_LIMITS: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "1500ms",
    "statement_timeout": "30s",
    **_SERVER_KEEPALIVE,
}
#: of the writing connection of a replica, in addition
WRITER_LIMITS: Mapping[str, str] = {"statement_timeout": "0", "transaction_timeout": "10s"}
#: of commands such as `db check`, which work on rows between their statements
COMMAND_LIMITS: Mapping[str, str] = {"idle_in_transaction_session_timeout": "60s", **_SERVER_KEEPALIVE}

#: sets the limits that the server knows. %s: names, and values in the same order
SET_LIMITS: LiteralString = """
    SELECT set_config(name, wanted.value, false)
    FROM unnest(CAST(%s AS text[]), CAST(%s AS text[])) AS wanted (name, value)
    JOIN pg_settings AS known USING (name)
"""


def limit_arguments(limits: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The arguments of SET_LIMITS."""
    return list(limits), list(limits.values())


def session_name(replica: str) -> str:
    """The `application_name` of the session with which a replica writes: others end it with the replica."""
    return f"a2a-bridge {replica}"


class SessionError(Exception):
    """The database cannot be used at present. The text has no secrets."""


class PostgresSession:
    """Executes statements. url: in the form of libpq."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._thread = ThreadPoolExecutor(1, "a2a cluster session")

    async def run(
        self, statement: LiteralString, values: Mapping[str, Any], seconds: float = SECONDS, /
    ) -> list[tuple[Any, ...]]:
        """Executes and commits a statement, and returns its rows. Raises SessionError; then the outcome is in
        doubt. The statement does not stop if the caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._run, statement, values)
        timer = loop.call_later(seconds, self._cut)

        def ended(done: asyncio.Future[Any]) -> None:
            timer.cancel()
            if not done.cancelled():
                done.exception()  # the caller may have left

        running.add_done_callback(ended)
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Closes the connection. May be called twice."""
        with contextlib.suppress(RuntimeError):  # closed before
            await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    # ------------------------------------------------------------------ in the thread

    def _run(self, statement: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        # Imported here, because a store on SQLite has no such package.
        from psycopg import Error, connect
        from psycopg.errors import DeadlockDetected, SerializationFailure

        for left in reversed(range(_TRIES)):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = connect(
                        self._url,
                        autocommit=True,
                        connect_timeout=int(SECONDS),
                        application_name="a2a-bridge cluster",
                        # A pooler may give the next statement to another server process.
                        prepare_threshold=None,
                        **_CLIENT_KEEPALIVE,
                    )
                    limits = limit_arguments(REPLICA_LIMITS)
                    self._connection.execute(SET_LIMITS, limits)
                return self._connection.execute(statement, values).fetchall()
            except (SerializationFailure, DeadlockDetected) as error:
                if not left:
                    raise SessionError(type(error).__name__) from None
            except Error as error:
                self._drop()
                raise SessionError(type(error).__name__) from None
        raise SessionError("no attempt was made")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # ------------------------------------------------------------------ in a loop

    def _cut(self) -> None:
        # A cancellation would ask the server first, which does not answer.
        connection = self._connection
        if connection is None:
            return
        from psycopg import Error

        with contextlib.suppress(OSError, Error):
            number = connection.pgconn.socket
            with socket.socket(fileno=os.dup(number)) as handle:
                # The thread may have closed it before: then the number can be that of another socket.
                if connection.pgconn.socket == number:
                    handle.shutdown(socket.SHUT_RDWR)
