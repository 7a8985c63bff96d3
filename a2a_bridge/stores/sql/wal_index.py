"""Compares the files of an open SQLite database with what SQLite knows of them. It opens no connection.

The index of the log (`-shm`), which all processes share, says how many frames the log has and how it begins
(sqlite.org/walformat.html). SQLite does not look whether the log still has them: after it was cut, commits
succeed and are unreadable at the next start. A checkpoint that restarts or truncates the log changes the
index too, so it is no alarm.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple

#: two copies of the header, and the number of frames that are in the database file too
_HEADER = 48
_INDEX = 2 * _HEADER + 4
#: in the machine's byte order: size of a page, number of frames, pages of the database, salt of the log
_FIELDS = Struct("=14xHII8x8s")
_BACKFILLED = Struct("=I")
_LOG_HEADER = 32
_FRAME_HEADER = 24
_SALT = slice(16, 24)


class _Index(NamedTuple):
    page_size: int
    frames: int
    pages: int
    salt: bytes
    backfilled: int


class WalIndex:
    """The files of one database. descriptor: of the database file.

    Its own descriptors stay open until `close`: closing any descriptor of a file releases SQLite's locks on
    it.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._opened: list[int] = []
        try:
            self._log = self._open("-wal")
            self._index = self._open("-shm")
        except FileNotFoundError:
            self._log = self._index = -1

    def close(self) -> None:
        """Closes its descriptors. Only after the database was closed."""
        for descriptor in self._opened:
            os.close(descriptor)

    def wrong(self) -> str:
        """The problem; empty if there is none, or if the files are changing just now."""
        before = self._read()
        if before is None:
            return ""
        log_size, file_size = os.fstat(self._log).st_size, os.fstat(self._descriptor).st_size
        salt = os.pread(self._log, _LOG_HEADER, 0)[_SALT]
        needed = _LOG_HEADER + before.frames * (before.page_size + _FRAME_HEADER) if before.frames else 0
        wrong = ""
        if log_size < needed or (needed and salt != before.salt):
            wrong = f"{self._path}-wal"
        elif before.backfilled >= before.frames and file_size < before.pages * before.page_size:
            wrong = f"{self._path}"
        if not wrong or self._read() != before:
            return ""
        return f"{wrong} was cut or written over while it was in use"

    def _open(self, suffix: str) -> int:
        descriptor = os.open(f"{self._path}{suffix}", os.O_RDONLY)
        self._opened.append(descriptor)
        return descriptor

    def _read(self) -> _Index | None:
        """None if there is nothing to compare with, or if it is being written."""
        if self._index < 0:
            return None
        data = os.pread(self._index, _INDEX, 0)
        if len(data) < _INDEX or data[:_HEADER] != data[_HEADER : 2 * _HEADER]:
            return None
        page_size, frames, pages, salt = _FIELDS.unpack_from(data)
        (backfilled,) = _BACKFILLED.unpack_from(data, 2 * _HEADER)
        return _Index(65536 if page_size == 1 else page_size, frames, pages, salt, backfilled)
