"""One connection to PostgreSQL for statements about replicas, which never hangs. It knows no statement.

Rules:
1. Every statement has a timeout. One that exceeds it loses its connection; the next one makes a new one.
2. Each statement is a transaction of its own, so a pooler may pool by transaction.
3. A statement that the server could not serialize is repeated.
4. Statements run one at a time in a thread, so the session can be used from several event loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

from psycopg import Connection, Error, connect
from psycopg.errors import DeadlockDetected, SerializationFailure

from a2a_bridge.cluster import session_limits

#: seconds for a statement, and for connecting
SECONDS = 5.0
#: attempts for a statement that cannot be serialized
_TRIES = 5
#: TCP keep-alive of idle connections: seconds after which a lost server is detected
_KEEPALIVE: Any = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3}


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
        """Executes and commits a statement, and returns its rows.

        Raises SessionError; then the outcome is in doubt. Cancelling the caller does not stop the statement.
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
                        **_KEEPALIVE,
                    )
                    limits = session_limits.arguments(session_limits.REPLICA)
                    self._connection.execute(session_limits.SET, limits)
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
        with (
            contextlib.suppress(OSError, Error),
            socket.socket(fileno=os.dup(connection.pgconn.socket)) as handle,
        ):
            handle.shutdown(socket.SHUT_RDWR)
