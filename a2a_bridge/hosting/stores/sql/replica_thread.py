"""A thread for the communication between replicas, with connections that never hang. The store does not use
it.

Rules:
1. Nothing here waits for the event loop of the store, so a busy loop does not make this replica look dead.
2. Every statement has a timeout. One that exceeds it loses its connection, and the next one makes a new
   connection.
3. Methods that are called in the thread of the store's loop say so; all others run in this thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString

from psycopg import AsyncConnection, Error

log = logging.getLogger("a2a_bridge.hosting.stores")

#: maximum seconds of a statement, and of connecting
SECONDS = 5.0
#: TCP keep-alive of idle connections: seconds after which a lost server is detected
_KEEPALIVE: Any = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3}

Connection = AsyncConnection[tuple[Any, ...]]


class ReplicaThread:
    """The thread. Start it in the loop of the store: `call_in_store_loop` runs its calls there."""

    def __init__(self) -> None:
        self._home = asyncio.get_running_loop()
        # Not `asyncio.new_event_loop`: psycopg needs a selector loop, whatever policy is installed.
        self._loop = asyncio.SelectorEventLoop()
        self._duties: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="a2a replica", daemon=True)
        self._thread.start()

    @property
    def home(self) -> asyncio.AbstractEventLoop:
        """The loop of the store."""
        return self._home

    @property
    def open(self) -> bool:
        """True until it is closed."""
        return self._thread.is_alive()

    async def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the thread; called in the store's loop, and cancelled with its caller."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def call_in_store_loop(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Schedules a function call in the store's loop."""
        # The loop may have been closed without closing the store.
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(callback, *arguments)

    def on_duty(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Starts a background task that runs until the thread is closed. Called in the thread."""
        task = self._loop.create_task(work, name=f"a2a replica: {name}")
        self._duties.add(task)
        task.add_done_callback(self._off_duty)
        return task

    async def close(self) -> None:
        """Ends all background tasks and the thread. Called in the store's loop."""
        if self.open:
            await self.call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, SECONDS)

    async def _end(self) -> None:
        await ended(*self._duties)
        # Running statements are not among them, and are awaited.
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest, timeout=SECONDS)

    def _off_duty(self, done: asyncio.Task[None]) -> None:
        self._duties.discard(done)
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("the communication with other replicas has failed", exc_info=error)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


class StatementConnection:
    """One connection, made on first use, for one statement at a time."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def run(
        self, statement: LiteralString, values: Mapping[str, Any], seconds: float = SECONDS
    ) -> list[tuple[Any, ...]]:
        """Executes and commits a statement, and returns its rows.

        After a psycopg.Error the outcome is in doubt. Cancelling the caller does not stop the statement.
        """
        return await asyncio.shield(asyncio.ensure_future(self._run(statement, values, seconds)))

    async def _run(
        self, statement: LiteralString, values: Mapping[str, Any], seconds: float
    ) -> list[tuple[Any, ...]]:
        async with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await connect(self._url, self._name)
                with deadline(self._connection, seconds):
                    cursor = await self._connection.execute(statement, values)
                    return await cursor.fetchall()
            except Error:
                await self._drop()
                raise

    async def close(self) -> None:
        """Closes the connection. It may be used again."""
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


async def ended(*tasks: asyncio.Task[None] | None) -> None:
    """Cancels asyncio tasks, and waits until they have ended."""
    running = [one for one in tasks if one is not None and not one.done()]
    for one in running:
        one.cancel()
    if running:
        await asyncio.wait(running, timeout=SECONDS)


@asynccontextmanager
async def connected(url: str, name: str) -> AsyncIterator[Connection]:
    """A connection with autocommit. Raises psycopg.Error."""
    connection = await connect(url, name)
    try:
        yield connection
    finally:
        await connection.close()


async def connect(url: str, name: str) -> Connection:
    """The same, to be closed by the caller."""
    return await AsyncConnection.connect(
        url,
        autocommit=True,
        connect_timeout=int(SECONDS),
        application_name=f"a2a-bridge {name}",
        **_KEEPALIVE,
    )


@contextmanager
def deadline(connection: Connection, seconds: float) -> Iterator[None]:
    """Shuts the connection's socket down after the timeout: the statement then fails like after a network
    failure.
    """
    timer = asyncio.get_running_loop().call_later(seconds, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    # A cancellation would ask the server first, which does not answer.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as handle:
        handle.shutdown(socket.SHUT_RDWR)
