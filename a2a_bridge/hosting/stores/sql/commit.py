"""One transaction per group, as the writer's thread makes it. When, and of what, is the business of `writer`.

Rules:
1. All of a group is committed, or nothing. Where a task was written by somebody else meanwhile, the group is undone,
   that task is taken out, and the rest is tried again.
2. When the connection breaks during the commit nobody knows whether it took place. Before the group is tried again
   one looks at one of its tasks: its version tells.
3. Jobs of others share the transaction, each in a savepoint. They may be done twice, so they must not mind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection, NestedTransaction, Transaction, select
from sqlalchemy.exc import DataError, IntegrityError, NotSupportedError, ProgrammingError

from a2a_bridge.hosting.stores.sql.counts import Counted, deltas
from a2a_bridge.hosting.stores.sql.database import Database, failed
from a2a_bridge.hosting.stores.sql.hold import Change
from a2a_bridge.hosting.stores.sql.push import Mail
from a2a_bridge.hosting.stores.sql.schema import bodies, counts, segments, tasks
from a2a_bridge.hosting.stores.sql.statements import insert

log = logging.getLogger("a2a_bridge.store")

#: how often a group may be taken apart before it is a mistake of this module
_TRIES = 10


#: puts mail into the outbox, in a transaction of ours; how many notifications that are
Post = Callable[[Connection, Sequence[Mail]], int]


class Announcing(Protocol):
    """Other replicas, as far as a transaction needs them. me: this one at present."""

    @property
    def me(self) -> str: ...

    def announce(self, connection: Connection, task_ids: Sequence[str], /, *, mail: bool = False) -> None:
        """Tells the others, with this transaction, which tasks have new events, and whether the outbox has."""
        ...


@dataclass(slots=True, eq=False)
class Job:
    """Something of others to be done in a transaction. Either result or error is set when it was done."""

    work: Callable[[Connection], Any]
    answer: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class Group:
    """What one transaction writes. lost: what turned out to be somebody else's. doubtful: whether it may have been
    committed although that was not said. mail: how many notifications were put in.
    """

    changes: list[Change]
    jobs: list[Job]
    lost: list[Change] = field(default_factory=list)
    doubtful: bool = False
    mail: int = 0


class Committer:
    """The connection that writes. Not to be used by two at once.

    stripe: which of the rows of each counter is ours.
    """

    def __init__(self, database: Database, beside: Announcing, post: Post, stripe: int) -> None:
        self._database = database
        self._beside = beside
        self._post = post
        self._stripe = stripe
        self._mark = "?" if database.sqlite else "%s"
        self._connection: Connection | None = None
        self._transaction: Transaction | None = None

    def perform(self, group: Group) -> None:
        """Writes a group durably. Raises what the database raises; it may then be performed again."""
        if self.prepare(group):
            self.commit(group)

    def prepare(self, group: Group) -> bool:
        """Everything but the commit. Whether one is needed."""
        try:
            connection = self._open()
            if group.doubtful and self._is_committed(connection, group):
                log.warning("a commit that was in doubt has taken place")
                group.doubtful = False
                return False
            group.doubtful = False
            for _ in range(_TRIES):
                self._transaction = connection.begin()
                if self._execute(connection, group):
                    return True
                self._transaction.rollback()
                self._transaction = None
                self._weed(connection, group)
            raise RuntimeError("a group of writes does not come to an end")  # noqa: TRY301
        except BaseException:
            self.close()
            raise

    @property
    def prepared(self) -> bool:
        """Whether a commit is due."""
        return self._transaction is not None

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
        cursor = connection.connection.cursor()
        try:
            self._count(cursor, changes)
        finally:
            cursor.close()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect(writes=True)
        return self._connection

    def _execute(self, connection: Connection, group: Group) -> bool:
        changes = group.changes
        if changes:
            cursor = connection.connection.cursor()
            try:
                try:
                    if not self._write(cursor, changes):
                        return False
                except Exception as error:
                    if not _poison(error):
                        raise
                    log.exception("something of a group of writes cannot be stored")
                    if len(changes) == 1:
                        group.lost += changes
                        group.changes = []
                        return False
                    self._part(connection, group)
                    return False
            finally:
                cursor.close()
            mail = [
                Mail(
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

    def _write(self, cursor: Any, changes: Sequence[Change]) -> bool:
        mark = self._mark
        now = time.time()
        rows = [_row(change, now) for change in changes]
        if insert(cursor, tasks, rows, mark) != len(rows):
            return False
        insert(
            cursor, bodies, [(one.hold.task_id, one.body) for one in changes if one.body is not None], mark
        )
        insert(
            cursor,
            segments,
            [(one.hold.task_id, *segment) for one in changes for segment in one.segments],
            mark,
        )
        self._count(
            cursor, (Counted(one.hold.tenant, one.hold.owner, one.before, one.place) for one in changes)
        )
        return True

    def _count(self, cursor: Any, changes: Iterable[Counted]) -> None:
        rows = [(*key, self._stripe, number) for key, number in deltas(changes)]
        insert(cursor, counts, rows, self._mark)

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
            job.error = error

    def _is_committed(self, connection: Connection, group: Group) -> bool:
        for change in group.changes:
            query = select(tasks.c.version, tasks.c.holder).where(tasks.c.id == change.hold.task_id)
            with connection.begin():
                row = connection.execute(query).one_or_none()
            # Later versions are somebody else's, who can only have come after a task that we had let go of.
            return row is not None and (
                (row.version == change.version and row.holder == change.holder)
                or (row.version > change.version and not change.holder)
            )
        return False

    def _weed(self, connection: Connection, group: Group) -> None:
        """Takes out what was written by somebody else."""
        with connection.begin():
            found = dict(_versions(connection, [change.hold.task_id for change in group.changes]))
        kept: list[Change] = []
        for change in group.changes:
            fits = found.get(change.hold.task_id, 0) == change.version - 1
            (kept if fits else group.lost).append(change)
        group.changes = kept

    def _part(self, connection: Connection, group: Group) -> None:
        """Takes out what cannot be stored at all, by trying one after another."""
        transaction = self._transaction
        if transaction is not None:
            transaction.rollback()
        kept: list[Change] = []
        for change in group.changes:
            with connection.begin() as trial:
                cursor = connection.connection.cursor()
                try:
                    self._write(cursor, [change])
                    kept.append(change)
                except Exception as error:
                    if not _poison(error):
                        raise
                    group.lost.append(change)
                finally:
                    cursor.close()
                    trial.rollback()
        group.changes = kept
        self._transaction = connection.begin()


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


def _versions(connection: Connection, task_ids: Sequence[str]) -> Iterable[tuple[str, int]]:
    for start in range(0, len(task_ids), 500):
        some = task_ids[start : start + 500]
        for row in connection.execute(select(tasks.c.id, tasks.c.version).where(tasks.c.id.in_(some))):
            yield row.id, row.version


def _poison(error: BaseException) -> bool:
    """Whether the database refuses what it was given, and will again."""
    names = {one.__name__ for one in type(error).__mro__}
    if isinstance(error, IntegrityError | DataError | ProgrammingError | NotSupportedError):
        return True
    # Those of the drivers, whose cursors are used directly, have the same names (PEP 249).
    return failed(error) and bool(
        names & {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}
    )
