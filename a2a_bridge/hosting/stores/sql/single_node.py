"""Takes the place of the cluster on SQLite, which one process uses at a time: no other replica is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import uuid4

from sqlalchemy import Connection, delete, insert

from a2a_bridge.hosting.stores.sql.schema import replicas


class SingleNode:
    """Stands where `Neighbours` does on PostgreSQL. Only for who has locked the file."""

    def __init__(self) -> None:
        self.me = uuid4().hex
        self.remote = None

    def join(self, connection: Connection) -> None:
        """All earlier holders are dead, because this process has the lock."""
        connection.execute(delete(replicas))
        connection.execute(insert(replicas).values(id=self.me, beat=0))

    def announce(self, connection: Connection, task_ids: Iterable[str], *, mail: bool = False) -> None:
        """There is nobody to tell."""

    def on_death(self, tell: Callable[[], None]) -> None:
        """Calls `tell` once: all earlier holders are dead."""
        tell()
