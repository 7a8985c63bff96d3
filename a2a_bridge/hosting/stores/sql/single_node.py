"""Takes the place of the cluster on SQLite, which one process uses at a time: no other replica is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import uuid4

from sqlalchemy import Connection, delete, insert

from a2a_bridge.hosting.cluster.tails import Committed
from a2a_bridge.hosting.stores.sql.schema import replicas


class SingleNode:
    """Replaces `Cluster` on SQLite. Requires the lock on the file."""

    def __init__(self) -> None:
        self.me = uuid4().hex
        self.remote = None

    def join(self, connection: Connection) -> None:
        """All earlier holders are dead, because this process has the lock."""
        connection.execute(delete(replicas))
        connection.execute(insert(replicas).values(id=self.me, beat=0))

    def follow(self, task_id: str) -> None:
        """Does nothing: all tasks are written here."""

    def unfollow(self, task_id: str) -> None:
        """Does nothing."""

    def publish(self, commits: Iterable[Committed], *, deliveries: bool) -> None:
        """Does nothing: there is no other replica."""

    def on_death(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once: all earlier holders are dead."""
        callback()
