"""The number of tasks that match a query, from a few rows: counters that every write updates.

Rules:
1. A task counts in its scope, and in its context of that scope. In its scope it also counts in time buckets
   of LEVELS lengths, each 64 times the one before: 1 second, 69 seconds, 73 minutes, 3 days, 208 days.
2. The number of tasks since a time is the sum of the buckets after it, at most 63 of each length, and of the
   tasks between that time and the end of its second, which are counted one by one. So the cost does not
   depend on the total. Only a query for a context and a time counts its matches.
3. The changes of one transaction are summed first: a group of writes costs about as many rows as a single
   one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    union_all,
)

from a2a_bridge.hosting.stores.records import LATEST, Place
from a2a_bridge.hosting.stores.sql.schema import counts, tasks

#: binary digits of nanoseconds that a bucket of each level spans
_BITS = (30, 36, 42, 48, 54)
#: the level without buckets
_ALL = len(_BITS)


#: tenant, owner, context, level, bucket, state
Key = tuple[str, str, str, int, int, int]


class Counted(NamedTuple):
    """A task whose position changes. None: it does not exist before, or afterwards."""

    tenant: str
    owner: str
    before: Place | None
    after: Place | None


def deltas(changes: Iterable[Counted]) -> list[tuple[Key, int]]:
    """The changes of counters, always in the same order, so that transactions do not deadlock."""
    found: dict[Key, int] = {}
    #: tenant, owner, state and shortest bucket -> change of the count
    moved: dict[tuple[str, str, int, int], int] = {}
    shortest = _BITS[0]
    for tenant, owner, before, after in changes:
        if before == after:
            continue
        for place, number in ((after, 1), (before, -1)):
            if place is None:
                continue
            context, state, time = place
            if context:
                key = tenant, owner, context, _ALL, 0, state
                found[key] = found.get(key, 0) + number
            stretch = tenant, owner, state, time >> shortest
            moved[stretch] = moved.get(stretch, 0) + number
    for (tenant, owner, state, first), number in moved.items():
        key = tenant, owner, "", _ALL, 0, state
        found[key] = found.get(key, 0) + number
        for level, bits in enumerate(_BITS):
            key = tenant, owner, "", level, first >> bits - shortest, state
            found[key] = found.get(key, 0) + number
    return sorted(item for item in found.items() if item[1])


def total(
    connection: Connection, tenant: str, owner: str, context: str, state: int, since: int | None
) -> int:
    """The number of matching tasks of a scope. context: empty for all. state: 0 for all. since:
    None for all.
    """
    if since is None:
        return _sum(connection, [_stretch(tenant, owner, context, state, _ALL)])
    if context:
        return _one_by_one(connection, tenant, owner, context, state, since, None)
    ends = [(since >> bits) + 1 for bits in _BITS]
    stretches = []
    for level, first in enumerate(ends):
        # Up to the beginning of a longer bucket.
        longer = None if level + 1 == _ALL else ends[level + 1] << _BITS[level + 1] - _BITS[level]
        stretches.append(_stretch(tenant, owner, "", state, level, first, longer))
    until = ends[0] << _BITS[0]
    return _sum(connection, stretches) + _one_by_one(
        connection, tenant, owner, "", state, since, until if until <= LATEST else None
    )


def _stretch(
    tenant: str, owner: str, context: str, state: int, level: int, first: int = 0, end: int | None = None
) -> Select[tuple[int]]:
    """Counters of one level, in the order of the key, so that the index is used."""
    query = select(counts.c.number).where(
        counts.c.tenant == tenant,
        counts.c.owner == owner,
        counts.c.context == context,
        counts.c.level == level,
        counts.c.bucket >= first,
    )
    if end is not None:
        query = query.where(counts.c.bucket < end)
    return query.where(counts.c.state == state) if state else query


def _sum(connection: Connection, queries: list[Select[tuple[int]]]) -> int:
    # As a union, because one query for all levels would scan the whole scope.
    found = union_all(*queries).subquery()
    return int(connection.scalar(select(func.coalesce(func.sum(found.c.number), 0))) or 0)


def _one_by_one(
    connection: Connection, tenant: str, owner: str, context: str, state: int, since: int, until: int | None
) -> int:
    query = select(func.count()).where(
        tasks.c.tenant == tenant, tasks.c.owner == owner, tasks.c.time >= since
    )
    if until is not None:
        query = query.where(tasks.c.time < until)
    if context:
        query = query.where(tasks.c.context == context)
    if state:
        query = query.where(tasks.c.state == state)
    return int(connection.scalar(query) or 0)


def recount(connection: Connection) -> None:
    """Counts all tasks anew, for imports by other means. Requires that no other process writes."""
    connection.execute(delete(counts))
    columns = ["tenant", "owner", "context", "level", "bucket", "state", "stripe", "number"]
    place = (tasks.c.tenant, tasks.c.owner)
    stretches = [
        (level, tasks.c.time.op(">>")(literal_column(str(bits)))) for level, bits in enumerate(_BITS)
    ]
    for context, level, bucket in (
        (tasks.c.context, _ALL, literal(0)),
        (literal(""), _ALL, literal(0)),
        *((literal(""), level, bucket) for level, bucket in stretches),
    ):
        number = select(
            *place,
            context.label("c"),
            literal(level),
            bucket.label("b"),
            tasks.c.state,
            literal(0),
            func.count(),
        ).group_by(*place, text("c"), text("b"), tasks.c.state)
        if context is tasks.c.context:
            number = number.where(tasks.c.context != "")
        connection.execute(insert(counts).from_select(columns, number))
