"""SqlStore: implements the Store protocol with the modules beside it. `opened` opens it.

Rules:
1. A read of a task that is written here waits for pending writes: readers see every change that was
   reported to them.
2. The row of a task names the holder of its lease. The lease lasts as long as that replica lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from sqlalchemy import Connection, and_, or_, select, update

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.paging import PageTokens
from a2a_bridge.hosting.cluster.tails import Committed, Position
from a2a_bridge.hosting.ports import (
    Outbox,
    PushConfigStore,
    Remote,
    Scope,
    SendRegister,
    Stored,
    TaskPage,
    TaskQuery,
    VersionConflictError,
    WriteTotals,
)
from a2a_bridge.hosting.stores.options import StoreOptions
from a2a_bridge.hosting.stores.sql.commit import Committer, Group
from a2a_bridge.hosting.stores.sql.counts import Counted, Place
from a2a_bridge.hosting.stores.sql.database import Database, unavailable
from a2a_bridge.hosting.stores.sql.log import EventLogs, SqlSubscription
from a2a_bridge.hosting.stores.sql.push import SqlOutbox, SqlPushConfigStore, post_events
from a2a_bridge.hosting.stores.sql.schema import replicas, tasks
from a2a_bridge.hosting.stores.sql.sends import SqlSends
from a2a_bridge.hosting.stores.sql.task_lease import OpenedTask, TaskLease
from a2a_bridge.hosting.stores.sql.tasks import (
    as_of,
    at_work,
    fetch,
    listing,
    orphaned,
    positions,
    visible_to,
)
from a2a_bridge.hosting.stores.sql.terminal_cache import TerminalTaskCache
from a2a_bridge.hosting.stores.sql.text import storable
from a2a_bridge.hosting.stores.sql.writer import GroupWriter
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.vault import Vault

Result = TypeVar("Result")

#: seconds for the last writes of a slow database before the store is closed anyway
_LAST_WRITES = 10.0


class ClusterMembership(Protocol):
    """The other replicas, as far as a store needs them: `Cluster`, or `SingleNode`. me: the present name of
    this one.
    """

    @property
    def me(self) -> str: ...

    @property
    def remote(self) -> Remote | None: ...

    def on_death(self, callback: Callable[[], None], /) -> None: ...

    def orphaned(self) -> None: ...

    def follow(self, task_id: str, /) -> None: ...

    def unfollow(self, task_id: str, /) -> None: ...

    def committed(self, commits: Iterable[Committed], /, *, deliveries: bool) -> None: ...


class SqlStore:
    """Implements Store. Use it in the loop in which it was created.

    page_key: the same for all replicas. vault: encrypts secrets.
    """

    durable = True

    def __init__(
        self,
        database: Database,
        beside: ClusterMembership,
        options: StoreOptions,
        *,
        page_key: bytes,
        vault: Vault,
    ) -> None:
        self.memory = MemoryAccount(options.max_memory)
        self._database = database
        self._beside = beside
        # Any number is correct; different ones keep replicas from waiting for each other's counters.
        stripe = 0 if database.sqlite else int(beside.me[:4], 16) % 16
        self._committer = Committer(database, post_events, stripe)
        self.writer = GroupWriter(
            self._committer,
            lambda: beside.me,
            self._committed,
            commit_delay=options.commit_delay,
            ack_timeout=options.ack_timeout,
            memory=self.memory,
        )
        self._sql_outbox = SqlOutbox(database, self.writer, lambda: beside.me, vault)
        configs = SqlPushConfigStore(database, self.writer, vault)
        configs.on_changed = self._sql_outbox.redirect
        self.push_configs: PushConfigStore = configs
        self.outbox: Outbox = self._sql_outbox
        self.sends: SendRegister = SqlSends(self.writer, lambda: beside.me)
        self.remote: Remote | None = beside.remote
        self._logs = EventLogs(
            database,
            beside,
            self._last_written,
            self.refusal,
            patience=options.ack_timeout,
            memory=self.memory,
        )
        self._ended = TerminalTaskCache(options.cache_bytes, options.tasks_kept, memory=self.memory)
        self._tokens = PageTokens(page_key)

    @property
    def commits(self) -> int:
        """The number of committed transactions."""
        return self.writer.commits

    def writes(self) -> WriteTotals:
        """The totals of this process."""
        writer = self.writer
        return WriteTotals(writer.commits, writer.commit_seconds, writer.committed, writer.queued)

    def refusal(self) -> A2AError | None:
        return unavailable() if self._database.misplaced else self.writer.refusal()

    # ------------------------------------------------------------------ writing

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskLease:
        return self.writer.lease(scope, task_id, on_lost, push=push)

    async def open(
        self, scope: Scope, stored: Stored, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskLease:
        task_id, version = stored.task.id, stored.version
        before = self.writer.leases.get(task_id)
        if before is not None:
            if not before.released:
                raise VersionConflictError(task_id)
            await before.synced()
            if before.released_version == version:
                version = before.version  # only a release has happened since
        taken = False

        def take(connection: Connection) -> OpenedTask:
            nonlocal taken
            mine = and_(tasks.c.id == storable(task_id), visible_to(scope))
            row = connection.execute(select(tasks).where(mine)).one_or_none()
            if row is None:
                raise VersionConflictError(task_id)
            if not (taken and row.version == version + 1 and row.holder == self._beside.me):
                free = or_(
                    tasks.c.holder == "",
                    tasks.c.holder == self._beside.me,
                    tasks.c.holder.not_in(select(replicas.c.id)),
                )
                change = update(tasks).where(mine, tasks.c.version == version, free)
                taken = True
                if (
                    connection.execute(change.values(holder=self._beside.me, version=version + 1)).rowcount
                    != 1
                ):
                    raise VersionConflictError(task_id)
            place = Place(row.context, row.state, row.time)
            return OpenedTask(version + 1, row.last, row.applied, place, stored.task.ByteSize())

        try:
            opened = await self.writer.write(take, order=("tasks", task_id), task_id=storable(task_id))
        except A2AError:
            # It may have been committed: then the task is this replica's, and nobody works on it.
            self._beside.orphaned()
            raise
        return self.writer.lease(scope, task_id, on_lost, push=push, opened=opened)

    async def settled(self) -> None:
        """Waits until all changes so far are durable."""
        await self.writer.settled()

    async def close(self) -> None:
        """Writes pending changes, as far as the database allows, and closes. No other use may follow."""
        with suppress(TimeoutError):
            if self.refusal() is None:
                async with asyncio.timeout(_LAST_WRITES):
                    await self.writer.settled()
        self._logs.close()
        await self.writer.close()

    # ------------------------------------------------------------------ for the janitor

    async def read(self, work: Callable[[Connection], Result], /) -> Result:
        """Reads in a thread; see Database.read."""
        return await self._database.read(work)

    async def write(self, work: Callable[[Connection], Result], /) -> Result:
        """Writes with the next group; see GroupWriter.write."""
        return await self.writer.write(work)

    def count(self, connection: Connection, changes: Sequence[Counted], /) -> None:
        """Updates the counters for changed or deleted tasks, in a transaction."""
        self._committer.count(connection, changes)

    def forgotten(self, task_ids: Sequence[str], /) -> None:
        """These tasks were deleted."""
        for task_id in task_ids:
            self._ended.drop(task_id)

    # ------------------------------------------------------------------ reading

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        at_hand = self._ended.get(scope, task_id)
        if at_hand is not None:
            return at_hand
        lease = self.writer.leases.get(task_id)
        if lease is not None and lease.scope == scope and lease.pending and self.writer.refusal() is None:
            await lease.settled()
        found = await self._database.read(lambda connection: fetch(connection, scope, task_id))
        if found is None:
            return None
        if found.ended:
            # It is the body itself, unless an older version wrote the end without one.
            data = found.data or found.task.SerializeToString()
            self._ended.put(scope, task_id, data, found.version, found.last, found.written)
        holder = "" if found.holder == self._beside.me else found.holder
        return Stored(found.task, found.version, found.last, holder)

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        name = repr((*scope, query.context_id, int(query.state), query.since))
        after: tuple[int, str] | None = None
        if query.page_token:
            time, _, task_id = self._tokens.read(query.page_token, name).partition(" ")
            after = int(time), task_id
        page = await self._database.read(lambda connection: listing(connection, scope, query, after))
        token = self._tokens.issue(f"{page.end[0]} {page.end[1]}", name) if page.more else ""
        return TaskPage(page.tasks, token, page.total, page.left_out)

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        return await self._database.read(lambda connection: as_of(connection, scope, task_id, sequence))

    def subscribe(self, task_id: str, after: int, /) -> SqlSubscription:
        return self._logs.subscribe(task_id, after)

    def end(self, task_id: str, error: A2AError, /) -> None:
        self._logs.end(task_id, error)

    # ------------------------------------------------------------------ other replicas

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        found = await self._database.read(lambda connection: orphaned(connection, limit))
        if found:
            return found
        # A caller whose `open` timed out does not know that the lease was acquired.
        known = set(self.writer.leases)
        mine = await self._database.read(lambda connection: at_work(connection, self._beside.me))
        return [one for one in mine if one[1] not in known and one[1] not in self.writer.leases][:limit]

    def on_orphans(self, callback: Callable[[], None], /) -> None:
        self._beside.on_death(callback)

    def written_here(self, task_id: str, /) -> bool:
        """See ClusterListener."""
        return self._last_written(task_id) is not None

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool, /) -> None:
        """See ClusterListener."""
        self._logs.heard(task_id, first, data, ended)

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        """See ClusterListener."""
        return await self._database.read(lambda connection: positions(connection, task_ids))

    def woken(self, task_ids: Sequence[str], /) -> None:
        """See ClusterListener."""
        self._logs.woken(task_ids)

    def unreachable(self) -> None:
        """See ClusterListener: `refusal` has to know it before the next write."""
        self.writer.probe()

    def outbox_changed(self) -> None:
        """The outbox may have new entries."""
        self._sql_outbox.outbox_changed()

    def let_go(self) -> None:
        """All leases are lost: this replica was declared dead."""
        self.writer.lose_all()
        self._logs.woken(None)

    # ------------------------------------------------------------------ after a commit

    def _last_written(self, task_id: str) -> int | None:
        lease = self.writer.leases.get(task_id)
        return None if lease is None else lease.last

    def _committed(self, group: Group) -> None:
        self._logs.add(group.changes)
        # Notifications about them were ignored while they were held here.
        self._logs.woken([change.lease.task_id for change in (*group.lost, *group.refused)])
        now = time.time()
        for change in group.changes:
            if change.ended and change.body is not None:
                lease = change.lease
                self._ended.put(lease.scope, lease.task_id, change.body, change.version, change.last, now)
        if self.remote is not None:
            self._beside.committed(
                [
                    Committed(
                        change.lease.task_id,
                        change.version,
                        change.last - len(change.data) + 1,
                        change.data,
                        change.ended,
                        not change.holder or change.lease.lost,
                    )
                    for change in (*group.changes, *group.lost)
                ],
                deliveries=group.deliveries > 0,
            )
        if group.deliveries:
            self._sql_outbox.outbox_changed()
