"""Deletes expired data, and decides whether the clock of the rows is right enough to delete by it.

Expired data are logs of ended tasks, ids of sent messages, and, if configured, tasks.

Rules of deletions:
1. Small batches, one after another, as jobs of the writer, so that other writes do not wait long.
2. Each kind of data has an index by age: the cost of a round depends on the expired data only.
3. With several replicas, one deletes at a time: a batch has a lock until its commit, and a replica that finds
   the lock taken tries again later. Nothing waits for the lock in a transaction.
4. Ages are by the clock of the rows. After a jump of the clock a round deletes a share of the rows.

Rules of the clock:
1. Times in rows of PostgreSQL are times of its server, written and compared there. The clocks of replicas
   count for nothing. SQLite has the clock of its machine.
2. A replica whose clock differs by more than a minute from the server's deletes nothing: one of the two is
   wrong, and nobody knows which.
3. On SQLite, a clock that is a day after the newest row at the first look, or has moved a day since the look
   before, may have jumped. Then each round deletes a share of the rows only, until less than that share has
   expired.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from math import ceil, inf
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, delete, func, select, tuple_

from a2a_bridge.stores.records import Expiry, Place
from a2a_bridge.stores.sql.commit import SqlJob
from a2a_bridge.stores.sql.database import Database, build_insert, present
from a2a_bridge.stores.sql.push_configs import forget
from a2a_bridge.stores.sql.schema import bodies, joined, segments, sends, settings, task_counts, tasks
from a2a_bridge.stores.sql.tasks import Counted

log = logging.getLogger("a2a_bridge.store")


#: seconds by which the clock of a replica may differ from the clock of the server
_DIFFERENCE = 60.0
#: seconds of a jump
_JUMP = 24 * 3600.0
#: after a jump, at most one row of so many is deleted at a time
SHARE = 20
#: the row of `settings` that exists while a jump may be wrong
_JUMPED = "clock_jumped"

#: tasks, or messages, per batch
_BATCH = 200
#: seconds between attempts while another replica deletes: the first, doubled each time, and the longest
_SOON, _LATE = 0.05, 10.0
#: key of the advisory lock of deletions on PostgreSQL; an arbitrary number
_CLAIM = 4_120_717

#: updates the counters for changed or deleted tasks, in a transaction
Count = Callable[[Connection, Iterable[Counted]], None]
#: writes a job with the next group
Write = Callable[[SqlJob], Awaitable[Any]]


class ClockWatch:
    """Looks at the clock before each round of deletions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: time and monotonic time of the last look
        self._looked: tuple[float, float] | None = None

    async def agreed(self) -> float | None:
        """The time of the rows, in seconds since the epoch; None if it is in doubt. Raises UNAVAILABLE."""
        if self._database.sqlite:
            return time.time()
        server = await self._database.read(
            lambda connection: connection.execute(select(present(connection))).scalar_one()
        )
        ahead = time.time() - server
        if abs(ahead) <= _DIFFERENCE:
            return server
        side = "after" if ahead > 0 else "before"
        text = "this machine's clock is %.0f s %s that of the database: nothing is deleted until they agree"
        log.error(text, abs(ahead), side)
        return None

    async def may_have_jumped(self, write: Write) -> bool:
        """True if a round may delete a share of the rows only. Raises UNAVAILABLE."""
        if not self._database.sqlite:
            return False
        now, monotonic, before = time.time(), time.monotonic(), self._looked
        noted = await self._database.read(_is_noted)
        if before is not None:
            moved = now - before[0] - (monotonic - before[1])
        else:
            newest = await self._database.read(partial(_newest, after=now - _JUMP))
            moved = 0.0 if newest is None else now - newest
        if moved > _JUMP and not noted:
            text = (
                "the clock of this machine is %.1f days after the newest row: expired data is deleted slowly"
            )
            log.warning(text, moved / _JUMP)
            await write(SqlJob(_note))
            noted = True
        self._looked = now, monotonic
        return noted

    async def caught_up(self, write: Write) -> None:
        """Less than a share has expired: the time is believed."""
        await write(SqlJob(_forget))


def _newest(connection: Connection, after: float) -> float | None:
    """The time of the newest row, or of any that is newer than a time; None without rows."""
    found = [
        connection.scalar(select(one).where(one > 0).order_by(one.desc()).limit(1))
        for one in (tasks.c.ended, sends.c.created)
    ]
    if all(one is None or one < after for one in found):
        # Without an index: a process reads this once at most, in a store without recent use.
        found.append(connection.scalar(select(func.max(tasks.c.written))))
    return max((one for one in found if one is not None), default=None)


def _is_noted(connection: Connection) -> bool:
    """Whether a jump is noted."""
    return connection.scalar(select(settings.c.name).where(settings.c.name == _JUMPED)) is not None


def _note(connection: Connection) -> None:
    noted = build_insert(connection, settings).values(name=_JUMPED, value=b"1")
    connection.execute(noted.on_conflict_do_nothing())


def _forget(connection: Connection) -> None:
    connection.execute(delete(settings).where(settings.c.name == _JUMPED))


class _Kind(NamedTuple):
    """One kind of data in a round."""

    #: deletes at most so many rows that are older than a time; returns their number
    delete: Callable[[Connection, float, int], int]
    before: float
    #: the rows that the round may still delete
    left: float

    @property
    def batch(self) -> int:
        """The rows of the next batch."""
        return int(min(self.left, _BATCH))


class Expirer:
    """Deletes expired data of one database. count: updates the counters of deleted tasks."""

    def __init__(self, database: Database, count: Count) -> None:
        self._database = database
        self._count = count
        self._clock = ClockWatch(database)

    async def delete(self, expiry: Expiry, write: Write) -> None:
        """Deletes what has expired, or a share after a jump of the clock. Raises UNAVAILABLE."""
        now = await self._clock.agreed()
        if now is None:
            return
        jumped = await self._clock.may_have_jumped(write)
        most = await self._most(jumped, tasks)
        kinds = [
            _Kind(_delete_sends, now - expiry.sends, await self._most(jumped, sends)),
            _Kind(_delete_logs, now - expiry.events, most),
        ]
        if expiry.tasks is not None:
            kinds.append(_Kind(partial(_delete_tasks, count=self._count), now - expiry.tasks, most))
        whole, pause = True, _SOON
        while kinds:
            gone = await write(SqlJob(partial(_delete_batches, kinds=kinds)))
            if gone is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATE)
                continue
            pause = _SOON
            done = list(zip(kinds, gone, strict=True))
            kinds = [kind._replace(left=kind.left - number) for kind, number in done if number == kind.batch]
            whole = whole and all(kind.left > 0 for kind in kinds)
            kinds = [kind for kind in kinds if kind.left > 0]
        if jumped and whole:
            await self._clock.caught_up(write)

    async def _most(self, jumped: bool, table: Table) -> float:
        """How many rows a round may delete."""
        if not jumped:
            return inf
        number = select(func.count()).select_from(table)
        found = await self._database.read(lambda connection: connection.scalar(number) or 0)
        return ceil(max(found, 1) / SHARE)


def _delete_batches(connection: Connection, kinds: Sequence[_Kind]) -> list[int] | None:
    """Deletes a batch of each kind. Returns the numbers of rows; None if another replica is doing so."""
    claim = select(func.pg_try_advisory_xact_lock(_CLAIM))
    if connection.dialect.name != "sqlite" and not connection.scalar(claim):
        return None
    gone = [kind.delete(connection, kind.before, kind.batch) for kind in kinds]
    _empty_counters(connection)
    return gone


def _delete_sends(connection: Connection, before: float, most: int) -> int:
    key = tuple_(*sends.primary_key.columns)
    old = select(*sends.primary_key.columns).where(sends.c.created < before).order_by(sends.c.created)
    rows = connection.execute(old.limit(most).with_for_update(skip_locked=True)).all()
    if rows:
        connection.execute(delete(sends).where(key.in_([tuple(row) for row in rows])))
    return len(rows)


def _delete_tasks(connection: Connection, before: float, most: int, count: Count) -> int:
    old = select(tasks.c.id).where(tasks.c.ended < before).order_by(tasks.c.ended).limit(most)
    task_ids = list(connection.scalars(old.with_for_update(skip_locked=True)))
    if not task_ids:
        return 0
    query = delete(tasks).where(tasks.c.id.in_(task_ids))
    gone = connection.execute(
        query.returning(tasks.c.tenant, tasks.c.owner, tasks.c.context, tasks.c.state, tasks.c.time)
    ).all()
    connection.execute(delete(bodies).where(bodies.c.task.in_(task_ids)))
    for table in (segments, joined):
        connection.execute(delete(table).where(table.c.task.in_(task_ids)))
    count(
        connection,
        [Counted(one.tenant, one.owner, Place(one.context, one.state, one.time), None) for one in gone],
    )
    forget(connection, task_ids)
    return len(task_ids)


def _delete_logs(connection: Connection, before: float, most: int) -> int:
    old = select(segments.c.task).where(segments.c.ended < before).order_by(segments.c.ended).limit(most)
    due = list(connection.scalars(old))
    if not due:
        return 0
    free = select(tasks.c.id).where(tasks.c.id.in_(due)).with_for_update(skip_locked=True)
    task_ids = list(connection.scalars(free))
    for table in (segments, joined):
        connection.execute(delete(table).where(table.c.task.in_(task_ids)))
    return len(task_ids)


def _empty_counters(connection: Connection) -> None:
    key = tuple_(*task_counts.primary_key.columns)
    query = select(*task_counts.primary_key.columns).where(task_counts.c.number == 0)
    # A row that is being written will not stay empty.
    empty = [tuple(row) for row in connection.execute(query.with_for_update(skip_locked=True))]
    for start in range(0, len(empty), _BATCH):
        connection.execute(delete(task_counts).where(key.in_(empty[start : start + _BATCH])))
