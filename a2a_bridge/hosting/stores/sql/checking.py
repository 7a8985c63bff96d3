"""Finds damaged rows in a whole database. It reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from sqlalchemy import Connection, Table, select

from a2a_bridge.hosting.stores.sql.checksums import DamagedError, intact
from a2a_bridge.hosting.stores.sql.schema import bodies, outbox, push_configs, segments, sends, tasks
from a2a_bridge.hosting.stores.sql.segments import Segment, unpack
from a2a_bridge.hosting.stores.sql.text import original
from a2a_bridge.pb import lf_a2a_v1 as hub


class Damaged(NamedTuple):
    """A damaged row."""

    table: str
    #: its primary key, as text
    key: str
    #: the id of the task it belongs to
    task: str


def damaged(connection: Connection) -> Iterator[Damaged]:
    """All rows whose content does not match its checksum or cannot be decoded; and tasks without a body."""
    for table, sound in _CHECKS:
        for row in connection.execution_options(stream_results=True).execute(select(table)):
            if not sound(row):
                key = "/".join(str(getattr(row, column.name)) for column in table.primary_key)
                yield Damaged(table.name, original(key), original(row.task))
    bodiless = select(tasks.c.id).where(tasks.c.id.not_in(select(bodies.c.task)))
    for name in connection.scalars(bodiless):
        yield Damaged(tasks.name, name, name)


def _body(row: Any) -> bool:
    return intact(row.data, row.checksum) and _decodes(hub.Task.FromString, row.data)


def _segment(row: Any) -> bool:
    try:
        for _ in unpack(row.task, Segment(row.first, row.last, row.data, row.checksum), 0):
            pass
    except DamagedError:
        return False
    return True


def _send(row: Any) -> bool:
    return intact(row.answer, row.checksum) and _decodes(hub.SendMessageResponse.FromString, row.answer)


def _config(row: Any) -> bool:
    return intact(row.data + row.aside, row.checksum)  # it may be encrypted with an unknown key


def _notification(row: Any) -> bool:
    return intact(row.event, row.checksum) and _decodes(hub.StreamResponse.FromString, row.event)


def _decodes(parse: Callable[[bytes], Any], data: bytes) -> bool:
    try:
        parse(data)
    except DecodeError:
        return False
    return True


_CHECKS: tuple[tuple[Table, Callable[[Any], bool]], ...] = (
    (bodies, _body),
    (segments, _segment),
    (sends, _send),
    (push_configs, _config),
    (outbox, _notification),
)
