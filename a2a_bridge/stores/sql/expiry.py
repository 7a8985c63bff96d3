"""Deletes expired data, and decides whether the clock of the rows is right enough to delete by it.

Expired data are logs of ended tasks, ids of sent messages, and, if configured, tasks.

Rules of deletions:
1. Small batches, one after another, as jobs of the writer, so that other writes do not wait long.
2. Logs are found by walking along the log itself, from task to task: earlier deletions cost nothing.
3. With several replicas each does this. Two that delete the same rows delete them once.
4. Ages are by the clock of the rows. After a jump of the clock a round deletes a share of the rows.

Rules of the clock:
1. Times in rows of PostgreSQL are times of its server, written and compared there. The clocks of replicas
   count for nothing. SQLite has the clock of its machine.
2. A replica whose clock differs by more than a minute from the server's deletes nothing: one of the two is
   wrong, and nobody knows which.
3. On SQLite, a clock that is a day after the newest row, or has moved a day since the last look, may have
   jumped. Then each round deletes a share of the rows only, until less than that share has expired.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from math import ceil, inf
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, tuple_

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.stores.records import Expiry, Place
from a2a_bridge.stores.sql.commit import SqlJob
from a2a_bridge.stores.sql.database import Database, build_insert, present
from a2a_bridge.stores.sql.push_configs import forget
from a2a_bridge.stores.sql.schema import bodies, segments, sends, settings, task_counts, tasks
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
        now, before, self._looked = time.time(), self._looked, (time.time(), time.monotonic())
        moved = 0.0 if before is None else now - before[0] - (self._looked[1] - before[1])
        newest, noted = await self._database.read(_newest)
        if newest is not None:
            moved = max(moved, now - newest)
        if moved > _JUMP and not noted:
            text = (
                "the clock of this machine is %.1f days after the newest row: expired data is deleted slowly"
            )
            log.warning(text, moved / _JUMP)
            await write(SqlJob(_note))
            noted = True
        return noted

    async def caught_up(self, write: Write) -> None:
        """Less than a share has expired: the time is believed."""
        await write(SqlJob(_forget))


def _newest(connection: Connection) -> tuple[float | None, bool]:
    """The time of the newest row, and whether a jump is noted."""
    times = [connection.scalar(select(func.max(one))) for one in (tasks.c.written, sends.c.created)]
    noted = connection.scalar(select(settings.c.name).where(settings.c.name == _JUMPED)) is not None
    return max((one for one in times if one is not None), default=None), noted


def _note(connection: Connection) -> None:
    noted = build_insert(connection, settings).values(name=_JUMPED, value=b"1")
    connection.execute(noted.on_conflict_do_nothing())


def _forget(connection: Connection) -> None:
    connection.execute(delete(settings).where(settings.c.name == _JUMPED))


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
        whole = [await self._delete_sends(now - expiry.sends, write, await self._most(jumped, sends))]
        most = await self._most(jumped, tasks)
        if expiry.tasks is not None:
            remove = partial(_delete_tasks, count=self._count)
            whole.append(await self._each(write, _next_tasks, now - expiry.tasks, remove, most))
        whole.append(await self._each(write, _next_logs, now - expiry.events, _delete_logs, most))
        await write(SqlJob(_empty_counters))
        if jumped and all(whole):
            await self._clock.caught_up(write)

    async def _most(self, jumped: bool, table: Table) -> float:
        """How many rows a round may delete."""
        if not jumped:
            return inf
        number = select(func.count()).select_from(table)
        return ceil(await self._database.read(lambda connection: connection.scalar(number) or 0) / SHARE)

    async def _delete_sends(self, before: float, write: Write, most: float) -> bool:
        """Forgets old messages. Returns False if more of them may be left."""
        while most > 0:
            batch = int(min(most, _BATCH))
            gone = await write(SqlJob(partial(_delete_sends, before=before, most=batch)))
            most -= gone
            if gone < batch:
                return True
        return False

    async def _each(
        self,
        write: Write,
        following: Callable[..., list[str]],
        before: float,
        remove: Callable[..., None],
        most: float,
    ) -> bool:
        """Removes parts of the ended tasks with a last write before a time. False if more may be left."""
        after = ""
        while found := await self._database.read(partial(following, after=after)):
            after = found[-1]
            # An ended task does not change, so the deletion does not check its state again.
            due = await self._database.read(partial(_list_ended, task_ids=found, before=before))
            if len(due) > most:
                due = due[: int(most)]
            if due:
                await write(SqlJob(partial(remove, task_ids=due)))
            most -= len(due)
            if most <= 0:
                return False
        return True


def _delete_sends(connection: Connection, before: float, most: int) -> int:
    old = select(sends.c.tenant, sends.c.owner, sends.c.message).where(sends.c.created < before)
    rows = connection.execute(old.limit(most).with_for_update(skip_locked=True)).all()
    for tenant, owner, message in rows:
        mine = (sends.c.tenant == tenant, sends.c.owner == owner, sends.c.message == message)
        connection.execute(delete(sends).where(*mine))
    return len(rows)


def _delete_tasks(connection: Connection, task_ids: Sequence[str], count: Count) -> None:
    task_ids = _free(connection, task_ids)
    query = delete(tasks).where(tasks.c.id.in_(task_ids))
    gone = connection.execute(
        query.returning(tasks.c.tenant, tasks.c.owner, tasks.c.context, tasks.c.state, tasks.c.time)
    ).all()
    connection.execute(delete(bodies).where(bodies.c.task.in_(task_ids)))
    connection.execute(delete(segments).where(segments.c.task.in_(task_ids)))
    count(
        connection,
        [Counted(one.tenant, one.owner, Place(one.context, one.state, one.time), None) for one in gone],
    )
    forget(connection, task_ids)


def _next_logs(connection: Connection, after: str) -> list[str]:
    """Tasks with a log, in the order of their ids."""
    found: list[str] = []
    while len(found) < _BATCH:
        # From one task to the next by the key, independent of the number of rows per task.
        query = select(segments.c.task).where(segments.c.task > after).order_by(segments.c.task).limit(1)
        following = connection.scalar(query)
        if following is None:
            break
        found.append(following)
        after = following
    return found


def _next_tasks(connection: Connection, after: str) -> list[str]:
    query = select(tasks.c.id).where(tasks.c.id > after).order_by(tasks.c.id).limit(_BATCH)
    return list(connection.scalars(query))


def _list_ended(connection: Connection, task_ids: Sequence[str], before: float) -> list[str]:
    old = select(tasks.c.id).where(tasks.c.id.in_(task_ids), tasks.c.written < before)
    return list(connection.scalars(old.where(tasks.c.state.in_([int(state) for state in TERMINAL]))))


def _delete_logs(connection: Connection, task_ids: Sequence[str]) -> None:
    connection.execute(delete(segments).where(segments.c.task.in_(_free(connection, task_ids))))


def _free(connection: Connection, task_ids: Sequence[str]) -> list[str]:
    """The tasks from which no other replica deletes at present. They are locked until the commit."""
    query = select(tasks.c.id).where(tasks.c.id.in_(task_ids))
    return list(connection.scalars(query.with_for_update(skip_locked=True)))


def _empty_counters(connection: Connection) -> None:
    key = tuple_(*task_counts.primary_key.columns)
    query = select(*task_counts.primary_key.columns).where(task_counts.c.number == 0)
    # A row that is being written will not stay empty.
    empty = [tuple(row) for row in connection.execute(query.with_for_update(skip_locked=True))]
    for start in range(0, len(empty), _BATCH):
        connection.execute(delete(task_counts).where(key.in_(empty[start : start + _BATCH])))
