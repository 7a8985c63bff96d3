"""One replica among the others: puts membership, bus, calls and tails together. It holds no tasks.

Rules:
1. The store sees `me`, `follow`, `unfollow`, `publish` and the callbacks of ClusterListener; the engine
   sees Remote. Neither sees the bus.
2. Only the database says who is dead. An outage of the bus ends no work of a live replica.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol
from uuid import uuid4
from zlib import crc32

from a2a_bridge.cluster.bus import Bus, Hint
from a2a_bridge.cluster.calls import ReplicaClient, ReplicaDirectory, ReplicaServer
from a2a_bridge.cluster.frames import UNKNOWN, FrameKind, decode
from a2a_bridge.cluster.membership import Membership
from a2a_bridge.cluster.session import PostgresSession
from a2a_bridge.cluster.tails import Committed, Position, TailListener, Tails
from a2a_bridge.core.service import Service

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: seconds that a replica without any response is waited for, beyond its lease
_BEYOND = 3.0
#: seconds for the end of the thread
_END = 5.0
#: stripes of counters among which replicas begin to look for one of their own
_STRIPES = 16


class ClusterListener(TailListener, Protocol):
    """The store, as other replicas concern it. All methods run in its loop."""

    def unreachable(self) -> None:
        """The database does not answer."""
        ...

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        """Tasks as the database has them now. Raises A2AError."""
        ...

    def outbox_changed(self) -> None:
        """The outbox may have new entries."""
        ...

    def let_go(self) -> None:
        """All leases are lost, because this replica was declared dead. `me` already has a new value."""
        ...


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
    """The replicas on one database, including this one. Create and use it in the loop of the store.

    make_bus: the bus, given a function that returns True while no other replica is known. lease: seconds
    without a heartbeat after which a replica counts as dead. new_name, new_id: make names of replicas and ids
    of calls.
    """

    def __init__(
        self,
        session: PostgresSession,
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
        #: which of the rows of each counter this replica writes
        self.stripe = stripe_of(self.me, frozenset())
        self._on_death: list[Callable[[], None]] = []
        self._store: ClusterListener | None = None
        self._tails: Tails | None = None
        self._server: ReplicaServer | None = None
        self._living: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def remote(self) -> Cluster:
        """Calls to the other replicas: see Remote."""
        return self

    # ------------------------------------------------------------------ for the store

    def on_death(self, callback: Callable[[], None]) -> None:
        """Registers a callback for possible orphans: called after the start, and whenever a replica
        has died.
        """
        self._on_death.append(callback)

    def follow(self, task_id: str) -> None:
        """A task has readers here."""
        if self._tails is not None:
            self._tails.follow(task_id)

    def unfollow(self, task_id: str) -> None:
        """A task has no readers here any more."""
        if self._tails is not None:
            self._tails.unfollow(task_id)

    def publish(self, commits: Iterable[Committed], *, deliveries: bool) -> None:
        """Tells others what this replica has committed: changes of tasks, and new entries of the outbox."""
        if self._tails is not None:
            self._tails.publish(commits)
        if deliveries and not self._directory.alone:
            self._bus.hint(Hint.MAIL)

    async def start(self, store: ClusterListener) -> None:
        """Joins the cluster. Raises SessionError; `close` is required then, too."""
        self._store = store
        self._tails = Tails(self._bus, store, store.positions)
        await self._heart.start(self._membership.join())
        self.me = self._membership.name
        await self._bus.start(self.me, self)
        self._living = self._heart.start(self._membership.live())
        self._bus.hint(Hint.JOINED)

    async def close(self) -> None:
        """Leaves the cluster: tasks that this replica still holds become orphans at once. May be called
        twice.
        """
        if self._closed:
            return
        self._closed = True
        if self._tails is not None:
            self._tails.close()
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
        """See Remote."""
        self._server = ReplicaServer(service, lambda: self.me, lambda: self._bus.most)

    def takes(self, task_id: str, /) -> bool:
        """See Remote."""
        return self._directory.first(task_id) in ("", self.me)

    async def stop(self) -> None:
        """See Remote."""
        if self._server is not None:
            await self._server.close()

    def replica(self, holder: str, /) -> ReplicaClient:
        """See Remote."""
        return ReplicaClient(holder, self._bus, self._directory, self._new_id)

    # ------------------------------------------------------------------ BusListener

    async def answer(self, request: bytes, /) -> bytes:
        """See BusListener."""
        frame = decode(request)
        answer = UNKNOWN
        try:
            if frame.kind is FrameKind.READS:
                if self._tails is not None:
                    answer = self._tails.told(frame)
            elif self._server is not None:
                answer = await self._server.answer(frame)
        except Exception:
            log.exception("a message of another replica cannot be answered")
        return answer.encode()

    def on_hint(self, hint: Hint, /) -> None:
        """See BusListener."""
        if hint is Hint.MAIL:
            if self._store is not None:
                self._store.outbox_changed()
            return
        self._heart.call(self._membership.hurry)
        if hint is Hint.ORPHANS:
            self.on_orphans()

    def on_gap(self) -> None:
        """See BusListener."""
        if self._tails is not None:
            self._tails.on_gap()
        if self._store is not None:
            self._store.outbox_changed()

    # ------------------------------------------------------------------ MembershipListener

    def on_rename(self, me: str, /) -> None:
        """See MembershipListener."""
        self.me = me
        self._bus.rename(me)
        if self._server is not None:
            self._server.on_rename()
        if self._store is not None:
            self._store.let_go()

    def on_members(self, alive: frozenset[str], began: float, /) -> None:
        """See MembershipListener."""
        self.stripe = stripe_of(self.me, alive)
        self._directory.update_members(alive, began)

    def on_orphans(self) -> None:
        """See MembershipListener."""
        for callback in self._on_death:
            callback()
        # Also the notifications that the dead replica has claimed are without a holder.
        self.on_gap()

    def unreachable(self) -> None:
        """See MembershipListener."""
        if self._store is not None:
            self._store.unreachable()

    def tell(self) -> None:
        """See MembershipListener."""
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
