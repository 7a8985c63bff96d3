"""Reads rows of tasks: single tasks, pages of them, their segments, their number. Runs in threads.

This module neither waits nor writes, except for the counters, and parses nothing. `task_rows` needs no
transaction. A page is found through an index: a position is the time and id of a task, so neither new nor
changed tasks make the next page miss or repeat unchanged tasks.

The number of tasks that match a query comes from a few rows: counters that every write updates.

Rules of the counters:
1. A task counts in its scope, once among all and once in a time bucket of 73 minutes.
2. The number of tasks since a time is the sum of the buckets after it, and of the tasks between that time and
   the end of its bucket, which are counted one by one in an index. The tasks of a context are counted one by
   one, too: counters of contexts, most of which have few tasks, would cost each task more than all others
   together.
3. The changes of one transaction are summed first: a group costs about as many rows as a single write.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from a2a_bridge.cluster import tails as cluster
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.paging import PAGE_BYTES
from a2a_bridge.stores.ports import Scope, TaskQuery
from a2a_bridge.stores.records import EARLIEST, LATEST, Found, Place, Position, TaskRow
from a2a_bridge.stores.row_format import Joined, Segment, original, storable
from a2a_bridge.stores.sql.schema import bodies, joined, replicas, segments, tasks
from a2a_bridge.stores.sql.schema import task_counts as counts

#: binary digits of nanoseconds that a time bucket spans
_BITS = 42
#: the bucket of all tasks of a scope; a time bucket is never so early
ALL = EARLIEST

#: tenant, owner, bucket, state
Key = tuple[str, str, int, int]


class Counted(NamedTuple):
    """A task whose position changes. None: it does not exist before, or afterwards."""

    tenant: str
    owner: str
    before: Place | None
    after: Place | None


def deltas(changes: Iterable[Counted]) -> list[tuple[Key, int]]:
    """The changes of counters, always in the same order, so that transactions do not deadlock."""
    found: dict[Key, int] = {}
    for tenant, owner, before, after in changes:
        if before == after:
            continue
        for place, number in ((after, 1), (before, -1)):
            if place is None:
                continue
            for bucket in (ALL, place.time >> _BITS):
                key = tenant, owner, bucket, place.state
                found[key] = found.get(key, 0) + number
    return sorted(item for item in found.items() if item[1])


def total(
    connection: sa.Connection, tenant: str, owner: str, context: str, state: int, since: int | None
) -> int:
    """The number of matching tasks of a scope. An empty context, state 0, and since None are all."""
    mine = tenant, owner, state
    summed = partial(_number, connection, sa.func.sum(counts.c.number), counts.c, *mine)
    one_by_one = partial(_number, connection, sa.func.count(), tasks.c, *mine)
    if context:
        found = [tasks.c.context == context]
        if since is not None:
            found.append(tasks.c.time >= since)
        return one_by_one(*found)
    if since is None:
        return summed(counts.c.bucket == ALL)
    following = (since >> _BITS) + 1
    found = [tasks.c.time >= since]
    if following << _BITS <= LATEST:
        found.append(tasks.c.time < following << _BITS)
    return summed(counts.c.bucket >= following) + one_by_one(*found)


def _number(
    connection: sa.Connection, what: Any, of: Any, tenant: str, owner: str, state: int, *which: Any
) -> int:
    query = sa.select(what).where(of.tenant == tenant, of.owner == owner, *which)
    if state:
        query = query.where(of.state == state)
    return int(connection.scalar(query) or 0)


def recount(connection: sa.Connection) -> None:
    """Counts all tasks anew, for imports by other means. Requires that no other process writes."""
    connection.execute(sa.delete(counts))
    columns = [column.name for column in counts.columns]
    place = (tasks.c.tenant, tasks.c.owner)
    bucket: Any
    for bucket in (sa.literal_column(str(ALL)), tasks.c.time.op(">>")(sa.literal_column(str(_BITS)))):
        number = sa.select(*place, bucket.label("b"), tasks.c.state, sa.literal(0), sa.func.count())
        number = number.group_by(*place, sa.text("b"), tasks.c.state)
        connection.execute(sa.insert(counts).from_select(columns, number))


_WHOLE = (
    sa.select(tasks, bodies.c.data, bodies.c.checksum, replicas.c.id.label("alive"))
    .outerjoin_from(tasks, bodies, bodies.c.task == tasks.c.id)
    .outerjoin(replicas, replicas.c.id == tasks.c.holder)
)
# Made once: to make a query takes longer than its execution.
_ONE = _WHOLE.where(tasks.c.id == sa.bindparam("task"))
_SOME = _WHOLE.where(tasks.c.id.in_(sa.bindparam("ids", expanding=True)))
_SEGMENT = (segments.c.first, segments.c.last, segments.c.data, segments.c.checksum)


def task_rows(
    connection: sa.Connection, wanted: Sequence[tuple[Scope, str]], me: str
) -> list[TaskRow | None]:
    """The rows of the first of these tasks; None in other scopes. me: the name of this process in leases."""
    ids = [storable(task_id) for _, task_id in wanted]
    alone = len(ids) == 1
    if not alone:
        ids = _of_a_page(connection, ids)
    query, values = (_ONE, {"task": ids[0]}) if alone else (_SOME, {"ids": ids})
    rows = connection.execute(query, values).all()
    tails, messages = _tails(connection, rows), _messages(connection, rows)
    # A task that is asked for alone is taken as the answer: a damaged index may have led to another row.
    by_id = {ids[0] if alone else row.id: row for row in rows}
    found: list[TaskRow | None] = []
    for (scope, task_id), stored_id in zip(wanted, ids, strict=False):
        row = by_id.get(stored_id)
        if row is None or (row.tenant, row.owner) != (storable(scope.tenant), storable(scope.owner)):
            found.append(None)
            continue
        holder = row.alive if row.alive and row.alive != me else ""
        one = _row(scope, task_id, row, row.data, row.checksum, tails.get(row.id, ()))
        found.append(one._replace(holder=holder, joined_tail=messages.get(row.id, ())))
    return found


def page(connection: sa.Connection, scope: Scope, query: TaskQuery, after: tuple[int, str] | None) -> Found:
    """A page of tasks, newest first. after: the position of the last task of the previous page."""
    context = storable(query.context_id)
    since = None if query.since is None else min(max(query.since, EARLIEST), LATEST)
    where: list[sa.ColumnElement[bool]] = [visible_to(scope)]
    if context:
        where.append(tasks.c.context == context)
    if query.state:
        where.append(tasks.c.state == int(query.state))
    if since is not None:
        where.append(tasks.c.time >= since)
    if after is not None:
        time, task_id = after
        stored_id = storable(task_id)
        # The first half allows the use of an index.
        where += [tasks.c.time <= time, sa.or_(tasks.c.time < time, tasks.c.id < stored_id)]
    chosen = (
        sa.select(tasks)
        .where(sa.and_(*where))
        .order_by(tasks.c.time.desc(), tasks.c.id.desc())
        .limit(query.page_size + 1)
    )
    found = connection.execute(chosen).all()
    wanted = _of_a_page(connection, [row.id for row in found[: query.page_size]])
    # Not joined: PostgreSQL would read all bodies of a small table for that.
    parts = sa.select(bodies).where(bodies.c.task.in_(wanted))
    content = {row.task: (row.data, row.checksum) for row in connection.execute(parts)} if wanted else {}
    shown = found[: len(wanted)]
    tails, messages = _tails(connection, shown), _messages(connection, shown)
    rows = [
        _row(
            scope, original(row.id), row, *content.get(row.id, (None, None)), tails.get(row.id, ())
        )._replace(joined_tail=messages.get(row.id, ()))
        for row in shown
    ]
    matching = total(
        connection, storable(scope.tenant), storable(scope.owner), context, int(query.state), since
    )
    return Found(rows, matching, len(found) > len(wanted))


def stretch(
    connection: sa.Connection, task_id: str, after: int, most: int
) -> tuple[Position | None, list[Segment]]:
    """The end of a task's log (None if there is no task), and some of its segments after a number. most:
    bytes, after which no further segment is fetched.
    """
    stored_id = storable(task_id)
    row = connection.execute(
        sa.select(tasks.c.last, tasks.c.state).where(tasks.c.id == stored_id)
    ).one_or_none()
    if row is None:
        return None, []
    found: list[Segment] = []
    if row.last > after:
        query = (
            sa.select(*_SEGMENT)
            .where(segments.c.task == stored_id, segments.c.last > after, segments.c.last <= row.last)
            .order_by(segments.c.first)
        )
        # By key from here on, so that earlier segments are not read.
        start = connection.scalar(
            sa.select(segments.c.first)
            .where(segments.c.task == stored_id, segments.c.first <= after + 1)
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


def positions(connection: sa.Connection, task_ids: Sequence[str]) -> dict[str, cluster.Position]:
    """The ends of the logs of tasks, and who holds them."""
    stored_ids = {storable(task_id): task_id for task_id in task_ids}
    query = (
        sa.select(tasks.c.id, tasks.c.last, tasks.c.version, tasks.c.state, replicas.c.id.label("alive"))
        .outerjoin(replicas, replicas.c.id == tasks.c.holder)
        .where(tasks.c.id.in_(stored_ids))
    )
    return {
        stored_ids[row.id]: cluster.Position(row.last, row.version, row.state in TERMINAL, row.alive or "")
        for row in connection.execute(query)
    }


def _of_a_page(connection: sa.Connection, ids: Sequence[str]) -> list[str]:
    """The tasks whose bodies fill a page, so that few more bodies are read than a page holds."""
    # Neither database reads large values for their length.
    query = sa.select(bodies.c.task, sa.func.length(bodies.c.data).label("length")).where(
        bodies.c.task.in_(ids)
    )
    sizes = {row.task: row.length for row in connection.execute(query)} if ids else {}
    size = 0
    for number, one in enumerate(ids, 1):
        size += sizes.get(one, 0)
        if size >= PAGE_BYTES:
            return list(ids[:number])
    return list(ids)


def _row(
    scope: Scope, task_id: str, row: Any, body: bytes | None, checksum: int | None, tail: Sequence[Segment]
) -> TaskRow:
    return TaskRow(
        scope,
        task_id,
        Place(original(row.context), row.state, row.time),
        row.version,
        row.last,
        row.applied,
        "",
        body,
        checksum,
        tail,
        row.written,
        row.joined,
        row.joined_applied,
    )


def _tails(connection: sa.Connection, rows: Sequence[Any]) -> dict[str, list[Segment]]:
    """The segments with the events that the bodies of these tasks lack. Segments do not change, so the state
    of the database may have gone on since these rows.
    """
    own = segments.c
    behind = [
        sa.and_(own.task == row.id, own.last > row.applied, own.last <= row.last)
        for row in rows
        if row.applied < row.last
    ]
    if not behind:
        return {}
    query = sa.select(own.task, *_SEGMENT).where(sa.or_(*behind)).order_by(own.task, own.first)
    found: dict[str, list[Segment]] = {}
    for stored_id, *segment in connection.execute(query):
        found.setdefault(stored_id, []).append(Segment(*segment))
    return found


def _messages(connection: sa.Connection, rows: Sequence[Any]) -> dict[str, list[Joined]]:
    """The messages that joined these tasks and that their bodies lack. They do not change either."""
    own = joined.c
    behind = [
        sa.and_(own.task == row.id, own.number > row.joined_applied, own.number <= row.joined)
        for row in rows
        if row.joined_applied < row.joined
    ]
    if not behind:
        return {}
    query = sa.select(joined).where(sa.or_(*behind)).order_by(own.task, own.number)
    found: dict[str, list[Joined]] = {}
    for stored_id, *message in connection.execute(query):
        found.setdefault(stored_id, []).append(Joined(*message))
    return found


def visible_to(scope: Scope) -> sa.ColumnElement[bool]:
    """The condition for the rows of a scope."""
    return sa.and_(tasks.c.tenant == storable(scope.tenant), tasks.c.owner == storable(scope.owner))


def list_orphans(connection: sa.Connection, limit: int) -> list[tuple[Scope, str]]:
    """Tasks whose holder is dead."""
    return _list_named(
        connection, tasks.c.holder != "", tasks.c.holder.not_in(sa.select(replicas.c.id)), limit=limit
    )


def list_held(connection: sa.Connection, holder: str) -> list[tuple[Scope, str]]:
    """Tasks that a replica holds."""
    return _list_named(connection, tasks.c.holder == holder, tasks.c.holder != "")


def _list_named(
    connection: sa.Connection, *where: sa.ColumnElement[bool], limit: int | None = None
) -> list[tuple[Scope, str]]:
    newest = tasks.c.time.desc(), tasks.c.id.desc()
    query = sa.select(tasks.c.tenant, tasks.c.owner, tasks.c.id).where(*where).order_by(*newest).limit(limit)
    return [(Scope(original(row.tenant), original(row.owner)), row.id) for row in connection.execute(query)]
