"""The number of tasks that match a query, from a few rows: counters that every write updates.

Rules:
1. A task counts in its scope, once among all and once in a time bucket of 73 minutes.
2. The number of tasks since a time is the sum of the buckets after it, and of the tasks between that time and
   the end of its bucket, which are counted one by one in an index. So are those of a context: counters of
   contexts, of which most have few tasks, cost each task more than all others together.
3. The changes of one transaction are summed first: a group of writes costs about as many rows as a single
   one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, literal_column, select, text

from a2a_bridge.stores.records import EARLIEST, LATEST, Place
from a2a_bridge.stores.sql.schema import task_counts as counts
from a2a_bridge.stores.sql.schema import tasks

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
    connection: Connection, tenant: str, owner: str, context: str, state: int, since: int | None
) -> int:
    """The number of matching tasks of a scope. context: empty for all. state: 0 for all. since:
    None for all.
    """
    if context:
        found = [tasks.c.context == context]
        if since is not None:
            found.append(tasks.c.time >= since)
        return _one_by_one(connection, tenant, owner, state, *found)
    if since is None:
        return _sum(connection, tenant, owner, state, counts.c.bucket == ALL)
    following = (since >> _BITS) + 1
    found = [tasks.c.time >= since]
    if following << _BITS <= LATEST:
        found.append(tasks.c.time < following << _BITS)
    later = _sum(connection, tenant, owner, state, counts.c.bucket >= following)
    return later + _one_by_one(connection, tenant, owner, state, *found)


def _sum(connection: Connection, tenant: str, owner: str, state: int, buckets: ColumnElement[bool]) -> int:
    query = select(func.coalesce(func.sum(counts.c.number), 0)).where(
        counts.c.tenant == tenant, counts.c.owner == owner, buckets
    )
    if state:
        query = query.where(counts.c.state == state)
    return int(connection.scalar(query) or 0)


def _one_by_one(
    connection: Connection, tenant: str, owner: str, state: int, *which: ColumnElement[bool]
) -> int:
    query = select(func.count()).where(tasks.c.tenant == tenant, tasks.c.owner == owner, *which)
    if state:
        query = query.where(tasks.c.state == state)
    return int(connection.scalar(query) or 0)


def recount(connection: Connection) -> None:
    """Counts all tasks anew, for imports by other means. Requires that no other process writes."""
    connection.execute(delete(counts))
    columns = [column.name for column in counts.columns]
    place = (tasks.c.tenant, tasks.c.owner)
    bucket: Any
    for bucket in (literal_column(str(ALL)), tasks.c.time.op(">>")(literal_column(str(_BITS)))):
        number = select(*place, bucket.label("b"), tasks.c.state, literal(0), func.count())
        number = number.group_by(*place, text("b"), tasks.c.state)
        connection.execute(insert(counts).from_select(columns, number))
