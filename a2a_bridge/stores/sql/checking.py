"""Finds damaged rows in a whole database. It reads only."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from sqlalchemy import Connection, Select, Table, and_, func, select

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.groups import send_key
from a2a_bridge.stores.ports import Scope
from a2a_bridge.stores.records import SentRow
from a2a_bridge.stores.row_format import (
    DamagedError,
    Joined,
    Segment,
    intact,
    joined_message,
    original,
    unpack,
)
from a2a_bridge.stores.sql.push import event_key
from a2a_bridge.stores.sql.schema import bodies, joined, outbox, push_configs, segments, sends, tasks


class Damaged(NamedTuple):
    """A damaged row."""

    table: str
    #: its primary key, as text
    key: str
    #: the id of the task it belongs to
    task: str


def find_damaged(connection: Connection) -> Iterator[Damaged]:
    """All rows whose content does not match its checksum or cannot be decoded; and tasks without a body, or
    without some of the events and messages that it lacks.
    """
    for table, rows, sound in _CHECKS:
        for row in connection.execution_options(stream_results=True).execute(rows):
            if not sound(row):
                key = "/".join(str(getattr(row, column.name)) for column in table.primary_key)
                yield Damaged(table.name, original(key), original(row.task))
    bodiless = select(tasks.c.id).where(tasks.c.id.not_in(select(bodies.c.task)))
    for name in connection.scalars(bodiless.union(_INCOMPLETE, _WITHOUT_MESSAGES)):
        yield Damaged(tasks.name, name, name)


def _body(row: Any) -> bool:
    if row.data is None:
        return True  # see below
    key = (row.tenant, row.owner, row.task)
    return intact(row.checksum, key, row.data) and _decodes(hub.Task.FromString, row.data)


def _segment(row: Any) -> bool:
    try:
        for _ in unpack(row.task, Segment(row.first, row.last, row.data, row.checksum), 0):
            pass
    except DamagedError:
        return False
    return True


def _joined(row: Any) -> bool:
    try:
        joined_message(row.task, Joined(row.number, row.after, row.data, row.checksum))
    except DamagedError:
        return False
    return True


def _send(row: Any) -> bool:
    scope = Scope(original(row.tenant), original(row.owner))
    sent = SentRow(row.digest, original(row.task), row.answer, row.holder, row.checksum)
    key = send_key(scope, original(row.message), sent)
    return intact(row.checksum, key, row.answer) and _decodes(hub.SendMessageResponse.FromString, row.answer)


def _config(row: Any) -> bool:
    # It may be encrypted with an unknown key.
    return intact(row.checksum, (row.tenant, row.owner, row.task, row.id), row.data, row.aside)


def _notification(row: Any) -> bool:
    key = event_key(row.task, row.config, row.sequence)
    return intact(row.checksum, key, row.event) and _decodes(hub.StreamResponse.FromString, row.event)


def _decodes(parse: Callable[[bytes], Any], data: bytes) -> bool:
    try:
        parse(data)
    except DecodeError:
        return False
    return True


#: bodies are reached through their tasks, as a reader reaches them
_BODIES = select(
    tasks.c.tenant, tasks.c.owner, tasks.c.id.label("task"), bodies.c.data, bodies.c.checksum
).outerjoin_from(tasks, bodies, bodies.c.task == tasks.c.id)

_INCOMPLETE = (
    select(tasks.c.id)
    .outerjoin_from(tasks, segments, and_(segments.c.task == tasks.c.id, segments.c.first > tasks.c.applied))
    .where(tasks.c.applied < tasks.c.last)
    .group_by(tasks.c.id, tasks.c.applied, tasks.c.last)
    .having(
        func.coalesce(func.sum(segments.c.last - segments.c.first + 1), 0) < tasks.c.last - tasks.c.applied
    )
)

_WITHOUT_MESSAGES = (
    select(tasks.c.id)
    .outerjoin_from(
        tasks, joined, and_(joined.c.task == tasks.c.id, joined.c.number > tasks.c.joined_applied)
    )
    .where(tasks.c.joined_applied < tasks.c.joined)
    .group_by(tasks.c.id, tasks.c.joined_applied, tasks.c.joined)
    .having(func.count(joined.c.number) < tasks.c.joined - tasks.c.joined_applied)
)

_CHECKS: tuple[tuple[Table, Select[Any], Callable[[Any], bool]], ...] = (
    (bodies, _BODIES, _body),
    (segments, select(segments), _segment),
    (joined, select(joined), _joined),
    (sends, select(sends), _send),
    (push_configs, select(push_configs), _config),
    (outbox, select(outbox), _notification),
)
