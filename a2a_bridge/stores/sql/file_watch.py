"""Detects that the open SQLite file was deleted, replaced or cut. It repairs nothing and writes nothing.

Rules of FileWatch:
1. After a replacement, the process would write into a file that no later process finds. So the device and
   inode of the open file, its log and its index are compared with the files at the path.
2. A file that is overwritten keeps its inode. So each process notes a token in the database when it opens it,
   and checks the token at its place in the file.
3. The file and its log must be as long as SQLite knows them to be: WalIndex compares them.
4. The descriptor stays open as long as the database: closing any descriptor of a file releases SQLite's locks
   on the file.

WalIndex opens no connection. The index of the log (`-shm`), which all processes share, says how many frames
the log has and how it begins (sqlite.org/walformat.html). SQLite does not look whether the log still has
them: after it was cut, commits succeed and are unreadable at the next start. A checkpoint that restarts or
truncates the log changes the index too, so it is no alarm.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger("a2a_bridge.store")


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
    """The files of one database, open until `close` (see rule 4). descriptor: of the database file."""

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


#: seconds between two checks of the file's content, and of its path while there are no writes
_PAUSE = 1.0
_ROOT = text("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'settings'")
_REMEDY = "stop the process, put the file back together with its -wal, or remove that, and start again"
_REMEDY_OF_CUT = "stop the process, restore a copy or keep what is left, and run a2a-bridge db check"


class FileChangedError(SQLAlchemyError):
    """The file of the database or its log was deleted, replaced, overwritten or cut while it was open."""


class FileWatch:
    """Watches one file. Its methods may be called in any thread. token: noted in `settings`; empty for none.
    connect: makes a connection to the file.
    """

    def __init__(self, path: Path, token: bytes, connect: Callable[[], Connection]) -> None:
        self._path = path
        self._token = token
        self._connect = connect
        self._descriptor = os.open(path, os.O_RDONLY)
        self._index = WalIndex(path, self._descriptor)
        #: device and inode of each file at the start
        self._known: dict[Path, tuple[int, int]] = {}
        for one in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            try:
                found = one.stat()
            except FileNotFoundError:
                continue
            self._known[one] = (found.st_dev, found.st_ino)
        self._size = 0
        self._at = 0
        self._looked = self._read = monotonic()
        self._wrong = ""
        if token and not self._find():
            self._token = b""

    def close(self) -> None:
        """Closes the descriptors. Only after the database was closed."""
        self._index.close()
        os.close(self._descriptor)

    def wrong(self) -> str:
        """The problem; empty if there is none. Checks at most once a second."""
        if monotonic() - self._looked >= _PAUSE:
            self._look()
        return self._wrong

    def check(self) -> None:
        """Checks now. Raises FileChangedError."""
        self._look()
        if self._wrong:
            raise FileChangedError(self._wrong)

    def check_path(self) -> None:
        """Checks now, only the files at the path. Opens nothing. Raises FileChangedError."""
        wrong = self._misplaced()
        if wrong:
            raise FileChangedError(wrong)

    def _look(self) -> None:
        self._looked = monotonic()
        remedy = _REMEDY
        wrong = self._misplaced()
        if not wrong and (wrong := self._index.wrong()):
            remedy = _REMEDY_OF_CUT
        if not wrong and (self._wrong or self._looked - self._read >= _PAUSE):
            self._read = self._looked
            wrong = self._written_over()
        before, self._wrong = self._wrong, wrong
        if wrong and wrong != before:
            log.error("%s; nothing more is written: %s", wrong, remedy)
        elif before and not wrong:
            log.warning("%s is back", self._path)

    def _misplaced(self) -> str:
        for path, known in self._known.items():
            # SQLite itself creates a new file in place of a deleted file, so the two cases look alike.
            gone = f"{path} was deleted or replaced while it was in use"
            try:
                found = path.stat()
            except FileNotFoundError:
                return gone
            except OSError as error:
                return f"{path} cannot be looked at: {error.strerror}"
            if (found.st_dev, found.st_ino) != known:
                return gone
        return ""

    def _written_over(self) -> str:
        if not self._token or self._token in self._page():
            return ""
        try:
            found = self._find()  # another program may have compacted the file, which moves tables
        except SQLAlchemyError:
            found = False
        return "" if found else f"{self._path} was written over while it was in use"

    def _page(self) -> bytes:
        return os.pread(self._descriptor, self._size, self._at)

    def _find(self) -> bool:
        """Finds the page that contains the token. Returns False if there is none."""
        connection = self._connect()
        try:
            root = connection.scalar(_ROOT)
            size = connection.scalar(text("PRAGMA page_size"))
        finally:
            connection.rollback()
            connection.close()
        if not root or not size:
            return False
        self._size, self._at = int(size), (int(root) - 1) * int(size)
        return self._token in self._page()
