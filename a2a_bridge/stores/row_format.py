"""The content of rows: texts that every database stores, checksums, segments of the log. It knows no tables.

Rules:
1. Texts of callers are converted: PostgreSQL has no NUL.
2. Checksums find altered bytes, so that they are never served as genuine. CRC-32 finds every change of up to
   32 bits in a row, and all but one in four billion of the others, at a tenth of the cost of a digest. It
   does not protect against deliberate changes of the database.
3. A checksum covers the key of its row too, as the reader asked for it: after damage to an index or a key, a
   row can be reached under the key of another row, with intact content.
4. A segment is one row with the events of one commit. Its format is a protobuf message with one repeated
   member of number 1, so that other programs can read it.
5. A message that joins the history of a task is no event: it has a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar
from zlib import crc32

from google.protobuf.message import DecodeError

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub

Parsed = TypeVar("Parsed")

#: marks checksums that cover the key. Checksums of older versions have no mark, and cover the content alone
_KEYED = 1 << 32
#: limits of a segment, so that a reader of few events does not fetch megabytes; a single event may be larger
_MOST_EVENTS = 512
_MOST_BYTES = 256 << 10
_TAG = b"\x0a"

_parse = hub.StreamResponse.FromString


def storable(text: str) -> str:
    """A text of a caller without NUL; different texts stay different."""
    if "\0" not in text and "\x1b" not in text:
        return text
    return text.replace("\x1b", "\x1b1").replace("\0", "\x1b0")


def original(text: str) -> str:
    """The inverse of `storable`."""
    return text.replace("\x1b0", "\0").replace("\x1b1", "\x1b") if "\x1b" in text else text


class DamagedError(A2AError):
    """The content of a row is damaged. To callers: DATA_LOSS with the task."""

    def __init__(self, task_id: str) -> None:
        text = "the stored task is damaged"
        super().__init__(Reason.DATA_LOSS, text, metadata={"taskId": task_id}, blame=Blame.SELF)
        self.task_id = task_id


def checksum_of(key: Sequence[str], *data: bytes) -> int:
    """The checksum of a row. key: ids and scope, as in rows, so without NUL. data: its content."""
    return _KEYED | _crc(data, crc32("\0".join(key).encode()))


def intact(checksum: int | None, key: Sequence[str], *data: bytes) -> bool:
    """True if key and content match a checksum. checksum: None for rows written before checksums existed."""
    if checksum is None:
        return True
    if checksum < _KEYED:
        return _crc(data, 0) == checksum
    return checksum_of(key, *data) == checksum


def parse_checked(
    parse: Callable[[bytes], Parsed], checksum: int | None, key: Sequence[str], data: bytes | None
) -> Parsed:
    """The message of a row. key: as for `checksum_of`, with the id of the task last. Raises DamagedError."""
    if data is None or not intact(checksum, key, data):
        raise DamagedError(key[-1])
    try:
        return parse(data)
    except DecodeError:
        raise DamagedError(key[-1]) from None


def _crc(data: Sequence[bytes], start: int) -> int:
    for one in data:
        start = crc32(one, start)
    return start


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


class Joined(NamedTuple):
    """A message that joined the history of a task."""

    #: such messages of a task are numbered from 1 without gaps, apart from its events
    number: int
    #: the number of the event after which it joined
    after: int
    #: the serialized message
    data: bytes
    checksum: int | None


def join_row(task_id: str, number: int, after: int, data: bytes) -> Joined:
    """The row of a serialized message."""
    return Joined(number, after, data, checksum_of(_joined_key(task_id, number, after), data))


def joined_message(task_id: str, row: Joined) -> hub.Message:
    """The message of a row. Raises DamagedError."""
    if not intact(row.checksum, _joined_key(task_id, row.number, row.after), row.data):
        raise DamagedError(task_id)
    try:
        return hub.Message.FromString(row.data)
    except DecodeError:
        raise DamagedError(task_id) from None


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


def _joined_key(task_id: str, number: int, after: int) -> tuple[str, ...]:
    return task_id, "joined", str(number), str(after)


def _varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)
