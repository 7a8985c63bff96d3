"""One transaction per group, as the writer's thread makes it. When, and of what, is the business of `writer`.

Rules:
1. All of a group is committed, or nothing. Where a task was written by somebody else meanwhile, the group is
   undone, that task is taken out, and the rest is tried again.
2. When the connection breaks during the commit nobody knows whether it took place. Before the group is tried
   again its tasks are looked at: their versions tell. Where others have written them all since, PostgreSQL is
   asked for the transaction itself. It is not asked alone: after a crash it may give the same number to
   another transaction.
3. Jobs of others share the transaction, each in a savepoint. They may be done twice, so they must not mind. A
   group of nothing else is, after a doubt: nothing that it wrote is known here, and a number alone is no
   proof (rule 2).
4. Transactions of several replicas lock rows in one order, so that they do not deadlock: rows of `tasks` by
   id, then counters by their key, then what the jobs lock, by the order that each job states. Where
   PostgreSQL finds a deadlock all the same, the group is tried again at once.
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
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from sqlalchemy import Connection, NestedTransaction, Transaction, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from a2a_bridge.hosting.stores.sql.counts import Counted, deltas
from a2a_bridge.hosting.stores.sql.database import Database, failed
from a2a_bridge.hosting.stores.sql.push import NewDelivery
from a2a_bridge.hosting.stores.sql.schema import bodies, counts, segments, tasks
from a2a_bridge.hosting.stores.sql.statements import insert
from a2a_bridge.hosting.stores.sql.task_lease import Change

log = logging.getLogger("a2a_bridge.store")

#: how often a group may be taken apart before it is a mistake of this module
_TRIES = 10

#: errors about what a database is given, and not about its state
_REFUSALS = {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}

_NUMBER = "pg_current_xact_id()"
_SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :process AND backend_start = :began"
)
#: a server that has not got that far was put in the place of the one that had
_OUTCOME = text(
    f"SELECT CASE WHEN CAST(:number AS xid8) < {_NUMBER}"
    " THEN pg_xact_status(CAST(:number AS xid8)) ELSE 'aborted' END"
)

#: puts mail into the outbox, in a transaction of ours; how many notifications that are
Post = Callable[[Connection, Sequence[NewDelivery]], int]


class Announcer(Protocol):
    """Other replicas, as far as a transaction needs them. me: this one at present."""

    @property
    def me(self) -> str: ...

    def announce(self, connection: Connection, task_ids: Sequence[str], /, *, mail: bool = False) -> None:
        """Tells the others, with this transaction, which tasks have new events, and whether the outbox
        has.
        """
        ...


@dataclass(slots=True, eq=False)
class Job:
    """Something of others to be done in a transaction. Either result or error is set when it was done.

    order: the table and key of the row that it locks; jobs are done in this order. task_id: as it stands in
    the row, of the task that it changes; empty for none.
    """

    work: Callable[[Connection], Any]
    answer: asyncio.Future[Any]
    order: tuple[str, ...] = ()
    task_id: str = ""
    result: Any = None
    error: Exception | None = None


class Session(NamedTuple):
    """What PostgreSQL knows a connection by."""

    process: int
    began: datetime


@dataclass(slots=True, eq=False)
class Group:
    """What one transaction writes. lost: what turned out to be somebody else's. refused: what the database
    will never take. doubtful: whether it may have been committed although that was not said. mail: how many
    notifications were put in. session, number: where the last try was made, and of its transaction, on
    PostgreSQL.
    """

    changes: list[Change]
    jobs: list[Job]
    lost: list[Change] = field(default_factory=list)
    refused: list[Change] = field(default_factory=list)
    doubtful: bool = False
    mail: int = 0
    session: Session | None = None
    number: str | None = None


class Committer:
    """The connection that writes. Not to be used by two at once.

    stripe: which of the rows of each counter is ours.
    """

    def __init__(self, database: Database, beside: Announcer, post: Post, stripe: int) -> None:
        self._database = database
        self._beside = beside
        self._post = post
        self._stripe = stripe
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._transaction: Transaction | None = None

    def perform(self, group: Group) -> None:
        """Writes a group durably. Raises what the database raises; it may then be performed again."""
        if self.prepare(group):
            try:
                self._database.check_place()
            except BaseException:
                self.close()
                raise
            self.commit(group)

    def prepare(self, group: Group) -> bool:
        """Everything but the commit. Whether one is needed."""
        try:
            connection = self._open()
            self._end(connection, group.session)
            if group.doubtful and self._is_committed(connection, group):
                log.warning("an in-doubt commit was found committed")
                group.doubtful = False
                return False
            group.doubtful = False
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
                if not self._weed(connection, group) and refused is not None:
                    log.error("some changes of a group cannot be stored", exc_info=refused)
                    self._part(connection, group)
            raise RuntimeError("a group of writes does not come to an end")  # noqa: TRY301
        except BaseException:
            self.close()
            raise

    def commit(self, group: Group) -> None:
        """Ends what `prepare` began."""
        transaction = self._transaction
        if transaction is None:
            raise RuntimeError("there is nothing to commit")
        self._transaction = None
        group.doubtful = True
        try:
            transaction.commit()
        except BaseException:
            self.close()
            raise
        group.doubtful = False

    def close(self) -> None:
        """Gives the connection up, and undoes what was not committed."""
        connection, self._connection, self._transaction = self._connection, None, None
        if connection is not None:
            try:
                # Not back into the pool: nobody knows what state it is in.
                connection.invalidate()
                connection.close()
            except Exception as error:
                if not failed(error):
                    raise
                log.debug("a broken connection could not be closed: %s", error)

    def count(self, connection: Connection, changes: Iterable[Counted]) -> None:
        """Counts tasks that move or go, in somebody's transaction."""
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
            mail = [
                NewDelivery(
                    change.hold.scope,
                    change.hold.task_id,
                    change.last - len(change.data) + 1,
                    list(change.data),
                )
                for change in changes
                if change.hold.push and change.data
            ]
            group.mail = self._post(connection, mail) if mail else 0
            self._beside.announce(connection, [one.hold.task_id for one in changes], mail=group.mail > 0)
        for job in group.jobs:
            self._do(connection, job)
        return True

    def _lock(self, connection: Connection, group: Group) -> None:
        """Locks all tasks of a group whose jobs change some, in the order in which other groups write
        theirs.
        """
        wanted = {job.task_id for job in group.jobs if job.task_id}
        if self._database.sqlite or not wanted:
            return
        wanted.update(change.hold.task_id for change in group.changes)
        rows = select(tasks.c.id).where(tasks.c.id.in_(wanted)).order_by(tasks.c.id.collate("C"))
        connection.execute(rows.with_for_update()).all()

    def _write(self, connection: Connection, group: Group) -> bool:
        changes = group.changes
        now = time.time()
        rows = [_row(change, now) for change in changes]
        write = self._inserting(connection)
        with self._at_once(connection):
            # In a statement of its own the number took a tenth of the time that a small group takes.
            guarded = write(tasks, rows, returning="" if self._database.sqlite else _NUMBER)
            whole = [(one.hold.task_id, one.body) for one in changes if one.body is not None]
            write(bodies, [(task_id, body, crc32(body)) for task_id, body in whole])
            write(segments, [(one.hold.task_id, *segment) for one in changes for segment in one.segments])
            moves = (Counted(one.hold.tenant, one.hold.owner, one.before, one.place) for one in changes)
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
        """PostgreSQL is told several statements before it has answered the first."""
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
            found = dict(_written(connection, [change.hold.task_id for change in group.changes]))
        rows = [found.get(change.hold.task_id, (0, "")) for change in group.changes]
        if any(row == (one.version, one.holder) for row, one in zip(rows, group.changes, strict=True)):
            return True
        if any(version <= one.version for (version, _), one in zip(rows, group.changes, strict=True)):
            return False
        outcome = self._outcome(connection, group.number)
        if outcome is not None:
            return outcome == "committed"
        # Later versions are somebody else's, who can as a rule only have come after a task that we had let go
        # of.
        return not group.changes[0].holder

    def _end(self, connection: Connection, session: Session | None) -> None:
        """Sees to it that a connection that broke will not commit any more, and locks nothing. Raises until
        then.

        Its server may notice only after hours that nobody is there.
        """
        if session is None or session == self._session:
            return
        with connection.begin():
            if connection.execute(_END, session._asdict()).all():
                raise SQLAlchemyError("the server still has the connection that broke")

    def _outcome(self, connection: Connection, number: str | None) -> str | None:
        """What became of a transaction that is over. None where the database does not know any more."""
        if number is None:
            return None
        with connection.begin():
            outcome: str | None = connection.scalar(_OUTCOME, {"number": number})
        return outcome

    def _weed(self, connection: Connection, group: Group) -> bool:
        """Takes out what was written by somebody else. Whether there was any."""
        with connection.begin():
            found = dict(_written(connection, [change.hold.task_id for change in group.changes]))
        versions = [found.get(one.hold.task_id, (0, ""))[0] for one in group.changes]
        pairs = list(zip(group.changes, versions, strict=True))
        lost = [one for one, version in pairs if version != one.version - 1]
        group.lost += lost
        group.changes = [one for one, version in pairs if version == one.version - 1]
        return bool(lost)

    def _part(self, connection: Connection, group: Group) -> None:
        """Takes out what cannot be stored at all, by trying one after another."""
        kept: list[Change] = []
        for change in group.changes:
            try:
                self._try(connection, [change])
                kept.append(change)
            except Exception as error:
                if not _poison(error):
                    raise
                with connection.begin():
                    self._require_numbers(connection, error)
                group.refused.append(change)
        group.changes = kept

    def _try(self, connection: Connection, changes: list[Change]) -> None:
        trial = connection.begin()
        try:
            self._write(connection, Group(changes, []))
        finally:
            trial.rollback()

    def _require_numbers(self, connection: Connection, error: Exception) -> None:
        """PostgreSQL without numbers for transactions calls that too large as well, whatever it is given.

        Raises then.
        """
        if _too_large(error):
            connection.exec_driver_sql(f"SELECT {_NUMBER}")


def _id_of(change: Change) -> str:
    return change.hold.task_id


def _order_of(job: Job) -> tuple[str, ...]:
    return job.order


def _row(change: Change, now: float) -> tuple[Any, ...]:
    hold, place = change.hold, change.place
    return (
        hold.task_id,
        hold.tenant,
        hold.owner,
        place.context,
        place.state,
        place.time,
        change.version,
        change.last,
        change.applied,
        change.holder,
        now,
    )


def _written(connection: Connection, task_ids: Sequence[str]) -> Iterable[tuple[str, tuple[int, str]]]:
    """Which of these tasks there are, at which version, and whose."""
    for start in range(0, len(task_ids), 500):
        some = task_ids[start : start + 500]
        query = select(tasks.c.id, tasks.c.version, tasks.c.holder).where(tasks.c.id.in_(some))
        for row in connection.execute(query):
            yield row.id, (row.version, row.holder)


def _poison(error: BaseException) -> bool:
    """Whether the database refuses what it was given, and will again."""
    # The drivers' cursors are used directly, too; their errors have the same names as SQLAlchemy's (PEP 249).
    names = {one.__name__ for one in type(error).__mro__}
    return failed(error) and (bool(names & _REFUSALS) or _too_large(error))


def _deadlocked(error: BaseException) -> bool:
    """Whether PostgreSQL has undone the transaction, because it and another one waited for each other."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return getattr(origin, "sqlstate", None) == "40P01"


def _too_large(error: BaseException) -> bool:
    """Whether PostgreSQL says that something exceeds its limits. psycopg counts that among the outages."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return (getattr(origin, "sqlstate", None) or "").startswith("54")
