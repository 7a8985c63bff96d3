"""SqlStore: the store on SQLite and PostgreSQL, with push configs and the outbox in the same transactions.
`open_sql_store` opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from a2a_bridge.cluster.cluster import Cluster
from a2a_bridge.cluster.tails import Position
from a2a_bridge.core.errors import A2AError
from a2a_bridge.push.secrets import Vault
from a2a_bridge.stores.errors import unavailable
from a2a_bridge.stores.options import StoreOptions
from a2a_bridge.stores.sql.commit import SqlJob
from a2a_bridge.stores.sql.database import Database
from a2a_bridge.stores.sql.push import SqlOutbox, SqlPushConfigStore
from a2a_bridge.stores.sql.rows import SharedSqlRecords, SqlRecords
from a2a_bridge.stores.sql.tasks import positions
from a2a_bridge.stores.store_base import StoreBase

Result = TypeVar("Result")


class SqlStore(StoreBase):
    """Implements Store. Use it in the loop in which it was created.

    beside: the other replicas; None on SQLite. page_key: the same for all replicas. vault: encrypts secrets.
    """

    def __init__(
        self,
        database: Database,
        beside: Cluster | None,
        options: StoreOptions,
        *,
        page_key: bytes,
        vault: Vault,
    ) -> None:
        self._database = database
        self._beside = beside
        records = SqlRecords(database) if beside is None else SharedSqlRecords(database, beside)

        def me() -> str:
            return self.me()  # set below

        configs = SqlPushConfigStore(database, self, me, vault)
        outbox = SqlOutbox(database, self, me, vault)
        configs.on_changed = outbox.redirect
        records.on_deliveries = self.outbox_changed = outbox.outbox_changed
        super().__init__(records, options, page_key=page_key, push_configs=configs, outbox=outbox)

    def rejection(self) -> A2AError | None:
        return unavailable() if self._database.misplaced else super().rejection()

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        """Tasks as the database has them now, for the other replicas. Raises A2AError."""
        return await self._database.read(lambda connection: positions(connection, task_ids), snapshot=False)

    async def write(self, work: Callable[[Connection], Result], /, *, order: tuple[str, ...] = ()) -> Result:
        """Runs `work` in the next transaction, and returns its result once that is durable. `work` must be
        idempotent.

        order: see SqlJob. Raises the errors of `work`, and UNAVAILABLE.
        """
        result: Result = await self.writer.write(SqlJob(work, order))
        return result
