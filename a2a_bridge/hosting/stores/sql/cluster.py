"""The connection of a store to the other replicas on one PostgreSQL. It holds no tasks.

On SQLite there are no other replicas, and `single_node` takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from sqlalchemy import Connection, text

from a2a_bridge.hosting.ports import Remote
from a2a_bridge.hosting.stores.sql.commands import Commands
from a2a_bridge.hosting.stores.sql.notify import CHANNEL, POLL, Kind, Listener, payloads
from a2a_bridge.hosting.stores.sql.replica_thread import ReplicaThread
from a2a_bridge.hosting.stores.sql.replicas import LEASE, Replicas

_ANNOUNCE = text("SELECT pg_notify(:channel, payload) FROM unnest(CAST(:payloads AS text[])) AS payload")


class ClusterListener(Protocol):
    """The store's reactions to other replicas. All methods run in its loop."""

    def woken(self, task_ids: Collection[str] | None, /) -> None:
        """Other replicas have changed these tasks, or any if None: readers have to look again."""
        ...

    def outbox_changed(self) -> None:
        """The outbox may have new entries."""
        ...

    def let_go(self) -> None:
        """All leases are lost, because this replica was declared dead. `me` already has a new value."""
        ...


class Cluster:
    """The replicas on one database, including this one. Create and use it in the loop of the store.

    url: of the database, in the form of libpq (`postgresql://…`). lease: seconds without a heartbeat after
    which a replica counts as dead. poll: seconds after which the tables are read without a hint.
    """

    def __init__(self, url: str, *, lease: float = LEASE, poll: float = POLL) -> None:
        self._url = url
        self._lease = lease
        self._poll = poll
        self._thread = thread = ReplicaThread()
        self._replicas = Replicas(url, thread, lease=lease)
        self._listener = Listener(url, thread, poll=poll)
        self._commands = Commands(url, thread, self._replicas, self._listener, poll=poll)
        self._listener.on(Kind.JOINED, lambda _: self._replicas.on_message(orphans=False))
        self._listener.on(Kind.ORPHANS, lambda _: self._replicas.on_message(orphans=True))

    @property
    def me(self) -> str:
        """The name in this replica's leases. It changes when this replica was declared dead."""
        return self._replicas.me

    @property
    def remote(self) -> Remote:
        """Calls to the other replicas."""
        return self._commands

    def announce(self, connection: Connection, task_ids: Iterable[str], *, deliveries: bool = False) -> None:
        """Notifies the others of the changes of this transaction, at its commit. At most one statement."""
        if self._replicas.alone:
            return
        notifications = list(payloads(self.me, task_ids, deliveries=deliveries))
        if notifications:
            connection.execute(_ANNOUNCE, {"channel": CHANNEL, "payloads": notifications})

    def on_death(self, callback: Callable[[], None]) -> None:
        """Registers a callback for possible orphans: called after the start, and whenever a replica
        has died.
        """
        self._replicas.on_orphans(callback)

    async def start(self, store: ClusterListener) -> None:
        """Joins the cluster. Raises psycopg.Error; `close` is required then, too."""
        self._replicas.on_lost(store.let_go)
        self._listener.set_listeners(store.woken, store.outbox_changed)
        await self._listener.start(lambda: self.me)
        await self._replicas.start()
        await self._commands.start()

    async def close(self) -> None:
        """Leaves the cluster: tasks that this replica still holds become orphans at once. May be called
        twice.
        """
        if self._thread.open:
            await self._commands.close()
            await self._replicas.close()
            await self._thread.close()
