"""Checksums of row contents, so that altered octets are never served as genuine. It knows no tables.

CRC-32 finds every change of up to 32 bits in a row, and all but one in four billion of the others, at a tenth
of the cost of a digest. It does not protect against deliberate changes of the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from google.protobuf.message import DecodeError

from a2a_bridge.core.errors import A2AError, Blame, Reason

log = logging.getLogger("a2a_bridge.store")

Parsed = TypeVar("Parsed")


class DamagedError(A2AError):
    """The content of a row is damaged. To callers: DATA_LOSS with the task."""

    def __init__(self, task_id: str) -> None:
        text = "the stored task is damaged"
        super().__init__(Reason.DATA_LOSS, text, metadata={"taskId": task_id}, blame=Blame.SELF)
        self.task_id = task_id


def intact(data: bytes | None, checksum: int | None) -> bool:
    """True if octets match their checksum. checksum: None for rows written before checksums existed."""
    return data is not None and (checksum is None or crc32(data) == checksum)


def parsed(
    task_id: str, parse: Callable[[bytes], Parsed], data: bytes | None, checksum: int | None
) -> Parsed:
    """The message of a row. Raises DamagedError."""
    if data is None or not intact(data, checksum):
        raise DamagedError(task_id)
    try:
        return parse(data)
    except DecodeError:
        raise DamagedError(task_id) from None
