"""The driver of SQLite and PostgreSQL: reads in threads, writes groups in a thread of their own.

Rules:
1. Errors of the database are OSErrors to the engine, with a text that may be logged.
2. A group that is written again after a doubtful commit counts what that commit has stored.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, select, true

from a2a_bridge.cluster.cluster import Cluster
from a2a_bridge.cluster.tails import Committed
from a2a_bridge.core.errors import internal_error
from a2a_bridge.stores.lease import finish
from a2a_bridge.stores.ports import Scope, TaskQuery
from a2a_bridge.stores.records import CONFLICT, Found, Position, SentChange, SentRow, TaskChange, TaskRow
from a2a_bridge.stores.row_format import Segment, original, storable
from a2a_bridge.stores.sql import tasks as reading
from a2a_bridge.stores.sql.commit import Committer, SqlGroup, SqlJob
from a2a_bridge.stores.sql.database import Database, build_insert, cause, is_database_error, present
from a2a_bridge.stores.sql.expiry import Expirer
from a2a_bridge.stores.sql.schema import replicas, sends

log = logging.getLogger("a2a_bridge.store")

#: seconds for the group that is being written when the store is closed
_LAST_GROUP = 10.0


class _Writing(NamedTuple):
    """A group, what it was made of, and who waits for it."""

    changes: Sequence[Any]
    group: SqlGroup
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class SqlRecords:
    """Implements Records. me: the name of this process in `replicas`; empty on SQLite, where that table has
    no rows. stripe: of counters, see Committer.
    """

    def __init__(
        self, database: Database, me: Callable[[], str] = lambda: "", stripe: Callable[[], int] = lambda: 0
    ) -> None:
        self.keeps_joined = True
        self._database = database
        self._me = me
        self.committer = Committer(database, me, stripe)
        self.delete_expired = Expirer(database, self.committer.count).delete
        #: called when a commit has added notifications
        self.on_deliveries: Callable[[], None] = lambda: None
        self._last: _Writing | None = None
        self._inbox: queue.SimpleQueue[_Writing | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="a2a store writer", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ reading

    async def read_tasks(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[TaskRow | None]:
        me = self._me()
        return await self._database.read(
            lambda connection: reading.task_rows(connection, tasks, me), snapshot=False
        )

    async def read_events(
        self, task_id: str, after: int, size: int, /
    ) -> tuple[Position | None, Sequence[Segment]]:
        return await self._database.read(lambda connection: reading.stretch(connection, task_id, after, size))

    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None, /) -> Found:
        return await self._database.read(lambda connection: reading.page(connection, scope, query, after))

    async def held(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        return await self._database.read(
            lambda connection: reading.list_orphans(connection, limit), snapshot=False
        )

    async def read_sent(self, scope: Scope, message_id: str, /) -> SentRow | None:
        me = self._me()
        return await self._database.read(
            lambda connection: _sent(connection, scope, message_id, me), snapshot=False
        )

    # ------------------------------------------------------------------ writing

    async def write(self, changes: Sequence[Any], /) -> Sequence[Any]:
        """Also takes a SqlJob; its result is the result of its work."""
        last = self._last
        group = last.group if last is not None and last.changes is changes else _group(changes, self._me())
        loop = asyncio.get_running_loop()
        self._last = writing = _Writing(changes, group, loop, loop.create_future())
        self._inbox.put(writing)
        await writing.done
        self._last = None
        self._on_commit(group)
        if group.deliveries:
            self.on_deliveries()
        plain = not (group.jobs or group.lost or group.rejected)
        return [None] * len(changes) if plain else _results(changes, group)

    async def close(self) -> None:
        """Ends the thread after its present group, for a limited time."""
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join, _LAST_GROUP)
        if self._thread.is_alive():
            log.error("the store does not answer; the last changes may be lost")

    def _on_commit(self, group: SqlGroup) -> None:
        """Publishes a commit to the other processes. SQLite has none."""

    def _work(self) -> None:
        while (writing := self._inbox.get()) is not None:
            error: Exception | None = None
            try:
                self.committer.perform(writing.group)
            except Exception as caught:  # noqa: BLE001  the engine logs it
                # A new error: the traceback of the old one keeps the cursors, and with them SQLite's lock.
                error = OSError(cause(caught)) if is_database_error(caught) else caught
            writing.loop.call_soon_threadsafe(finish, writing.done, error)
            del writing, error  # until the next group these may be the only references to their content
        self.committer.close()


class SharedSqlRecords(SqlRecords):
    """Implements SharedRecords. beside: the other replicas."""

    def __init__(self, database: Database, beside: Cluster) -> None:
        super().__init__(database, lambda: beside.me, lambda: beside.stripe)
        self._beside = beside
        self.remote = beside
        self.on_orphans = beside.on_death
        self.follow = beside.follow
        self.unfollow = beside.unfollow

    @property
    def me(self) -> str:
        return self._beside.me

    async def held(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        """The orphans, and if they are few the tasks that this replica holds."""
        found = await super().held(limit)
        if len(found) >= limit:
            return found
        me = self.me
        own = await self._database.read(lambda connection: reading.list_held(connection, me), snapshot=False)
        return list(dict.fromkeys([*found, *own]))  # both, if it was declared dead and does not know

    def _on_commit(self, group: SqlGroup) -> None:
        commits = [*map(_commit, group.changes), *(_commit(one, lost=True) for one in group.lost)]
        self._beside.publish(commits, deliveries=group.deliveries > 0)


def _group(changes: Sequence[Any], me: str) -> SqlGroup:
    tasks: list[TaskChange] = []
    jobs: list[SqlJob] = []
    for change in changes:
        if isinstance(change, TaskChange):
            tasks.append(change)
        elif isinstance(change, SentChange):
            scope, message_id, *_ = change
            # The position of the row in the locking order of groups.
            jobs.append(SqlJob(_Sending(change, me), order=("sends", *scope, message_id)))
        else:
            jobs.append(change)
    return SqlGroup(tasks, jobs)


def _commit(change: TaskChange, *, lost: bool = False) -> Committed:
    """The part of a change that others have to know. lost: True if it was not stored."""
    row = change.row
    events = () if lost else change.events
    first = row.last - len(events) + 1
    return Committed(row.task_id, row.version, first, events, row.ended and not lost, lost or not row.holder)


def _results(changes: Sequence[Any], group: SqlGroup) -> list[Any]:
    gone: dict[int, Any] = {id(change): CONFLICT for change in group.lost}
    gone |= {id(change): internal_error() for change in group.rejected}
    jobs = iter(group.jobs)
    found: list[Any] = []
    for change in changes:
        if isinstance(change, TaskChange):
            found.append(gone.get(id(change)) if gone else None)
            continue
        job = next(jobs)
        error = job.error
        if error is not None and is_database_error(error):
            log.error("a change cannot be stored: %s", cause(error))
            error = internal_error()
        found.append(job.result if error is None else error)
    return found


class _Sending:
    """The work of a SentChange. Idempotent: an insertion that an earlier attempt made counts as made."""

    def __init__(self, change: SentChange, me: str) -> None:
        self._change = change
        self._me = me
        self._inserted = False

    def __call__(self, connection: Connection) -> Any:
        scope, message_id, before, after = self._change
        mine = _of_message(scope, message_id)
        if after is None:
            # Another replica has it if this replica was taken for dead.
            own = sends.c.holder == self._me if self._me else true()
            connection.execute(delete(sends).where(mine, own))
            return None
        if before is not None:
            same = (
                sends.c.task == storable(before.task_id),
                sends.c.digest == before.digest,
                sends.c.answer == before.answer,
                # Another live replica may have taken the message over: then only the holder differs.
                sends.c.holder.not_in(select(replicas.c.id).where(replicas.c.id != self._me)),
            )
            # Only this row: another replica may have replaced it since it was read.
            connection.execute(delete(sends).where(mine, *same))
        putting = build_insert(connection, sends).values(
            tenant=storable(scope.tenant),
            owner=storable(scope.owner),
            message=storable(message_id),
            digest=after.digest,
            task=storable(after.task_id),
            answer=after.answer,
            holder=after.holder,
            created=present(connection),
            checksum=after.checksum,
        )
        if connection.execute(putting.on_conflict_do_nothing().returning(sends.c.message)).first():
            self._inserted = True
            return None
        if self._inserted:
            there = select(sends.c.task, sends.c.digest, sends.c.answer, sends.c.holder).where(mine)
            wanted = storable(after.task_id), after.digest, after.answer, after.holder
            if connection.execute(there).one_or_none() == wanted:
                return None  # by a commit that was in doubt
        return CONFLICT


def _of_message(scope: Scope, message_id: str) -> ColumnElement[bool]:
    return and_(
        sends.c.tenant == storable(scope.tenant),
        sends.c.owner == storable(scope.owner),
        sends.c.message == storable(message_id),
    )


def _sent(connection: Connection, scope: Scope, message_id: str, me: str) -> SentRow | None:
    query = select(sends, replicas.c.id.label("alive")).outerjoin(replicas, replicas.c.id == sends.c.holder)
    row = connection.execute(query.where(_of_message(scope, message_id))).one_or_none()
    if row is None:
        return None
    holder = row.alive if row.alive and row.alive != me else ""
    return SentRow(row.digest, original(row.task), row.answer, holder, row.checksum)
