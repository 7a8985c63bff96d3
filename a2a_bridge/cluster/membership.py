"""Which replicas on one database are alive: this replica's heartbeat, and a watch on the others'. Their tasks
are not handled here.

Rules:
1. A replica is alive exactly as long as it has a row in `replicas`. A replica that has seen another one
   without a heartbeat for the lease deletes its row; a replica whose own row is gone was declared dead, and
   continues under a new name.
2. No wall clocks: a heartbeat is a counter, and each watcher measures on its own clock how long it stands
   still.
3. A watcher that could not look starts its measurement anew: an outage of the database kills no replica.
4. The heartbeat runs in a loop of its own, with its own connection: a busy loop of the store is no death. All
   callbacks run in the store's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from a2a_bridge.cluster.session import SECONDS, PostgresSession, SessionError
from a2a_bridge.cluster.session_limits import session_name

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: heartbeats per lease
_BEATS = 4

JOIN = "INSERT INTO replicas (id, beat) VALUES (%(me)s, 0) RETURNING id"
BEAT = """
    WITH mine AS (UPDATE replicas SET beat = beat + 1 WHERE id = %(me)s RETURNING id)
    SELECT id, beat FROM replicas WHERE id <> %(me)s UNION ALL SELECT id, 0 FROM mine
"""
BURY = "DELETE FROM replicas WHERE id = %(id)s AND beat = %(beat)s RETURNING id"
#: ends what a dead replica has not committed: its locks would stay until the server notices
END = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %(session)s AND datname = current_database() AND pid <> pg_backend_pid()
"""
LEAVE = "DELETE FROM replicas WHERE id = %(me)s RETURNING id"
LEFT = """
    SELECT EXISTS (SELECT 1 FROM tasks WHERE holder <> '' AND holder NOT IN (SELECT id FROM replicas))
"""


class MembershipListener(Protocol):
    """The reactions of the store. All methods run in its loop."""

    def on_rename(self, me: str, /) -> None:
        """All leases are lost, because this replica was declared dead. `me` is its new name."""
        ...

    def on_members(self, alive: frozenset[str], began: float, /) -> None:
        """The live replicas, this one included, of a look that began at this time of the loop's clock."""
        ...

    def on_orphans(self) -> None:
        """There may be orphans: after the start, and whenever a replica has died."""
        ...

    def unreachable(self) -> None:
        """A heartbeat has failed."""
        ...

    def tell(self) -> None:
        """The other replicas should learn that there may be orphans."""
        ...


class Membership:
    """One replica among the others. post: calls a function in the store's loop. lease: seconds without a
    heartbeat after which a replica counts as dead.
    """

    def __init__(
        self,
        session: PostgresSession,
        listener: MembershipListener,
        post: Callable[..., object],
        new_name: Callable[[], str],
        *,
        lease: float,
    ) -> None:
        self._session = session
        self._listener = listener
        self._post = post
        self._new_name = new_name
        self._lease = lease
        #: the name in the table, and the name that the store knows
        self.name = self._announced_name = new_name()
        self._others: frozenset[str] = frozenset()
        #: per other replica: the last seen heartbeat, and when it changed
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked = 0.0
        self._last_beat = 0.0
        self._loss_suspected = False
        self._beat_now = asyncio.Event()

    async def join(self) -> None:
        """Registers this replica. Raises SessionError."""
        await self._session.run(JOIN, {"me": self.name})
        await self.beat()
        self._post(self._listener.on_orphans)

    def hurry(self) -> None:
        """Looks at once. For the loop of the heartbeat."""
        self._beat_now.set()

    async def live(self) -> None:
        """Sends heartbeats until it is cancelled."""
        failures = beats = 0
        while True:
            pause = self._lease / _BEATS
            try:
                await self.beat()
                beats += 1
                if beats % _BEATS == 0:
                    # A replica that was to take the orphans over may have died, too.
                    ((left,),) = await self._session.run(LEFT, {})
                    if left:
                        self._post(self._listener.on_orphans)
                if failures:
                    log.info("the database can be reached again")
                failures = 0
            except Exception as error:  # whatever it is: a replica without heartbeats is declared dead
                if not failures:
                    unexpected = not isinstance(error, SessionError)
                    log.warning("this replica cannot send its heartbeat: %s", error, exc_info=unexpected)
                failures += 1
                pause = min(pause, 0.1 * 2 ** min(failures, 8))
                self._suspect_loss()
                self._post(self._listener.unreachable)
            self._beat_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._beat_now.wait()

    async def beat(self) -> None:
        """One heartbeat, and a look at those of the others. Raises SessionError."""
        began = _now()
        rows = await self._session.run(BEAT, {"me": self.name}, min(SECONDS, self._lease / 2))
        others = {str(name): int(beat) for name, beat in rows if name != self.name}
        if len(others) == len(rows):
            await self._register_again()
        elif self.name != self._announced_name:
            self._rename()  # by a statement whose result was lost
        self._last_beat, self._loss_suspected = began, False
        await self._watch(others)
        self._post(self._listener.on_members, self._others | {self.name}, began)

    async def leave(self) -> None:
        """Leaves: this replica's tasks become orphans at once. Without the database the others detect it by
        themselves.
        """
        with suppress(SessionError):
            await self._session.run(LEAVE, {"me": self.name}, min(SECONDS, self._lease / 2))

    async def _watch(self, others: dict[str, int]) -> None:
        now = _now()
        if now - self._looked > self._lease / 2:
            self._seen.clear()
        self._looked = now
        self._seen = {
            name: seen if (seen := self._seen.get(name)) is not None and seen[0] == beat else (beat, now)
            for name, beat in others.items()
        }
        for name, (beat, since) in list(self._seen.items()):
            if now - since >= self._lease:
                if await self._session.run(BURY, {"id": name, "beat": beat}):
                    text = "replica %s had no heartbeat for %.1f s: its tasks are taken over"
                    log.warning(text, name, now - since)
                    del self._seen[name]
                    await self._end_session(name)
                    self._post(self._listener.tell)
                else:  # it has a newer heartbeat, or another replica was faster: the next look shows it
                    self._seen[name] = beat, now
        left = frozenset(self._seen)
        if self._others - left:
            self._post(self._listener.on_orphans)
        self._others = left

    async def _end_session(self, name: str) -> None:
        """Ends the writing session of a dead replica. If that fails, PostgreSQL ends it by its own limits."""
        try:
            await self._session.run(END, {"session": session_name(name)})
        except SessionError as error:
            log.warning("the session of replica %s is not ended: %s", name, error)

    async def _register_again(self) -> None:
        log.error("this replica was declared dead; its tasks have other owners now")
        self.name = self._new_name()
        await self._session.run(JOIN, {"me": self.name})
        self._rename()

    def _rename(self) -> None:
        self._announced_name = self.name
        self._post(self._listener.on_rename, self.name)
        self._post(self._listener.on_orphans)

    def _suspect_loss(self) -> None:
        if not self._loss_suspected and _now() - self._last_beat >= self._lease:
            self._loss_suspected = True
            # Its work continues: without the database no other replica can take it over, and if only this one
            # is cut off, its writes will be rejected.
            log.error("other replicas may have declared this one dead; it continues until it knows")


def _now() -> float:
    return asyncio.get_running_loop().time()
