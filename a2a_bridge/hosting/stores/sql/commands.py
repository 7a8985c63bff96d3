"""Commands from one replica to another, over a table: the command is a row, and so is its answer. It does not
interpret them.

Rules:
1. A command is sent only to a live replica; if that dies, the command has failed.
2. A sender that no longer waits deletes its command; work on it that has begun continues.
3. An answer is read once. Live replicas delete the rows of dead ones. A command whose row is gone has failed,
   too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from time import monotonic

from psycopg import Error

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.hosting.ports import OwnerLostError
from a2a_bridge.hosting.stores.sql.notify import CHANNEL, POLL, Kind, Listener, payload
from a2a_bridge.hosting.stores.sql.replica_thread import ReplicaThread, StatementConnection, ended
from a2a_bridge.hosting.stores.sql.replicas import Replicas

log = logging.getLogger("a2a_bridge.hosting.stores")

#: commands that are executed concurrently; more wait in the table
MOST = 1000
#: seconds between two searches for rows of dead replicas
_SWEEP = 60.0

_ASK = """
    WITH inserted AS (
        INSERT INTO commands (holder, asker, request)
        SELECT id, %(me)s, %(request)s FROM replicas WHERE id = %(holder)s
        RETURNING number
    )
    SELECT number, pg_notify(%(channel)s, %(notification)s) FROM inserted
"""
_LOOK = """
    WITH answers AS (
        DELETE FROM commands WHERE asker = ANY(%(names)s) AND answer IS NOT NULL RETURNING number, answer
    ), questions AS (
        SELECT number, request FROM commands
        WHERE holder = %(me)s AND answer IS NULL AND number <> ALL(%(doing)s)
        ORDER BY number LIMIT %(free)s
    )
    SELECT number, answer, 'answer' FROM answers
    UNION ALL SELECT number, request, 'question' FROM questions
    UNION ALL SELECT mine, NULL, 'gone' FROM unnest(%(pending)s::bigint[]) AS mine
    WHERE NOT EXISTS (SELECT 1 FROM commands WHERE number = mine)
"""
_ANSWER = """
    WITH answered AS (UPDATE commands SET answer = %(answer)s WHERE number = %(number)s RETURNING asker)
    SELECT pg_notify(%(channel)s, %(head)s || chr(10) || asker) FROM answered
"""
_TAKE_BACK = "DELETE FROM commands WHERE number = %(number)s RETURNING answer"
_SWEEP_UP = """
    DELETE FROM commands WHERE number IN (
        SELECT number FROM commands WHERE asker NOT IN (SELECT id FROM replicas) AND asker <> %(me)s
        FOR UPDATE SKIP LOCKED
    ) RETURNING number
"""


class Commands:
    """Implements Remote.

    An empty answer means that the command could not be executed.
    """

    def __init__(
        self, url: str, thread: ReplicaThread, replicas: Replicas, listener: Listener, *, poll: float = POLL
    ) -> None:
        self._thread = thread
        self._replicas = replicas
        self._poll = poll
        self._link = StatementConnection(url, "commands")
        self._handler: Callable[[bytes], Awaitable[bytes]] | None = None
        # For the replica thread only:
        self._work_available = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        #: commands that wait for an answer: sent to which replica, when
        self._pending: dict[int, tuple[str, float, asyncio.Future[bytes]]] = {}
        #: commands of others that are being executed here
        self._doing: dict[int, asyncio.Task[None]] = {}
        #: the names under which this process has sent commands
        self._names: set[str] = set()
        listener.on(Kind.COMMAND, self._hint)
        listener.on(Kind.ANSWER, self._hint)
        replicas.on_look(self._seen)

    def serve(self, handler: Callable[[bytes], Awaitable[bytes]], /) -> None:
        """See Remote. The handler runs in the store's loop."""
        self._handler = handler

    async def ask(self, holder: str, command: bytes, seconds: float | None, /) -> bytes:
        """See Remote."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self._thread.call(self._ask(holder, command, self._replicas.me))
        except TimeoutError:
            raise _silent("the replica that works on the task did not answer in time") from None
        except Error:
            log.warning("a call to another replica failed: the database cannot be reached")
            raise _silent("the store is not available") from None
        if answer is None:
            raise OwnerLostError
        return bytes(answer)

    async def start(self) -> None:
        """Starts to look for commands and answers."""
        await self._thread.call(self._start())

    async def close(self) -> None:
        """Stops answering. Commands without an answer fail at their senders."""
        await self._thread.call(self._close())

    # ------------------------------------------------------------------ in the replica thread

    async def _start(self) -> None:
        self._serving = self._thread.on_duty(self._serve(), "commands")

    async def _close(self) -> None:
        await ended(self._serving, *self._doing.values())
        await self._link.close()

    def _hint(self, words: Collection[str]) -> None:
        if not words or self._replicas.me in words or not self._names.isdisjoint(words):
            self._work_available.set()

    async def _ask(self, holder: str, command: bytes, me: str) -> bytes | None:
        """The answer, None if the receiver is dead."""
        self._names.add(me)
        values = {"me": me, "holder": holder, "request": command, "channel": CHANNEL}
        rows = await self._link.run(_ASK, values | {"notification": payload(Kind.COMMAND, me, holder)})
        if not rows:
            return None
        number = int(rows[0][0])
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[number] = (holder, monotonic(), waiting)
        try:
            return await waiting
        except _HolderGoneError:
            rows = await self._link.run(_TAKE_BACK, {"number": number})
            return bytes(rows[0][0]) if rows and rows[0][0] is not None else None
        except asyncio.CancelledError:
            self._thread.on_duty(self._take_back(number), "take a question back")
            raise
        finally:
            del self._pending[number]

    async def _take_back(self, number: int) -> None:
        with suppress(Error):
            await self._link.run(_TAKE_BACK, {"number": number})

    def _seen(self, alive: frozenset[str], looked: float) -> None:
        for holder, since, waiting in self._pending.values():
            # It was alive when the command was sent; an older look may not include it yet.
            if holder not in alive and since < looked and not waiting.done():
                waiting.set_exception(_HolderGoneError())

    async def _serve(self) -> None:
        swept = monotonic()
        while True:
            self._work_available.clear()
            try:
                await self._look()
                if monotonic() - swept > _SWEEP:
                    swept = monotonic()
                    await self._link.run(_SWEEP_UP, {"me": self._replicas.me})
            except Error as error:
                log.debug("calls of other replicas cannot be read: %s", type(error).__name__)
                await asyncio.sleep(self._poll / 4)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._work_available.wait()

    async def _look(self) -> None:
        free = MOST - len(self._doing)
        values = {
            "names": [*self._names, self._replicas.me],
            "me": self._replicas.me,
            "doing": list(self._doing),
            "free": free,
            "pending": [number for number, (_, _, waiting) in self._pending.items() if not waiting.done()],
        }
        for number, content, what in await self._link.run(_LOOK, values):
            if what != "question":
                _, _, waiting = self._pending.get(number, ("", 0.0, None))
                if waiting is None or waiting.done():
                    continue
                if what == "answer":
                    waiting.set_result(content)
                else:
                    waiting.set_exception(_HolderGoneError())
            elif number not in self._doing:
                task = self._doing[number] = asyncio.create_task(self._do(number, content))
                task.add_done_callback(partial(self._done, number))

    async def _do(self, number: int, request: bytes) -> None:
        answer = b""
        if self._handler is not None:
            work = self._in_home_loop(self._handler, bytes(request))
            try:
                answer = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._thread.home))
            except Exception:
                log.exception("a call of another replica failed")
        head = payload(Kind.ANSWER, self._replicas.me)
        pause = 0.05
        while True:
            try:
                await self._link.run(
                    _ANSWER, {"answer": answer, "number": number, "channel": CHANNEL, "head": head}
                )
            except Error:
                # The command was executed, so its sender should learn that while it waits.
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._poll)
            else:
                return

    async def _in_home_loop(self, handler: Callable[[bytes], Awaitable[bytes]], request: bytes) -> bytes:
        return await handler(request)

    def _done(self, number: int, _: asyncio.Task[None]) -> None:
        del self._doing[number]
        if len(self._doing) == MOST - 1:
            self._work_available.set()  # further commands may have waited for a free slot


class _HolderGoneError(Exception):
    """The receiver is dead, or no longer has the command."""


def _silent(text: str) -> A2AError:
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
