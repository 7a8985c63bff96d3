"""Deletes expired data: logs of ended tasks, ids of sent messages, and, if configured, tasks.

Rules:
1. Small batches, one after another, as jobs of the writer, so that other writes do not wait long.
2. Logs are found by walking along the log itself, from task to task: earlier deletions cost nothing.
3. With several replicas each has a janitor. Two that delete the same rows delete them once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from sqlalchemy import Connection, delete, select, tuple_

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.hosting.stores.options import StoreOptions
from a2a_bridge.hosting.stores.sql.counts import Counted, Place
from a2a_bridge.hosting.stores.sql.push import forget
from a2a_bridge.hosting.stores.sql.schema import bodies, counts, segments, sends, tasks

log = logging.getLogger("a2a_bridge.store")

Result = TypeVar("Result")

#: seconds between two rounds
_ROUND = 600.0
#: tasks, or messages, per batch
_BATCH = 200


class JanitorStore(Protocol):
    """The methods of a store that the janitor needs."""

    async def read(self, work: Callable[[Connection], Result], /) -> Result: ...

    async def write(self, work: Callable[[Connection], Result], /) -> Result: ...

    def count(self, connection: Connection, changes: Sequence[Counted], /) -> None: ...

    def forgotten(self, task_ids: Sequence[str], /) -> None: ...


class Janitor:
    """Runs every ten minutes. wall: seconds since the epoch."""

    def __init__(
        self, store: JanitorStore, options: StoreOptions, wall: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._options = options
        self._wall = wall
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts, with a round at once."""
        self._task = asyncio.create_task(self._work(), name="a2a store janitor")

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def round(self) -> None:
        """Deletes expired data. Raises UNAVAILABLE if the store does not work."""
        now = self._wall()
        await self._sends(now - self._options.sends_kept)
        if self._options.tasks_kept is not None:
            await self._tasks(now - self._options.tasks_kept)
        await self._logs(now - self._options.events_kept)
        await self._store.write(_empty_counters)

    async def _work(self) -> None:
        while True:
            try:
                await self.round()
            except A2AError:
                log.debug("the clean-up is retried later: the store does not work")
            await asyncio.sleep(_ROUND)

    async def _sends(self, before: float) -> None:
        old = (
            select(sends.c.tenant, sends.c.owner, sends.c.message)
            .where(sends.c.created < before)
            .limit(_BATCH)
        )

        def work(connection: Connection) -> int:
            rows = connection.execute(old.with_for_update(skip_locked=True)).all()
            for tenant, owner, message in rows:
                mine = (sends.c.tenant == tenant, sends.c.owner == owner, sends.c.message == message)
                connection.execute(delete(sends).where(*mine))
            return len(rows)

        while await self._store.write(work) == _BATCH:
            pass

    async def _logs(self, before: float) -> None:
        after = ""
        while True:
            found = await self._store.read(partial(_next_logs, after=after))
            if not found:
                return
            after = found[-1]
            # The deletion checks again whether they have ended; here most are only read.
            due = await self._store.read(partial(_ended, task_ids=found, before=before))
            if due:
                await self._store.write(partial(_delete_logs, task_ids=due))

    async def _tasks(self, before: float) -> None:
        after = ""
        while True:
            found = await self._store.read(partial(_next_tasks, after=after))
            if not found:
                return
            after = found[-1]
            due = await self._store.read(partial(_ended, task_ids=found, before=before))
            if due:
                await self._store.write(partial(self._delete, task_ids=due))
                self._store.forgotten(due)

    def _delete(self, connection: Connection, task_ids: Sequence[str]) -> None:
        task_ids = _free(connection, task_ids)
        query = delete(tasks).where(tasks.c.id.in_(task_ids))
        gone = connection.execute(
            query.returning(tasks.c.tenant, tasks.c.owner, tasks.c.context, tasks.c.state, tasks.c.time)
        ).all()
        connection.execute(delete(bodies).where(bodies.c.task.in_(task_ids)))
        connection.execute(delete(segments).where(segments.c.task.in_(task_ids)))
        places = [
            Counted(one.tenant, one.owner, Place(one.context, one.state, one.time), None) for one in gone
        ]
        self._store.count(connection, places)
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


def _ended(connection: Connection, task_ids: Sequence[str], before: float) -> list[str]:
    old = select(tasks.c.id).where(tasks.c.id.in_(task_ids), tasks.c.written < before)
    return list(connection.scalars(old.where(tasks.c.state.in_([int(state) for state in TERMINAL]))))


def _delete_logs(connection: Connection, task_ids: Sequence[str]) -> None:
    connection.execute(delete(segments).where(segments.c.task.in_(_free(connection, task_ids))))


def _free(connection: Connection, task_ids: Sequence[str]) -> list[str]:
    """The tasks from which no other replica's janitor deletes at present.

    They are locked until the commit.
    """
    query = select(tasks.c.id).where(tasks.c.id.in_(task_ids))
    return list(connection.scalars(query.with_for_update(skip_locked=True)))


def _empty_counters(connection: Connection) -> None:
    key = tuple_(*counts.primary_key.columns)
    query = select(*counts.primary_key.columns).where(counts.c.number == 0)
    # A row that is being written will not stay empty.
    empty = [tuple(row) for row in connection.execute(query.with_for_update(skip_locked=True))]
    for start in range(0, len(empty), _BATCH):
        connection.execute(delete(counts).where(key.in_(empty[start : start + _BATCH])))
