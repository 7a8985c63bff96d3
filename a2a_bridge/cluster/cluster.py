"""One replica among the others: its heartbeat and its watch on the others, and bus, calls and tails together.

A Cluster holds no tasks.

Rules:
1. The store sees `me`, `follow`, `unfollow` and `publish`, and is called as ClusterStore; the engine sees
   Remote. Neither sees the bus.
2. Only the database says who is dead. An outage of the bus ends no work of a live replica.
3. A replica is alive exactly as long as it has a row in `replicas`. A replica that has seen another replica
   without a heartbeat for the lease deletes the row of that replica. A replica without a row was declared
   dead, and continues under a new name.
4. No wall clocks: a heartbeat is a counter, and each watcher measures on its own clock how long the counter
   stands still.
5. A watcher that could not look starts its measurement anew: an outage of the database kills no replica.
6. The heartbeat runs in a loop of its own, with its own connection: a busy loop of the store is no death. All
   callbacks run in the loop of the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any
from uuid import uuid4
from zlib import crc32

from a2a_bridge.cluster.bus import Bus, Hint
from a2a_bridge.cluster.calls import (
    UNKNOWN,
    FrameKind,
    ReplicaClient,
    ReplicaDirectory,
    ReplicaServer,
    decode,
)
from a2a_bridge.cluster.locks import ReplicaLocks
from a2a_bridge.cluster.session import SECONDS, PostgresSession, SessionError, session_name
from a2a_bridge.cluster.tails import ClusterStore, Committed, Tails, now
from a2a_bridge.core.service import Service

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: heartbeats per lease
_BEATS = 4
#: seconds that a replica without any response is waited for, beyond its lease
_BEYOND = 3.0
#: seconds for the end of the thread
_END = 5.0
#: stripes of counters among which replicas begin to look for a stripe of their own
_STRIPES = 16

JOIN = "INSERT INTO replicas (id, beat) VALUES (%(me)s, 0) RETURNING id"
BEAT = """
    WITH mine AS (UPDATE replicas SET beat = beat + 1 WHERE id = %(me)s RETURNING id)
    SELECT id, beat FROM replicas WHERE id <> %(me)s UNION ALL SELECT id, 0 FROM mine
"""
BURY = "DELETE FROM replicas WHERE id = %(id)s AND beat = %(beat)s RETURNING id"
#: ends the transaction of a dead replica: its locks would stay until the server notices
END = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %(session)s AND datname = current_database() AND pid <> pg_backend_pid()
"""
LEAVE = "DELETE FROM replicas WHERE id = %(me)s RETURNING id"
LEFT = """
    SELECT EXISTS (SELECT 1 FROM tasks WHERE holder <> '' AND holder NOT IN (SELECT id FROM replicas))
"""


class Membership:
    """The live replicas on one database: the heartbeat of this replica, and a watch on the heartbeats of the
    others. cluster: told of changes, in the loop of its store, with `post`. lease: seconds without a
    heartbeat after which a replica counts as dead.
    """

    def __init__(
        self,
        session: PostgresSession,
        cluster: Cluster,
        post: Callable[..., object],
        new_name: Callable[[], str],
        *,
        lease: float,
    ) -> None:
        self._session = session
        self._cluster = cluster
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
        self._post(self._cluster.on_orphans)

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
                        self._post(self._cluster.on_orphans)
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
                self._post(self._cluster.unreachable)
            self._beat_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._beat_now.wait()

    async def beat(self) -> None:
        """One heartbeat, and a look at the heartbeats of the others. Raises SessionError."""
        began = now()
        rows = await self._session.run(BEAT, {"me": self.name}, min(SECONDS, self._lease / 2))
        others = {str(name): int(beat) for name, beat in rows if name != self.name}
        if len(others) == len(rows):
            await self._register_again()
        elif self.name != self._announced_name:
            self._rename()  # by a statement whose result was lost
        self._last_beat, self._loss_suspected = began, False
        await self._watch(others)
        self._post(self._cluster.on_members, self._others | {self.name}, began)

    async def leave(self) -> None:
        """Leaves: the tasks of this replica become orphans at once. Without the database the other replicas
        detect the departure by themselves.
        """
        with suppress(SessionError):
            await self._session.run(LEAVE, {"me": self.name}, min(SECONDS, self._lease / 2))

    async def _watch(self, others: dict[str, int]) -> None:
        time = now()
        if time - self._looked > self._lease / 2:
            self._seen.clear()
        self._looked = time
        self._seen = {
            name: seen if (seen := self._seen.get(name)) is not None and seen[0] == beat else (beat, time)
            for name, beat in others.items()
        }
        for name, (beat, since) in list(self._seen.items()):
            if time - since >= self._lease:
                if await self._session.run(BURY, {"id": name, "beat": beat}):
                    text = "replica %s had no heartbeat for %.1f s: its tasks are taken over"
                    log.warning(text, name, time - since)
                    del self._seen[name]
                    await self._end_session(name)
                    self._post(self._cluster.tell)
                else:  # it has a newer heartbeat, or another replica was faster: the next look shows it
                    self._seen[name] = beat, time
        left = frozenset(self._seen)
        if self._others - left:
            self._post(self._cluster.on_orphans)
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
        self._post(self._cluster.on_rename, self.name)
        self._post(self._cluster.on_orphans)

    def _suspect_loss(self) -> None:
        if not self._loss_suspected and now() - self._last_beat >= self._lease:
            self._loss_suspected = True
            # Its work continues: without the database no other replica can take it over, and if only this one
            # is cut off, its writes will be rejected.
            log.error("other replicas may have declared this one dead; it continues until it knows")


class HeartThread:
    """The thread in which the heartbeat runs. Create it in the loop of the store."""

    def __init__(self) -> None:
        self._home = asyncio.get_running_loop()
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._live, name="a2a heartbeat", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Any], /) -> asyncio.Future[Any]:
        """Starts a coroutine there at once. Cancelling the future cancels it."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def post(self, function: Callable[..., object], /, *arguments: Any) -> None:
        """Calls a function in the loop of the store, from there."""
        # The loop may have been closed without closing the store.
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(function, *arguments)

    def call(self, function: Callable[..., object], /) -> None:
        """Calls a function there, from the loop of the store."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def close(self) -> None:
        """Ends it, with everything that runs there."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _END)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            self._loop.close()


class Cluster:
    """The replicas on one database, including this replica. Create and use it in the loop of the store.

    session: for heartbeats and a polling bus. lock_session: for locks. make_bus: makes the bus, given a
    function that returns True while no other replica is known. lease: seconds without a heartbeat after which
    a replica counts as dead. new_name, new_id: make names of replicas, and ids of calls and locks.
    """

    def __init__(
        self,
        session: PostgresSession,
        lock_session: PostgresSession,
        make_bus: Callable[[Callable[[], bool]], Bus],
        heart: HeartThread,
        *,
        lease: float,
        new_name: Callable[[], str] = lambda: uuid4().hex,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._session = session
        self._heart = heart
        self._new_id = new_id
        self._directory = ReplicaDirectory(1.25 * lease + _BEYOND)
        self._bus = make_bus(lambda: self._directory.alone)
        self._membership = Membership(session, self, heart.post, new_name, lease=lease)
        self.me = self._membership.name
        self._locks = ReplicaLocks(lock_session, lambda: self.me, new_token=new_id)
        #: which of the rows of each counter this replica writes
        self.stripe = stripe_of(self.me, frozenset())
        self._on_death: list[Callable[[], None]] = []
        #: from `start` on
        self._store: ClusterStore
        self._tails = Tails(self._bus)
        self._server: ReplicaServer | None = None
        self._living: asyncio.Future[None] | None = None
        self._closed = False

    # ------------------------------------------------------------------ for the store

    def on_death(self, callback: Callable[[], None]) -> None:
        """Registers a callback for possible orphans, called after the start and after a replica's death."""
        self._on_death.append(callback)

    def follow(self, task_id: str) -> None:
        """A task has readers here."""
        self._tails.follow(task_id)

    def unfollow(self, task_id: str) -> None:
        """A task has no readers here any more."""
        self._tails.unfollow(task_id)

    def publish(self, commits: Iterable[Committed], *, deliveries: bool) -> None:
        """Tells others the commits of this replica: changes of tasks, and new entries of the outbox."""
        self._tails.publish(commits)
        if deliveries and not self._directory.alone:
            self._bus.hint(Hint.MAIL)

    async def start(self, store: ClusterStore) -> None:
        """Joins the cluster. Raises SessionError; `close` is required then, too."""
        self._store = self._tails.store = store
        await self._heart.start(self._membership.join())
        self.me = self._membership.name
        await self._bus.start(self.me, self.answer, self.on_hint, self.on_gap)
        self._living = self._heart.start(self._membership.live())
        self._bus.hint(Hint.JOINED)

    async def close(self) -> None:
        """Leaves the cluster: tasks that this replica holds become orphans at once. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._tails.close()
        await self._locks.close()
        if self._living is not None:
            self._living.cancel()
            await asyncio.wait({self._living})
            await self._heart.start(self._membership.leave())
            self._bus.hint(Hint.ORPHANS)
        await self._bus.close()
        await self._session.close()
        await self._heart.close()

    # ------------------------------------------------------------------ Remote

    def serve(self, service: Service, /) -> None:
        self._server = ReplicaServer(service, lambda: self.me, lambda: self._bus.most)

    def takes(self, task_id: str, /) -> bool:
        return self._directory.first(task_id) in ("", self.me)

    def lock(self, name: str, /) -> AbstractAsyncContextManager[None]:
        return self._locks.hold(name)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()

    def replica(self, holder: str, /) -> ReplicaClient:
        return ReplicaClient(holder, self._bus, self._directory, self._new_id)

    # ------------------------------------------------------------------ for the bus

    async def answer(self, request: bytes, /) -> bytes:
        """Answers the request of another replica within seconds. Raises nothing."""
        frame = decode(request)
        answer = UNKNOWN
        try:
            if frame.kind is FrameKind.READS:
                answer = self._tails.told(frame)
            elif self._server is not None:
                answer = await self._server.answer(frame)
        except Exception:
            log.exception("a message of another replica cannot be answered")
        return answer.encode()

    def on_hint(self, hint: Hint, /) -> None:
        if hint is Hint.MAIL:
            self._store.outbox_changed()
            return
        self._heart.call(self._membership.hurry)
        if hint is Hint.ORPHANS:
            self.on_orphans()

    def on_gap(self) -> None:
        """Messages of the bus may have been lost."""
        self._tails.on_gap()
        self._store.outbox_changed()

    # ------------------------------------------------------------------ for the membership

    def on_rename(self, me: str, /) -> None:
        """All leases are lost, because this replica was declared dead. `me` is its new name."""
        self.me = me
        self._bus.rename(me)
        if self._server is not None:
            self._server.on_rename()
        self._store.let_go()

    def on_members(self, alive: frozenset[str], began: float, /) -> None:
        """The live replicas, this replica included, of a look that began at this time of the loop's clock."""
        self.stripe = stripe_of(self.me, alive)
        self._directory.update_members(alive, began)

    def on_orphans(self) -> None:
        """There may be orphans: after the start, and whenever a replica has died."""
        for callback in self._on_death:
            callback()
        # Also the notifications that the dead replica has claimed are without a holder.
        self.on_gap()

    def unreachable(self) -> None:
        """A heartbeat has failed."""
        self._store.unreachable()

    def tell(self) -> None:
        """The other replicas should learn that there may be orphans."""
        self._bus.hint(Hint.ORPHANS)


def stripe_of(me: str, alive: frozenset[str]) -> int:
    """The stripe of counters of a replica. All that know the same live replicas find different ones."""
    taken: set[int] = set()
    for name in sorted(alive | {me}):
        stripe = crc32(name.encode()) % _STRIPES
        while stripe in taken:
            stripe += 1
        if name == me:
            return stripe
        taken.add(stripe)
    raise RuntimeError("a replica is among those that are alive")
