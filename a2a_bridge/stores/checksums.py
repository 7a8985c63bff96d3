"""Checksums of row contents, so that altered bytes are never served as genuine. It knows no tables.

CRC-32 finds every change of up to 32 bits in a row, and all but one in four billion of the others, at a tenth
of the cost of a digest. It does not protect against deliberate changes of the database.

A checksum covers the key of its row too, as the reader asked for it: after damage to an index or a key, a row
can be reached under the key of another one, with intact content.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar
from zlib import crc32

from google.protobuf.message import DecodeError

from a2a_bridge.core.errors import A2AError, Blame, Reason

log = logging.getLogger("a2a_bridge.store")

Parsed = TypeVar("Parsed")

#: marks checksums that cover the key. Those without it were written by older versions, of the content alone
_KEYED = 1 << 32


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
    """The message of a row. key: as above; the last one is the id of the task. Raises DamagedError."""
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
