"""Rows of the log: the events of one commit in one row. It neither stores nor reads rows.

The format is a protobuf message with one repeated member of number 1, so that other programs can read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.checksums import DamagedError, checksum_of, intact

#: limits of one row, so that a reader of few events does not fetch megabytes; a single event may be larger
_MOST_EVENTS = 512
_MOST_BYTES = 256 << 10
_TAG = b"\x0a"

_parse = hub.StreamResponse.FromString


class Segment(NamedTuple):
    """Events `first` to `last` of a task."""

    first: int
    last: int
    data: bytes
    #: None in rows without one
    checksum: int | None


def pack(task_id: str, first: int, events: Sequence[bytes]) -> list[Segment]:
    """Segments of serialized events of a task; the first event has the number `first`."""
    found: list[Segment] = []
    pieces: list[bytes] = []
    size = count = 0
    for event in events:
        if count and (count == _MOST_EVENTS or size + len(event) > _MOST_BYTES):
            found.append(_segment(task_id, first, count, pieces))
            first += count
            pieces, size, count = [], 0, 0
        length = len(event)
        pieces += (_TAG, bytes((length,)) if length < 128 else _varint(length), event)
        size += length
        count += 1
    if count:
        found.append(_segment(task_id, first, count, pieces))
    return found


def _segment(task_id: str, first: int, count: int, pieces: Sequence[bytes]) -> Segment:
    data = b"".join(pieces)
    last = first + count - 1
    return Segment(first, last, data, checksum_of(_key(task_id, first, last), data))


def unpack(task_id: str, segment: Segment, after: int) -> Iterator[hub.StreamResponse]:
    """The events of a segment whose numbers are greater than `after`. Raises DamagedError."""
    data, number, at = segment.data, segment.first, 0
    if not intact(segment.checksum, _key(task_id, number, segment.last), data):
        raise DamagedError(task_id)
    end = len(data)
    try:
        while at < end:
            at += 1
            length = shift = 0
            while True:
                byte = data[at]
                at += 1
                length |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if number > after:
                yield _parse(data[at : at + length])
            at += length
            number += 1
    except (DecodeError, IndexError):
        raise DamagedError(task_id) from None
    if at != end or number != segment.last + 1:
        raise DamagedError(task_id)


def _key(task_id: str, first: int, last: int) -> tuple[str, ...]:
    # Without the scope: a task id belongs to one scope, which the checksum of the body covers.
    return task_id, str(first), str(last)


def _varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)
