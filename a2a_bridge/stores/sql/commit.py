"""One transaction per group, made by the writer's thread. The engine decides about time and content.

Rules:
1. A group is committed whole or not at all. If another process has written one of its tasks, the group is
   rolled back, that task is removed, and the rest is tried again.
2. If the connection breaks during the commit, the outcome is in doubt. Before the next attempt the versions
   of the group's tasks decide it. If other processes have written all of these tasks since, PostgreSQL is
   asked for the status of the transaction id. That alone is not enough: after a crash PostgreSQL may give the
   same id to another transaction.
3. Jobs of other modules run in savepoints of the transaction and must be idempotent. A group of jobs alone is
   repeated after a doubt: it has no task versions, and a transaction id is no proof (rule 2).
4. Transactions of several replicas lock rows in one order, so that they do not deadlock: rows of `tasks` by
   id, then counters by their key, then the rows of the jobs, by the order that each job states. If PostgreSQL
   finds a deadlock all the same, the group is tried again at once.
5. No lock of another session holds a group up for long. Changes that acquire a task skip locked rows. If
   anything else has waited for the limit (`cluster.session`), the group is tried again without patience:
   tasks with locked rows are lost, waiting jobs get UNAVAILABLE, and counters are of another stripe.
6. On PostgreSQL, a process that was declared dead creates no task and acquires no lease: others may have
   executed the call for which it does so. The changes of a group are of one process, under one name.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, NestedTransaction, Transaction, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from a2a_bridge.cluster.session import session_name
from a2a_bridge.stores.ports import unavailable
from a2a_bridge.stores.records import TaskChange, TaskRow
from a2a_bridge.stores.row_format import storable
from a2a_bridge.stores.sql.database import Database, is_database_error, limit
from a2a_bridge.stores.sql.push import post_events
from a2a_bridge.stores.sql.schema import TooLargeError, bodies, insert, joined, segments, task_counts, tasks
from a2a_bridge.stores.sql.tasks import Counted, deltas

log = logging.getLogger("a2a_bridge.store")

#: attempts for one group; more are a defect of this module
_TRIES = 10

#: errors about the given values, not about the state of the database
_REJECTIONS = {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}

#: how long an attempt without patience waits for a lock
_BRIEFLY = "SET LOCAL lock_timeout = '50ms'"
_NUMBER = "pg_current_xact_id()"
_ALIVE = "SELECT 1 FROM replicas WHERE id = %s"
_SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :process AND backend_start = :began"
)
#: the server was replaced by a server that has not replicated that far
_OUTCOME = text(
    f"SELECT CASE WHEN CAST(:number AS xid8) < {_NUMBER}"
    " THEN pg_xact_status(CAST(:number AS xid8)) ELSE 'aborted' END"
)


@dataclass(slots=True, eq=False)
class SqlJob:
    """Work in the transaction that is no change of a task. Afterwards either result or error is set."""

    work: Callable[[Connection], Any]
    #: the table and key of the row that it locks; jobs run in this order
    order: tuple[str, ...] = ()
    result: Any = None
    error: Exception | None = None


class ServerSession(NamedTuple):
    """Identifies a connection in PostgreSQL."""

    process: int
    began: datetime


@dataclass(slots=True, eq=False)
class SqlGroup:
    """The content of one transaction."""

    changes: list[TaskChange]
    jobs: list[SqlJob]
    #: changes of tasks that another process owns
    lost: list[TaskChange] = field(default_factory=list)
    #: changes that the database will never accept
    rejected: list[TaskChange] = field(default_factory=list)
    #: True if the outcome of a commit is in doubt
    in_doubt: bool = False
    #: False after an attempt has waited too long for a lock
    patient: bool = True
    #: number of notifications that were added
    deliveries: int = 0
    #: the connection of the last attempt, on PostgreSQL
    session: ServerSession | None = None
    #: the transaction id of the last attempt, on PostgreSQL
    number: str | None = None


class Committer:
    """The writing connection. Not for concurrent use. me: the present name of this replica. stripe: which of
    the rows of each counter belong to it. Any number is correct; different ones keep replicas from waiting
    for each other.
    """

    def __init__(self, database: Database, me: Callable[[], str], stripe: Callable[[], int]) -> None:
        self._database = database
        self._me = me
        self._stripe = stripe
        #: added to the stripe: a session that is suspended may hold the rows of the present stripe
        self._shift = 0
        #: the name of the replica that the session has
        self._named = ""
        self._connection: Connection | None = None
        self._session: ServerSession | None = None

    def perform(self, group: SqlGroup) -> None:
        """Writes a group durably. Raises errors of the database; then the group may be performed again."""
        try:
            transaction = self.prepare(group)
            if transaction is not None:
                self._database.check_place()
                self.commit(group, transaction)
        except BaseException:
            self.close()
            raise

    def prepare(self, group: SqlGroup) -> Transaction | None:
        """Everything but the commit. Returns the transaction to commit; None if that has happened already."""
        connection = self._open()
        self._end(connection, group.session)
        if group.in_doubt and self._is_committed(connection, group):
            log.warning("an in-doubt commit was found committed")
            group.in_doubt = False
            return None
        group.in_doubt = False
        for _ in range(_TRIES):
            rejected: Exception | None = None
            transaction = connection.begin()
            try:
                if self._execute(connection, group):
                    return transaction
            except Exception as error:
                waited = _is_locked(error) and group.patient
                if not (_poison(error) or _is_deadlock(error) or waited):
                    raise
                rejected = error
            transaction.rollback()
            if rejected is not None and _is_locked(rejected):
                log.info("a group of writes has waited for a lock, and is retried without what is locked")
                group.patient = False
                self._shift += 1
                continue
            if rejected is not None and _is_deadlock(rejected):
                log.info("a group of writes was in a deadlock and is retried")
                continue
            if not self._remove_lost(connection, group) and rejected is not None:
                log.error("some changes of a group cannot be stored", exc_info=rejected)
                self._remove_unstorable(connection, group)
        raise RuntimeError("a group of writes does not come to an end")

    def commit(self, group: SqlGroup, transaction: Transaction) -> None:
        """Commits the result of `prepare`."""
        group.in_doubt = True
        transaction.commit()
        group.in_doubt = False

    def close(self) -> None:
        """Closes the connection, and rolls back uncommitted changes."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # Not back into the pool: its state is unknown.
                connection.invalidate()
                connection.close()
            except Exception as error:
                if not is_database_error(error):
                    raise
                log.debug("a broken connection could not be closed: %s", error)

    def count(self, connection: Connection, changes: Iterable[Counted]) -> None:
        """Updates the counters for changed or deleted tasks, in the given transaction."""
        self._insert_with(connection)(task_counts, self._counters(changes))

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect(writes=True)
            self._database.hasten(self._connection)
            self._named = ""
            if not self._database.sqlite:
                with self._connection.begin():
                    self._session = ServerSession(*self._connection.execute(_SESSION).one())
        me = self._me()
        if self._named != me:
            limit(self._connection, {"application_name": session_name(me)})
            self._named = me
        return self._connection

    def _execute(self, connection: Connection, group: SqlGroup) -> bool:
        group.session, group.number = self._session, None
        group.changes.sort(key=attrgetter("row.task_id"))
        if not group.patient:
            connection.exec_driver_sql(_BRIEFLY)
        if not self._database.sqlite:
            self._skip_locked(connection, group)
        if group.changes:
            if not self._write(connection, group):
                return False
            notified = [change for change in group.changes if change.notify and change.events]
            group.deliveries = 0
            if notified:
                group.deliveries = post_events(connection, notified, skip_locked=not group.patient)
        for job in sorted(group.jobs, key=attrgetter("order")):
            self._do(connection, job, patient=group.patient)
        return True

    def _skip_locked(self, connection: Connection, group: SqlGroup) -> None:
        """Locks the tasks that other sessions may have locked. Locked tasks count as lost (rule 5)."""
        asked = [one for one in group.changes if one.row.version > 1 and (one.acquires or not group.patient)]
        if not asked:
            return
        free = _written(connection, asked, lock=True)
        locked = {one.row.task_id for one in asked} - free.keys()
        if locked:
            group.lost += [one for one in group.changes if one.row.task_id in locked]
            group.changes = [one for one in group.changes if one.row.task_id not in locked]

    def _write(self, connection: Connection, group: SqlGroup) -> bool:
        changes = group.changes
        opened = [one for one in changes if _is_lease_only(one)]
        if opened and len(_written(connection, opened)) < len(opened):
            return False  # the statement below would create these tasks
        rows = [_row(change.row) for change in changes]
        sqlite = self._database.sqlite
        times = [_times(one.row, sqlite=sqlite) for one in changes]
        never = None if sqlite else False
        whole = [
            (*row, *time, one.row.joined, one.row.joined_applied)
            for one, row, time in zip(changes, rows, times, strict=True)
        ]
        with_body = [
            (row, one.row) for row, one in zip(rows, changes, strict=True) if one.row.body is not None
        ]
        logged = [
            (row[0], *one, time[-1] if one is change.segments[-1] else never)
            for change, row, time in zip(changes, rows, times, strict=True)
            for one in change.segments
        ]
        messages = [
            (row[0], *one) for change, row in zip(changes, rows, strict=True) for one in change.joined
        ]
        write = self._insert_with(connection)
        with self._at_once(connection):
            alive = self._ask_alive(connection, changes)
            # A separate statement for the transaction id took a tenth of the time of a small group.
            guarded = write(tasks, whole, returning="" if self._database.sqlite else _NUMBER)
            write(bodies, [(one[0], row.body, row.checksum) for one, row in with_body])
            write(segments, logged)
            write(joined, messages)
            write(task_counts, self._counters(map(_count, changes)))
        if not self._database.sqlite and (row := guarded[0].fetchone()):
            group.number = row[0]
        if alive is not None and alive.fetchone() is None:
            return False
        changed: int = sum(cursor.rowcount for cursor in guarded)
        return changed == len(rows)

    def _ask_alive(self, connection: Connection, changes: Sequence[TaskChange]) -> Any:
        """The cursor of the question whether the process that begins with a task is alive; None if no process
        begins with one, or there is one process only.
        """
        if self._database.sqlite or not any(map(_begins, changes)):
            return None
        driver: Any = connection.connection.driver_connection
        return driver.execute(_ALIVE, (changes[0].by,))

    def _counters(self, changes: Iterable[Counted]) -> list[tuple[Any, ...]]:
        stripe = self._stripe() + self._shift
        return [(*key, stripe, number) for key, number in deltas(changes)]

    def _insert_with(self, connection: Connection) -> Callable[..., list[Any]]:
        driver = connection.connection.driver_connection
        if driver is None:
            raise RuntimeError("the connection is closed")
        return partial(insert, driver, "?" if self._database.sqlite else "%s")

    def _at_once(self, connection: Connection) -> AbstractContextManager[Any]:
        """Pipelines statements on PostgreSQL, without waiting for each response."""
        driver: Any = connection.connection.driver_connection
        return nullcontext() if self._database.sqlite else driver.pipeline()

    def _do(self, connection: Connection, job: SqlJob, *, patient: bool) -> None:
        point: NestedTransaction = connection.begin_nested()
        job.result = job.error = None
        try:
            job.result = job.work(connection)
            point.commit()
        except Exception as error:
            locked = _is_locked(error) and not patient
            if is_database_error(error) and not (_poison(error) or locked):
                raise
            point.rollback()
            self._require_numbers(connection, error)
            job.error = unavailable() if locked else error

    def _is_committed(self, connection: Connection, group: SqlGroup) -> bool:
        if not group.changes:
            return False
        with connection.begin():
            found = _written(connection, group.changes)
        wanted = [change.row for change in group.changes]
        rows = [found.get(one.task_id, _NONE)[:2] for one in wanted]
        if any(row == (one.version, one.holder) for row, one in zip(rows, wanted, strict=True)):
            return True
        if any(version <= one.version for (version, _), one in zip(rows, wanted, strict=True)):
            return False
        outcome = self._outcome(connection, group.number)
        if outcome is not None:
            return outcome == "committed"
        # A later version is another process's, which can normally exist only after a release here.
        return not wanted[0].holder

    def _end(self, connection: Connection, session: ServerSession | None) -> None:
        """Makes sure that a broken connection no longer commits or locks. Raises until that is certain: its
        server may notice the disconnection only after hours.
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

    def _remove_lost(self, connection: Connection, group: SqlGroup) -> bool:
        """Removes the changes of tasks that another process has written. Returns True if there were any."""
        with connection.begin():
            found = _written(connection, group.changes)
            alive = self._ask_alive(connection, group.changes)
            dead = alive is not None and alive.fetchone() is None
        changes, group.changes, lost = group.changes, [], len(group.lost)
        for one in changes:
            fits = _fits(one.row, found.get(one.row.task_id, _NONE))
            (group.changes if fits and not (dead and _begins(one)) else group.lost).append(one)
        return len(group.lost) > lost

    def _remove_unstorable(self, connection: Connection, group: SqlGroup) -> None:
        """Removes changes that cannot be stored at all, by trying them one by one."""
        accepted: list[TaskChange] = []
        for change in group.changes:
            (accepted if self._is_storable(connection, change) else group.rejected).append(change)
        group.changes = accepted

    def _is_storable(self, connection: Connection, change: TaskChange) -> bool:
        # Twice: the server may have got numbers between a trial and the look at them.
        for _ in range(2):
            try:
                self._try(connection, change)
            except Exception as error:
                if not _poison(error):
                    raise
                if not _too_large(error):
                    return False
                with connection.begin():
                    self._require_numbers(connection, error)
            else:
                return True
        return False

    def _try(self, connection: Connection, change: TaskChange) -> None:
        trial = connection.begin()
        try:
            self._write(connection, SqlGroup([change], []))
        finally:
            trial.rollback()

    def _require_numbers(self, connection: Connection, error: Exception) -> None:
        """Raises the error if PostgreSQL lacks transaction ids: it reports "too large" for that, too."""
        if _too_large(error):
            connection.exec_driver_sql(f"SELECT {_NUMBER}")


def _row(row: TaskRow) -> tuple[Any, ...]:
    """The values of a row of `tasks`, without those of `_times` and the numbers of messages, which follow."""
    return (
        storable(row.task_id),
        storable(row.scope.tenant),
        storable(row.scope.owner),
        storable(row.place.context),
        row.place.state,
        row.place.time,
        row.version,
        row.last,
        row.applied,
        row.holder,
    )


def _times(row: TaskRow, *, sqlite: bool) -> tuple[Any, ...]:
    """The values of `written` and `ended`; PostgreSQL has the clock, and gets only whether the task ended."""
    if sqlite:
        return row.written, row.written if row.ended else None
    return (row.ended,)


def _count(change: TaskChange) -> Counted:
    scope = change.row.scope
    return Counted(storable(scope.tenant), storable(scope.owner), change.before, change.row.place)


class _Written(NamedTuple):
    """The state of the database that a change has to fit to."""

    version: int
    holder: str
    scope: tuple[str, str] | None


_NONE = _Written(0, "", None)


def _fits(row: TaskRow, written: _Written) -> bool:
    """True if a change follows the state of the database."""
    scope = storable(row.scope.tenant), storable(row.scope.owner)
    return written.version == row.version - 1 and written.scope in (None, scope)


def _is_lease_only(change: TaskChange) -> bool:
    """True if a change only acquires or releases the lease on a task."""
    return change.row.version > 1 and not (change.segments or change.joined) and change.row.body is None


def _begins(change: TaskChange) -> bool:
    """True if a change creates a task, or only acquires the lease on one."""
    return change.row.version == 1 or (_is_lease_only(change) and change.row.holder != "")


def _written(
    connection: Connection, changes: Sequence[TaskChange], *, lock: bool = False
) -> dict[str, _Written]:
    """The state of each changed task that exists. lock: locks them, but for rows locked by other sessions."""
    ids = {storable(change.row.task_id): change.row.task_id for change in changes}
    stored_ids = list(ids)
    found: dict[str, _Written] = {}
    for start in range(0, len(stored_ids), 500):
        query = select(tasks.c.id, tasks.c.version, tasks.c.holder, tasks.c.tenant, tasks.c.owner)
        some = query.where(tasks.c.id.in_(stored_ids[start : start + 500]))
        if lock:
            some = some.with_for_update(skip_locked=True)
        for name, version, holder, tenant, owner in connection.execute(some):
            found[ids[name]] = _Written(version, holder, (tenant, owner))
    return found


def _poison(error: BaseException) -> bool:
    """True if the database rejects the values, and always will."""
    # Some errors come from the drivers' cursors directly; they have the same names as SQLAlchemy's (PEP 249).
    names = {one.__name__ for one in type(error).__mro__}
    rejected = bool(names & _REJECTIONS) or isinstance(error, TooLargeError)
    return is_database_error(error) and (rejected or _too_large(error))


def _is_deadlock(error: BaseException) -> bool:
    """True if PostgreSQL has rolled back the transaction because of a deadlock."""
    return _sqlstate(error) == "40P01"


def _is_locked(error: BaseException) -> bool:
    """True if a statement has waited too long for a lock of another session of PostgreSQL."""
    return _sqlstate(error) == "55P03"


def _too_large(error: BaseException) -> bool:
    """True if PostgreSQL reports that its limits are exceeded. psycopg classes that as an outage."""
    return _sqlstate(error).startswith("54")


def _sqlstate(error: BaseException) -> str:
    """The code of an error of PostgreSQL; empty for others."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return getattr(origin, "sqlstate", None) or ""
