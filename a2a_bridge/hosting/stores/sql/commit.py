"""One transaction per group, made by the writer's thread. `writer` decides about time and content.

Rules:
1. A group is committed whole or not at all. If another process has written one of its tasks, the group is
   rolled back, that task is removed, and the rest is tried again.
2. If the connection breaks during the commit, the outcome is in doubt. Before the next attempt the versions
   of the group's tasks decide it. If other processes have written all of them since, PostgreSQL is asked for
   the status of the transaction id. That alone is not enough: after a crash PostgreSQL may give the same id
   to another transaction.
3. Jobs of other modules run in savepoints of the transaction and must be idempotent. A group of jobs alone is
   repeated after a doubt: it has no task versions, and a transaction id is no proof (rule 2).
4. Transactions of several replicas lock rows in one order, so that they do not deadlock: rows of `tasks` by
   id, then counters by their key, then the rows of the jobs, by the order that each job states. If PostgreSQL
   finds a deadlock all the same, the group is tried again at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, NestedTransaction, Transaction, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from a2a_bridge.hosting.stores.sql.checksums import checksum_of
from a2a_bridge.hosting.stores.sql.counts import Counted, deltas
from a2a_bridge.hosting.stores.sql.database import Database, failed
from a2a_bridge.hosting.stores.sql.push import NewDelivery
from a2a_bridge.hosting.stores.sql.schema import bodies, counts, segments, tasks
from a2a_bridge.hosting.stores.sql.statements import insert
from a2a_bridge.hosting.stores.sql.task_lease import Change, TaskLease

log = logging.getLogger("a2a_bridge.store")

#: attempts for one group; more are a defect of this module
_TRIES = 10

#: errors about the given values, not about the state of the database
_REFUSALS = {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}

_NUMBER = "pg_current_xact_id()"
_SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :process AND backend_start = :began"
)
#: the server was replaced by one that has not replicated that far
_OUTCOME = text(
    f"SELECT CASE WHEN CAST(:number AS xid8) < {_NUMBER}"
    " THEN pg_xact_status(CAST(:number AS xid8)) ELSE 'aborted' END"
)

#: puts events into the outbox within the transaction; returns the number of notifications
Post = Callable[[Connection, Sequence[NewDelivery]], int]


@dataclass(slots=True, eq=False)
class Job:
    """Work of another module in a transaction. Afterwards either result or error is set."""

    work: Callable[[Connection], Any]
    answer: asyncio.Future[Any]
    #: the table and key of the row that it locks; jobs run in this order
    order: tuple[str, ...] = ()
    #: the id of the task that it changes, as in the row; empty for none
    task_id: str = ""
    result: Any = None
    error: Exception | None = None


class Session(NamedTuple):
    """Identifies a connection in PostgreSQL."""

    process: int
    began: datetime


@dataclass(slots=True, eq=False)
class Group:
    """The content of one transaction."""

    changes: list[Change]
    jobs: list[Job]
    #: changes of tasks that another process owns
    lost: list[Change] = field(default_factory=list)
    #: changes that the database will never accept
    refused: list[Change] = field(default_factory=list)
    #: True if the outcome of a commit is in doubt
    in_doubt: bool = False
    #: number of notifications that were added
    deliveries: int = 0
    #: the connection of the last attempt, on PostgreSQL
    session: Session | None = None
    #: the transaction id of the last attempt, on PostgreSQL
    number: str | None = None


class Committer:
    """The writing connection. Not for concurrent use.

    stripe: which of the rows of each counter belongs to this replica.
    """

    def __init__(self, database: Database, post: Post, stripe: int) -> None:
        self._database = database
        self._post = post
        self._stripe = stripe
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._transaction: Transaction | None = None

    def perform(self, group: Group) -> None:
        """Writes a group durably. Raises the errors of the database; then the group may be
        performed again.
        """
        if self.prepare(group):
            try:
                self._database.check_place()
            except BaseException:
                self.close()
                raise
            self.commit(group)

    def prepare(self, group: Group) -> bool:
        """Everything but the commit. Returns True if a commit is needed."""
        try:
            connection = self._open()
            self._end(connection, group.session)
            if group.in_doubt and self._is_committed(connection, group):
                log.warning("an in-doubt commit was found committed")
                group.in_doubt = False
                return False
            group.in_doubt = False
            for _ in range(_TRIES):
                refused: Exception | None = None
                self._transaction = connection.begin()
                try:
                    if self._execute(connection, group):
                        return True
                except Exception as error:
                    if not (_poison(error) or _deadlocked(error)):
                        raise
                    refused = error
                self._transaction.rollback()
                self._transaction = None
                if refused is not None and _deadlocked(refused):
                    log.info("a group of writes was in a deadlock and is retried")
                    continue
                if not self._remove_lost(connection, group) and refused is not None:
                    log.error("some changes of a group cannot be stored", exc_info=refused)
                    self._remove_unstorable(connection, group)
            raise RuntimeError("a group of writes does not come to an end")  # noqa: TRY301
        except BaseException:
            self.close()
            raise

    def commit(self, group: Group) -> None:
        """Commits the result of `prepare`."""
        transaction = self._transaction
        if transaction is None:
            raise RuntimeError("there is nothing to commit")
        self._transaction = None
        group.in_doubt = True
        try:
            transaction.commit()
        except BaseException:
            self.close()
            raise
        group.in_doubt = False

    def close(self) -> None:
        """Closes the connection, and rolls back uncommitted changes."""
        connection, self._connection, self._transaction = self._connection, None, None
        if connection is not None:
            try:
                # Not back into the pool: its state is unknown.
                connection.invalidate()
                connection.close()
            except Exception as error:
                if not failed(error):
                    raise
                log.debug("a broken connection could not be closed: %s", error)

    def count(self, connection: Connection, changes: Iterable[Counted]) -> None:
        """Updates the counters for changed or deleted tasks, in the given transaction."""
        self._inserting(connection)(counts, self._counters(changes))

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect(writes=True)
            self._database.hasten(self._connection)
            if not self._database.sqlite:
                with self._connection.begin():
                    self._session = Session(*self._connection.execute(_SESSION).one())
        return self._connection

    def _execute(self, connection: Connection, group: Group) -> bool:
        changes = group.changes
        group.session, group.number = self._session, None
        changes.sort(key=_id_of)
        group.jobs.sort(key=_order_of)
        self._lock(connection, group)
        if changes:
            if not self._write(connection, group):
                return False
            deliveries = [
                NewDelivery(
                    change.lease.scope,
                    change.lease.task_id,
                    change.last - len(change.data) + 1,
                    list(change.data),
                )
                for change in changes
                if change.lease.push and change.data
            ]
            group.deliveries = self._post(connection, deliveries) if deliveries else 0
        for job in group.jobs:
            self._do(connection, job)
        return True

    def _lock(self, connection: Connection, group: Group) -> None:
        """Locks all tasks of a group whose jobs change some, in the order in which other groups
        write theirs.
        """
        wanted = {job.task_id for job in group.jobs if job.task_id}
        if self._database.sqlite or not wanted:
            return
        wanted.update(change.lease.task_id for change in group.changes)
        rows = select(tasks.c.id).where(tasks.c.id.in_(wanted)).order_by(tasks.c.id.collate("C"))
        connection.execute(rows.with_for_update()).all()

    def _write(self, connection: Connection, group: Group) -> bool:
        changes = group.changes
        now = time.time()
        rows = [_row(change, now) for change in changes]
        write = self._inserting(connection)
        with self._at_once(connection):
            # A separate statement for the transaction id took a tenth of the time of a small group.
            guarded = write(tasks, rows, returning="" if self._database.sqlite else _NUMBER)
            with_body = [(one.lease, one.body) for one in changes if one.body is not None]
            write(bodies, [(lease.task_id, body, _checksum(lease, body)) for lease, body in with_body])
            write(segments, [(one.lease.task_id, *segment) for one in changes for segment in one.segments])
            moves = (Counted(one.lease.tenant, one.lease.owner, one.before, one.place) for one in changes)
            write(counts, self._counters(moves))
        if not self._database.sqlite and (row := guarded[0].fetchone()):
            group.number = row[0]
        changed: int = sum(cursor.rowcount for cursor in guarded)
        return changed == len(rows)

    def _counters(self, changes: Iterable[Counted]) -> list[tuple[Any, ...]]:
        return [(*key, self._stripe, number) for key, number in deltas(changes)]

    def _inserting(self, connection: Connection) -> Callable[..., list[Any]]:
        driver = connection.connection.driver_connection
        if driver is None:
            raise RuntimeError("the connection is closed")
        return partial(insert, driver, "?" if self._database.sqlite else "%s")

    def _at_once(self, connection: Connection) -> AbstractContextManager[Any]:
        """Pipelines statements on PostgreSQL, without waiting for each answer."""
        driver: Any = connection.connection.driver_connection
        return nullcontext() if self._database.sqlite else driver.pipeline()

    def _do(self, connection: Connection, job: Job) -> None:
        point: NestedTransaction = connection.begin_nested()
        job.result = job.error = None
        try:
            job.result = job.work(connection)
            point.commit()
        except Exception as error:
            if failed(error) and not _poison(error):
                raise
            point.rollback()
            self._require_numbers(connection, error)
            job.error = error

    def _is_committed(self, connection: Connection, group: Group) -> bool:
        if not group.changes:
            return False
        with connection.begin():
            found = dict(_written(connection, [change.lease.task_id for change in group.changes]))
        rows = [found.get(change.lease.task_id, (0, "")) for change in group.changes]
        if any(row == (one.version, one.holder) for row, one in zip(rows, group.changes, strict=True)):
            return True
        if any(version <= one.version for (version, _), one in zip(rows, group.changes, strict=True)):
            return False
        outcome = self._outcome(connection, group.number)
        if outcome is not None:
            return outcome == "committed"
        # A later version is another process's, which can normally exist only after a release here.
        return not group.changes[0].holder

    def _end(self, connection: Connection, session: Session | None) -> None:
        """Makes sure that a broken connection no longer commits or locks. Raises until that is certain.

        Its server may notice the disconnection only after hours.
        """
        if session is None or session == self._session:
            return
        with connection.begin():
            if connection.execute(_END, session._asdict()).all():
                raise SQLAlchemyError("the server still has the connection that broke")

    def _outcome(self, connection: Connection, number: str | None) -> str | None:
        """The status of a transaction that is over; None if the database no longer knows it."""
        if number is None:
            return None
        with connection.begin():
            outcome: str | None = connection.scalar(_OUTCOME, {"number": number})
        return outcome

    def _remove_lost(self, connection: Connection, group: Group) -> bool:
        """Removes the changes of tasks that another process has written. Returns True if there were any."""
        with connection.begin():
            found = dict(_written(connection, [change.lease.task_id for change in group.changes]))
        versions = [found.get(one.lease.task_id, (0, ""))[0] for one in group.changes]
        pairs = list(zip(group.changes, versions, strict=True))
        lost = [one for one, version in pairs if version != one.version - 1]
        group.lost += lost
        group.changes = [one for one, version in pairs if version == one.version - 1]
        return bool(lost)

    def _remove_unstorable(self, connection: Connection, group: Group) -> None:
        """Removes changes that cannot be stored at all, by trying them one by one."""
        accepted: list[Change] = []
        for change in group.changes:
            try:
                self._try(connection, [change])
                accepted.append(change)
            except Exception as error:
                if not _poison(error):
                    raise
                with connection.begin():
                    self._require_numbers(connection, error)
                group.refused.append(change)
        group.changes = accepted

    def _try(self, connection: Connection, changes: list[Change]) -> None:
        trial = connection.begin()
        try:
            self._write(connection, Group(changes, []))
        finally:
            trial.rollback()

    def _require_numbers(self, connection: Connection, error: Exception) -> None:
        """A PostgreSQL that has run out of transaction ids also reports "too large", for any statement.

        Raises the error then.
        """
        if _too_large(error):
            connection.exec_driver_sql(f"SELECT {_NUMBER}")


def _id_of(change: Change) -> str:
    return change.lease.task_id


def _order_of(job: Job) -> tuple[str, ...]:
    return job.order


def _row(change: Change, now: float) -> tuple[Any, ...]:
    lease, place = change.lease, change.place
    return (
        lease.task_id,
        lease.tenant,
        lease.owner,
        place.context,
        place.state,
        place.time,
        change.version,
        change.last,
        change.applied,
        change.holder,
        now,
    )


def _checksum(lease: TaskLease, body: bytes) -> int:
    return checksum_of((lease.tenant, lease.owner, lease.task_id), body)


def _written(connection: Connection, task_ids: Sequence[str]) -> Iterable[tuple[str, tuple[int, str]]]:
    """Version and holder of those of the tasks that exist."""
    for start in range(0, len(task_ids), 500):
        some = task_ids[start : start + 500]
        query = select(tasks.c.id, tasks.c.version, tasks.c.holder).where(tasks.c.id.in_(some))
        for row in connection.execute(query):
            yield row.id, (row.version, row.holder)


def _poison(error: BaseException) -> bool:
    """True if the database refuses the values, and always will."""
    # Some errors come from the drivers' cursors directly; they have the same names as SQLAlchemy's (PEP 249).
    names = {one.__name__ for one in type(error).__mro__}
    return failed(error) and (bool(names & _REFUSALS) or _too_large(error))


def _deadlocked(error: BaseException) -> bool:
    """True if PostgreSQL has rolled back the transaction because of a deadlock."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return getattr(origin, "sqlstate", None) == "40P01"


def _too_large(error: BaseException) -> bool:
    """True if PostgreSQL reports that its limits are exceeded. psycopg classes that as an outage."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return (getattr(origin, "sqlstate", None) or "").startswith("54")
