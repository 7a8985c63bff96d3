"""Who is alive on one database: this replica's beat, and a watch on the others'. Not what becomes of their
tasks.

Rules:
1. A replica is alive exactly as long as it has a row in `replicas`. Whoever has watched one without a beat
   for the lease takes its row away; a replica that finds its own row gone was declared dead, and goes on
   under a new name.
2. No wall clocks: a beat is a number, and how long it stood still is measured by each watcher's own clock.
3. A watcher that could not look begins anew: an outage of the database is nobody's death.
4. The beat comes from a thread and a connection of its own.
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

#: seconds without a beat after which a replica counts as dead
LEASE = 10.0
#: beats in a lease
_BEATS = 4

_JOIN = """
    WITH told AS (SELECT pg_notify(%(channel)s, %(joined)s)),
    asked AS (UPDATE commands SET asker = %(me)s WHERE asker = %(before)s)
    INSERT INTO replicas (id, beat) SELECT %(me)s, 0 FROM told RETURNING id
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
    asked AS (DELETE FROM commands WHERE asker = %(me)s)
    SELECT id, pg_notify(%(channel)s, %(orphans)s) FROM mine
"""
_LEFT = """
    SELECT EXISTS (SELECT 1 FROM tasks WHERE holder <> '' AND holder NOT IN (SELECT id FROM replicas))
"""


class Replicas:
    """The replica of this process among the others. Its methods and members are for the thread of the store's
    loop.

    me: the name under which it holds tasks. It changes when it was declared dead: read it anew for each hold.
    alone: whether there was no other one when it looked last, or since one joined.
    """

    def __init__(self, url: str, room: ReplicaThread, *, lease: float = LEASE) -> None:
        self.me = uuid4().hex
        self.alone = True
        self._room = room
        self._lease = lease
        self._link = StatementConnection(url, "replica")
        self._on_lost: list[Callable[[], None]] = []
        self._on_orphans: list[Callable[[], None]] = []
        self._on_look: list[Callable[[frozenset[str], float], None]] = []
        # For the room's thread only:
        #: who this is in the table, and who the store takes it for
        self._name = self._told = self.me
        self._others: frozenset[str] = frozenset()
        #: of the others: the beat seen last, and when it was new
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked = 0.0
        self._beaten = 0.0
        self._doubted = False
        self._hurry = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def on_lost(self, tell: Callable[[], None]) -> None:
        """Has `tell` called when this replica was declared dead: what it held is no longer its own."""
        self._on_lost.append(tell)

    def on_orphans(self, tell: Callable[[], None]) -> None:
        """Has `tell` called when there may be tasks of the dead: after the start, and whenever one has
        gone.
        """
        self._on_orphans.append(tell)

    def on_look(self, tell: Callable[[frozenset[str], float], None]) -> None:
        """Has `tell` called, in the room's thread, with those that live, whenever it has looked, and with
        when it began to look.
        """
        self._on_look.append(tell)

    async def start(self) -> None:
        """Joins the others. Raises psycopg.Error."""
        await self._room.call(self._join())

    async def close(self) -> None:
        """Leaves: what this replica holds is an orphan at once, and the others know it."""
        await self._room.call(self._leave())

    def heard(self, *, orphans: bool) -> None:
        """Another one has said that it joined, or that there may be orphans. Called in the room's thread."""
        self._room.tell(self._count, False)
        if orphans:
            self._orphaned()
        self._hurry.set()

    # ------------------------------------------------------------------ in the room's thread

    async def _join(self) -> None:
        await self._register()
        await self._beat()
        self._beating = self._room.on_duty(self._live(), "beat")
        self._orphaned()

    async def _register(self, before: str = "") -> None:
        """before: the name until now, whose questions wait for their answers all the same."""
        began = monotonic()
        values = {"me": self._name, "before": before, "channel": CHANNEL}
        await self._link.run(_JOIN, values | {"joined": payload(Kind.JOINED, self._name)})
        self._beaten = began

    async def _live(self) -> None:
        failures = beats = 0
        while True:
            pause = self._lease / _BEATS
            try:
                await self._beat()
                beats += 1
                if beats % _BEATS == 0:
                    # Whoever wanted to take them over may have died of it, too.
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
                self._doubt()
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()

    async def _beat(self) -> None:
        began = monotonic()
        rows = await self._link.run(_BEAT, {"me": self._name}, min(SECONDS, self._lease / 2))
        others = {str(name): int(beat) for name, beat in rows if name != self._name}
        if len(others) == len(rows):
            await self._reborn()
        elif self._name != self._told:
            self._renamed()  # by a statement whose answer was lost
        self._beaten, self._doubted = began, False
        await self._watch(others)
        for tell in self._on_look:
            tell(self._others | {self._name}, began)

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
                del self._seen[name]  # it may have been quicker: then it is seen again at the next beat
        left = frozenset(self._seen)
        if self._others - left:
            self._orphaned()
        self._others = left
        self._room.tell(self._count, not left)

    async def _reborn(self) -> None:
        log.error("this replica was declared dead; its tasks have other owners now")
        self._name = uuid4().hex
        await self._register(self._told)
        self._renamed()

    def _renamed(self) -> None:
        self._told = self._name
        self._room.tell(self._rename, self._name)
        self._orphaned()

    def _orphaned(self) -> None:
        self._room.tell(self._tell, self._on_orphans)

    def _doubt(self) -> None:
        if not self._doubted and monotonic() - self._beaten >= self._lease:
            self._doubted = True
            # What it works on goes on: without the database nobody else can begin it, and if only this one is
            # cut off, nothing of what it writes will count.
            log.error("other replicas may have declared this one dead; it continues until it knows")

    async def _leave(self) -> None:
        await ended(self._beating)
        values = {"me": self._name, "channel": CHANNEL, "orphans": payload(Kind.ORPHANS, self._name)}
        # Without the database the others find out by themselves.
        with suppress(Error):
            await self._link.run(_LEAVE, values, min(SECONDS, self._lease / 2))
        await self._link.close()

    # ------------------------------------------------------------------ in the thread of the store's loop

    def _count(self, alone: bool) -> None:
        self.alone = alone

    def _rename(self, name: str) -> None:
        self.me = name
        self._tell(self._on_lost)

    def _tell(self, listeners: list[Callable[[], None]]) -> None:
        for tell in listeners:
            tell()
