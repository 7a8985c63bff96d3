"""Locks by name among the replicas on one database: one holder of a name at a time.

Rules:
1. A lock is a row with its holder. A replica holds it as long as it is alive (`cluster`): the lock of a dead
   replica can be acquired at once, and a replica that was declared dead has lost its locks with its tasks.
2. Each acquisition has a token. Therefore a statement whose result was lost can be repeated, a late release
   does not release the next acquisition, and several users in one process exclude each other, too.
3. Waiters ask again and again; the order among replicas is not that of their arrival.
4. An outage of the database ends no wait: it ends with the outage, or by cancellation.
5. The statements have a session of their own: they must not delay heartbeats.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.cluster.session import PostgresSession, SessionError

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: seconds between two attempts to acquire a lock: the first pause, doubled each time, and the longest
_SOON, _LATE = 0.05, 1.0
#: seconds that `close` waits for releases
_END = 2.0

# The dead holder is named, not only its death: the row may have a live holder when the update comes to it.
ACQUIRE = """
    WITH fresh AS (
        INSERT INTO locks (name, holder, token) VALUES (%(name)s, %(me)s, %(token)s)
        ON CONFLICT (name) DO NOTHING RETURNING name
    ), taken AS (
        UPDATE locks SET holder = %(me)s, token = %(token)s
        WHERE name = %(name)s AND token = (
            SELECT token FROM locks AS held
            WHERE name = %(name)s AND (token = %(token)s OR holder NOT IN (SELECT id FROM replicas))
        ) RETURNING name
    )
    SELECT name FROM fresh UNION ALL SELECT name FROM taken
"""
RELEASE = "DELETE FROM locks WHERE name = %(name)s AND token = %(token)s RETURNING name"
#: deletes the locks of dead replicas that nobody wants any more
SWEEP = """
    DELETE FROM locks WHERE token IN (
        SELECT token FROM locks AS held WHERE holder NOT IN (SELECT id FROM replicas)
    ) RETURNING name
"""


class ReplicaLocks:
    """The locks that this replica holds or waits for. me: the present name of this replica."""

    def __init__(
        self,
        session: PostgresSession,
        me: Callable[[], str],
        *,
        new_token: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._session = session
        self._me = me
        self._new_token = new_token
        self._swept = False
        self._releases: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def hold(self, name: str, /) -> AsyncIterator[None]:
        """Holds the lock of a name while the context is open; waits until it is free."""
        values = {"name": name, "token": self._new_token()}
        try:
            await _insist(lambda: self._acquire(values), "acquired", logging.WARNING)
            yield
        finally:
            # In a task, because this one may be cancelled; also after a wait, which may have acquired it.
            work = _insist(lambda: self._release(values), "released", logging.DEBUG)
            release = asyncio.create_task(work, name="a2a lock release")
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)

    async def close(self) -> None:
        """Waits a short time for releases. What is left is free once this replica has left."""
        if self._releases:
            await asyncio.wait(self._releases, timeout=_END)
        for one in tuple(self._releases):
            one.cancel()
        await self._session.close()

    async def _acquire(self, values: Mapping[str, Any]) -> bool:
        if not self._swept:
            await self._session.run(SWEEP, {})
            self._swept = True
        return bool(await self._session.run(ACQUIRE, {**values, "me": self._me()}))

    async def _release(self, values: Mapping[str, Any]) -> bool:
        await self._session.run(RELEASE, values)
        return True


async def _insist(work: Callable[[], Awaitable[object]], done: str, level: int) -> None:
    """Repeats `work` with growing pauses until it returns something true. Logs the first of several failures
    in a row. done: the participle in the text of the log.
    """
    pause, failed = _SOON, False
    while True:
        try:
            if await work():
                return
            failed = False
        except SessionError as error:
            if not failed:
                log.log(level, "a lock cannot be %s: %s; this is tried again", done, error)
            failed = True
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LATE)
