"""Which replicas on one database are alive: this replica's heartbeat, and a watch on the others'. Their tasks
are not handled here.

Rules:
1. A replica is alive exactly as long as it has a row in `replicas`. A replica that has seen another one
   without a heartbeat for the lease deletes its row; a replica whose own row is gone was declared dead, and
   continues under a new name.
2. No wall clocks: a heartbeat is a counter, and each watcher measures on its own clock how long it stands
   still.
3. A watcher that could not look starts its measurement anew: an outage of the database kills no replica.
4. The heartbeat has its own thread and connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from uuid import uuid4

from psycopg import Error

from a2a_bridge.hosting.stores.sql.notify import CHANNEL, Kind, payload
from a2a_bridge.hosting.stores.sql.replica_thread import SECONDS, ReplicaThread, StatementConnection, ended

log = logging.getLogger("a2a_bridge.hosting.stores")

#: seconds without a heartbeat after which a replica counts as dead
LEASE = 10.0
#: heartbeats per lease
_BEATS = 4

_JOIN = """
    WITH notified AS (SELECT pg_notify(%(channel)s, %(joined)s)),
    updated AS (UPDATE commands SET asker = %(me)s WHERE asker = %(before)s)
    INSERT INTO replicas (id, beat) SELECT %(me)s, 0 FROM notified RETURNING id
"""
_BEAT = """
    WITH mine AS (UPDATE replicas SET beat = beat + 1 WHERE id = %(me)s RETURNING id)
    SELECT id, beat FROM replicas WHERE id <> %(me)s UNION ALL SELECT id, 0 FROM mine
"""
_BURY = """
    WITH dead AS (DELETE FROM replicas WHERE id = %(id)s AND beat = %(beat)s RETURNING id)
    SELECT id, pg_notify(%(channel)s, %(orphans)s) FROM dead
"""
_LEAVE = """
    WITH mine AS (DELETE FROM replicas WHERE id = %(me)s RETURNING id),
    removed AS (DELETE FROM commands WHERE asker = %(me)s)
    SELECT id, pg_notify(%(channel)s, %(orphans)s) FROM mine
"""
_LEFT = """
    SELECT EXISTS (SELECT 1 FROM tasks WHERE holder <> '' AND holder NOT IN (SELECT id FROM replicas))
"""


class Replicas:
    """The replica of this process among the others. Its methods and members are for the thread of the store's
    loop.

    me: the name in its leases. It changes when the replica was declared dead: read it anew for each lease.
    alone: True if the last look found no other replica and none has joined since.
    """

    def __init__(self, url: str, thread: ReplicaThread, *, lease: float = LEASE) -> None:
        self.me = uuid4().hex
        self.alone = True
        self._thread = thread
        self._lease = lease
        self._link = StatementConnection(url, "replica")
        self._on_lost: list[Callable[[], None]] = []
        self._on_orphans: list[Callable[[], None]] = []
        self._on_look: list[Callable[[frozenset[str], float], None]] = []
        # For the replica thread only:
        #: the name in the table, and the name that the store knows
        self._name = self._announced_name = self.me
        self._others: frozenset[str] = frozenset()
        #: per other replica: the last seen heartbeat, and when it changed
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked = 0.0
        self._last_beat = 0.0
        self._loss_suspected = False
        self._beat_now = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Registers a callback for the loss of all leases, when this replica was declared dead."""
        self._on_lost.append(callback)

    def on_orphans(self, callback: Callable[[], None]) -> None:
        """Registers a callback for possible orphans: called after the start, and whenever a replica
        has died.
        """
        self._on_orphans.append(callback)

    def on_look(self, callback: Callable[[frozenset[str], float], None]) -> None:
        """Registers a callback for each look, called in the replica thread with the live replicas and the
        time of the look's beginning.
        """
        self._on_look.append(callback)

    async def start(self) -> None:
        """Joins the other replicas. Raises psycopg.Error."""
        await self._thread.call(self._join())

    async def close(self) -> None:
        """Leaves: this replica's tasks become orphans at once, and the others are notified."""
        await self._thread.call(self._leave())

    def on_message(self, *, orphans: bool) -> None:
        """Another replica has joined, or there may be orphans. Called in the replica thread."""
        self._thread.call_in_store_loop(self._count, False)
        if orphans:
            self._orphaned()
        self._beat_now.set()

    # ------------------------------------------------------------------ in the replica thread

    async def _join(self) -> None:
        await self._register()
        await self._beat()
        self._beating = self._thread.on_duty(self._live(), "beat")
        self._orphaned()

    async def _register(self, before: str = "") -> None:
        """Registers the replica. before: its previous name; answers to commands under that name
        still arrive.
        """
        began = monotonic()
        values = {"me": self._name, "before": before, "channel": CHANNEL}
        await self._link.run(_JOIN, values | {"joined": payload(Kind.JOINED, self._name)})
        self._last_beat = began

    async def _live(self) -> None:
        failures = beats = 0
        while True:
            pause = self._lease / _BEATS
            try:
                await self._beat()
                beats += 1
                if beats % _BEATS == 0:
                    # A replica that was to take the orphans over may have died, too.
                    ((left,),) = await self._link.run(_LEFT, {})
                    if left:
                        self._orphaned()
                if failures:
                    log.info("the database can be reached again")
                failures = 0
            except Error as error:
                if not failures:
                    log.warning("this replica cannot send its heartbeat: %s", type(error).__name__)
                failures += 1
                pause = min(pause, 0.1 * 2 ** min(failures, 8))
                self._suspect_loss()
            self._beat_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._beat_now.wait()

    async def _beat(self) -> None:
        began = monotonic()
        rows = await self._link.run(_BEAT, {"me": self._name}, min(SECONDS, self._lease / 2))
        others = {str(name): int(beat) for name, beat in rows if name != self._name}
        if len(others) == len(rows):
            await self._register_again()
        elif self._name != self._announced_name:
            self._renamed()  # by a statement whose answer was lost
        self._last_beat, self._loss_suspected = began, False
        await self._watch(others)
        for callback in self._on_look:
            callback(self._others | {self._name}, began)

    async def _watch(self, others: dict[str, int]) -> None:
        now = monotonic()
        if now - self._looked > self._lease / 2:
            self._seen.clear()
        self._looked = now
        self._seen = {
            name: seen if (seen := self._seen.get(name)) is not None and seen[0] == beat else (beat, now)
            for name, beat in others.items()
        }
        for name, (beat, since) in list(self._seen.items()):
            if now - since >= self._lease:
                log.warning(
                    "replica %s had no heartbeat for %.1f s: its tasks are taken over", name, now - since
                )
                values = {"id": name, "beat": beat, "channel": CHANNEL}
                await self._link.run(_BURY, values | {"orphans": payload(Kind.ORPHANS, self._name)})
                del self._seen[name]  # it may have recovered meanwhile: then its next heartbeat adds it again
        left = frozenset(self._seen)
        if self._others - left:
            self._orphaned()
        self._others = left
        self._thread.call_in_store_loop(self._count, not left)

    async def _register_again(self) -> None:
        log.error("this replica was declared dead; its tasks have other owners now")
        self._name = uuid4().hex
        await self._register(self._announced_name)
        self._renamed()

    def _renamed(self) -> None:
        self._announced_name = self._name
        self._thread.call_in_store_loop(self._rename, self._name)
        self._orphaned()

    def _orphaned(self) -> None:
        self._thread.call_in_store_loop(self._notify, self._on_orphans)

    def _suspect_loss(self) -> None:
        if not self._loss_suspected and monotonic() - self._last_beat >= self._lease:
            self._loss_suspected = True
            # Its work continues: without the database no other replica can take it over, and if only this one
            # is cut off, its writes will be rejected.
            log.error("other replicas may have declared this one dead; it continues until it knows")

    async def _leave(self) -> None:
        await ended(self._beating)
        values = {"me": self._name, "channel": CHANNEL, "orphans": payload(Kind.ORPHANS, self._name)}
        # Without the database the others detect it by themselves.
        with suppress(Error):
            await self._link.run(_LEAVE, values, min(SECONDS, self._lease / 2))
        await self._link.close()

    # ------------------------------------------------------------------ in the thread of the store's loop

    def _count(self, alone: bool) -> None:
        self.alone = alone

    def _rename(self, name: str) -> None:
        self.me = name
        self._notify(self._on_lost)

    def _notify(self, listeners: list[Callable[[], None]]) -> None:
        for callback in listeners:
            callback()
