"""Reads tasks: one, a page of them, or one as of an event. Runs in threads, in one transaction each; it
neither waits nor writes.

Rules:
1. A task is its body and the events after it. A body may be newer than the requested event; then the task is
   folded from the beginning, if the log is complete.
2. A page is found through an index: the page token holds the time and id of the page's last task, so neither
   new nor changed tasks make the next page miss or repeat unchanged ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select

from a2a_bridge.core.lifecycle import IllegalTransitionError, fold
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.core.paging import PAGE_BYTES, TaskPageFiller
from a2a_bridge.hosting.cluster import tails as cluster
from a2a_bridge.hosting.ports import Scope, TaskQuery
from a2a_bridge.hosting.stores.sql.checksums import DamagedError, parsed
from a2a_bridge.hosting.stores.sql.counts import EARLIEST, LATEST, total
from a2a_bridge.hosting.stores.sql.schema import bodies, replicas, segments, tasks
from a2a_bridge.hosting.stores.sql.segments import Segment, unpack
from a2a_bridge.hosting.stores.sql.text import original, storable
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.store")


class Found(NamedTuple):
    """A task and its row."""

    task: hub.Task
    version: int
    last: int
    #: the replica that works on the task, if it is alive
    holder: str
    #: True if it will never change
    ended: bool
    #: time of the last change, seconds since the epoch
    written: float
    #: the task, serialized; None if its row holds only a part
    data: bytes | None


class Position(NamedTuple):
    """The end of a task's log."""

    last: int
    #: True if no event follows
    ended: bool


class Page(NamedTuple):
    """One page of a list."""

    tasks: list[hub.Task]
    #: True if further tasks follow
    more: bool
    #: time and id of the last task, a damaged one included
    end: tuple[int, str]
    #: number of matching tasks, damaged ones included
    total: int
    #: tasks of this page that are missing because they are damaged
    left_out: int


def fetch(connection: Connection, scope: Scope, task_id: str) -> Found | None:
    """The task, if it belongs to this scope."""
    row = _row(connection, scope, task_id)
    if row is None:
        return None
    return Found(
        _folded(connection, scope, row, row.data, row.checksum),
        row.version,
        row.last,
        row.holder or "",
        row.state in TERMINAL,
        row.written,
        row.data if row.applied == row.last else None,
    )


def as_of(connection: Connection, scope: Scope, task_id: str, number: int) -> hub.Task | None:
    """The task as of an event, if the log reaches back that far; else the present task."""
    row = _row(connection, scope, task_id)
    if row is None:
        return None
    if 0 < number < row.last:
        # A newer body is of no use: then the whole log up to the event is needed.
        data, applied = (row.data, row.applied) if row.applied <= number else (b"", 0)
        events = list(_events(connection, row.id, applied, number))
        if len(events) == number - applied:
            checksum = row.checksum if data else None
            task = parsed(hub.Task.FromString, checksum, _key(scope, row.id), data)
            _apply(task, events)
            return task
    return _folded(connection, scope, row, row.data, row.checksum)


def _apply(task: hub.Task, events: Iterable[hub.StreamResponse]) -> None:
    """Applies events of the log to a task, in place."""
    for event in events:
        try:
            fold(task, event)
        except IllegalTransitionError:
            # Events were checked when they were written, perhaps by weaker rules; they are not checked again.
            task.status.CopyFrom(event.status_update.status)


def listing(connection: Connection, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> Page:
    """A page of tasks, newest first. after: the position of the last task of the previous page."""
    context = storable(query.context_id)
    since = None if query.since is None else min(max(query.since, EARLIEST), LATEST)
    where: list[ColumnElement[bool]] = [visible_to(scope)]
    if context:
        where.append(tasks.c.context == context)
    if query.state:
        where.append(tasks.c.state == int(query.state))
    if since is not None:
        where.append(tasks.c.time >= since)
    if after is not None:
        time, task_id = after
        # The first half allows the use of an index.
        where += [tasks.c.time <= time, or_(tasks.c.time < time, tasks.c.id < task_id)]
    chosen = (
        select(tasks.c.id, tasks.c.time, tasks.c.last, tasks.c.applied)
        .where(and_(*where))
        .order_by(tasks.c.time.desc(), tasks.c.id.desc())
        .limit(query.page_size + 1)
    )
    rows = connection.execute(chosen).all()
    more = len(rows) > query.page_size
    rows = rows[: query.page_size]
    page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
    end, left_out = (0, ""), 0
    for row, task in _whole(connection, scope, rows):
        if task is None:
            left_out += 1
        elif not page.add(task):
            more = True
            break
        end = row.time, row.id
    matching = total(
        connection, storable(scope.tenant), storable(scope.owner), context, int(query.state), since
    )
    return Page(page.tasks, more, end, matching, left_out)


def stretch(
    connection: Connection, task_id: str, after: int, most: int
) -> tuple[Position | None, list[Segment]]:
    """The end of a task's log (None if the task does not exist), and some of its segments after a number.

    most: bytes after which no further segment is fetched.
    """
    stored_ids = storable(task_id)
    row = connection.execute(
        select(tasks.c.last, tasks.c.state).where(tasks.c.id == stored_ids)
    ).one_or_none()
    if row is None:
        return None, []
    found: list[Segment] = []
    if row.last > after:
        query = (
            select(segments.c.first, segments.c.last, segments.c.data, segments.c.checksum)
            .where(segments.c.task == stored_ids, segments.c.last > after, segments.c.last <= row.last)
            .order_by(segments.c.first)
        )
        # By key from here on, so that earlier segments are not read.
        start = connection.scalar(
            select(segments.c.first)
            .where(segments.c.task == stored_ids, segments.c.first <= after + 1)
            .order_by(segments.c.first.desc())
            .limit(1)
        )
        if start is not None:
            query = query.where(segments.c.first >= start)
        size = 0
        with connection.execution_options(stream_results=True).execute(query) as rows:
            for one in rows:
                found.append(Segment(one.first, one.last, one.data, one.checksum))
                size += len(one.data)
                if size >= most:
                    break
    return Position(row.last, row.state in TERMINAL), found


def positions(connection: Connection, task_ids: Sequence[str]) -> dict[str, cluster.Position]:
    """The ends of the logs of tasks, and who holds them."""
    stored_ids = {storable(task_id): task_id for task_id in task_ids}
    query = (
        select(tasks.c.id, tasks.c.last, tasks.c.version, tasks.c.state, replicas.c.id.label("alive"))
        .outerjoin(replicas, replicas.c.id == tasks.c.holder)
        .where(tasks.c.id.in_(stored_ids))
    )
    return {
        stored_ids[row.id]: cluster.Position(row.last, row.version, row.state in TERMINAL, row.alive or "")
        for row in connection.execute(query)
    }


def _whole(
    connection: Connection, scope: Scope, rows: Sequence[Any]
) -> Iterator[tuple[Any, hub.Task | None]]:
    """Rows with their tasks; None for a damaged one."""
    for some in _portions(connection, rows):
        query = select(bodies).where(bodies.c.task.in_([row.id for row in some]))
        data = {row.task: (row.data, row.checksum) for row in connection.execute(query)}
        for row in some:
            try:
                yield row, _folded(connection, scope, row, *data.pop(row.id, (None, None)))
            except DamagedError:
                log.error("task %s is damaged in the store, and left out of a list", row.id)  # noqa: TRY400  no trace
                yield row, None


def _portions(connection: Connection, rows: Sequence[Any]) -> Iterator[list[Any]]:
    """Rows in portions whose bodies fill a page, so that few more are read than one page holds."""
    ids = [row.id for row in rows]
    # Neither database reads large values for their length.
    query = select(bodies.c.task, func.length(bodies.c.data).label("length")).where(bodies.c.task.in_(ids))
    sizes = {row.task: row.length for row in connection.execute(query)} if ids else {}
    some: list[Any] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sizes.get(row.id, 0)
        if size >= PAGE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _row(connection: Connection, scope: Scope, task_id: str) -> Any:
    query = (
        select(
            # As asked for: a damaged index may have led to another row.
            literal(storable(task_id)).label("id"),
            tasks.c.version,
            tasks.c.last,
            tasks.c.applied,
            tasks.c.state,
            tasks.c.written,
            bodies.c.data,
            bodies.c.checksum,
            replicas.c.id.label("holder"),
        )
        .outerjoin_from(tasks, bodies, bodies.c.task == tasks.c.id)
        .outerjoin(replicas, replicas.c.id == tasks.c.holder)
        .where(visible_to(scope), tasks.c.id == storable(task_id))
    )
    return connection.execute(query).one_or_none()


def _folded(
    connection: Connection, scope: Scope, row: Any, data: bytes | None, checksum: int | None
) -> hub.Task:
    """A body with the events after it. Raises DamagedError."""
    task = parsed(hub.Task.FromString, checksum, _key(scope, row.id), data)
    if row.applied < row.last:
        _apply(task, _events(connection, row.id, row.applied))
    return task


def _events(
    connection: Connection, task_id: str, after: int, until: int | None = None
) -> Iterator[hub.StreamResponse]:
    query = (
        select(segments.c.first, segments.c.last, segments.c.data, segments.c.checksum)
        .where(segments.c.task == task_id, segments.c.last > after)
        .order_by(segments.c.first)
    )
    number = after
    for row in connection.execute(query):
        for event in unpack(task_id, Segment(row.first, row.last, row.data, row.checksum), number):
            number += 1
            if until is not None and number > until:
                return
            yield event


def _key(scope: Scope, stored_id: str) -> tuple[str, ...]:
    return storable(scope.tenant), storable(scope.owner), stored_id


def visible_to(scope: Scope) -> ColumnElement[bool]:
    """The condition for the rows of a scope."""
    return and_(tasks.c.tenant == storable(scope.tenant), tasks.c.owner == storable(scope.owner))


def orphaned(connection: Connection, limit: int) -> list[tuple[Scope, str]]:
    """Tasks whose holder is dead."""
    return _named(connection, tasks.c.holder != "", tasks.c.holder.not_in(select(replicas.c.id)), limit=limit)


def at_work(connection: Connection, holder: str) -> list[tuple[Scope, str]]:
    """Working tasks that a replica holds."""
    running = tasks.c.state.in_([int(state) for state in RUNNING])
    return _named(connection, tasks.c.holder == holder, tasks.c.holder != "", running)


def _named(
    connection: Connection, *where: ColumnElement[bool], limit: int | None = None
) -> list[tuple[Scope, str]]:
    newest = tasks.c.time.desc(), tasks.c.id.desc()
    query = select(tasks.c.tenant, tasks.c.owner, tasks.c.id).where(*where).order_by(*newest).limit(limit)
    return [(Scope(original(row.tenant), original(row.owner)), row.id) for row in connection.execute(query)]
