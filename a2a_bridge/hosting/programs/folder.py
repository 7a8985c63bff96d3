"""The files of runs of programs: the input of a run, its output, and the removal of both.

Rules:
1. A server has one folder of temporary files, which only its owner can read, with a folder for each run. No
   text of a caller is in a path: files are numbered, and suffixes come from the table of media types.
2. The lock of the server's folder is held as long as the server lives. A folder of this user without a holder
   is that of a server that was killed: the next one ends the programs of its runs, and removes it.
3. Output is read without following links: only regular files with one name, within a limit of bytes.
"""

import atexit
import contextlib
import logging
import mimetypes
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.programs.process import printable
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting.programs")

_PREFIX = "a2a-bridge-programs-"
_LOCK = ".lock"
#: the variable that names the folder for output, by which the programs of a dead server are found
OUT = "A2A_OUT"
#: files of one run: a task finds an artifact among those that it has
_MOST_FILES = 1000
#: how a folder is opened that a program can have replaced by a link
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
#: bytes of a question
_QUESTION = 64 * 1024

_encode_message, _encode_task = encoder(hub.Message), encoder(hub.Task)


class OutputTooLargeError(ValueError):
    """The output of a run has more than it may have. limit: how much that is; empty for bytes."""

    def __init__(self, limit: str = "") -> None:
        super().__init__(limit)
        self.limit = limit


class RunFolder:
    """The files of one run. All methods block."""

    def __init__(self, run: Run) -> None:
        """Makes the folder, with the input of the run. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(dir=_Server.folder()))
        try:
            self.text, self.request = self.path / "stdin", self.path / "request.json"
            self.question = self.path / "question"
            self.into, self.out = self.path / "in", self.path / "out"
            for one in (self.into, self.out):
                one.mkdir(mode=0o700)
            self.text.write_text(run.text, encoding="utf-8", newline="")
            described: dict[str, Any] = {
                "message": _encode_message(run.message),
                "files": list(self._write_parts(run.parts)),
            }
            if run.task is not None:
                described["task"] = _encode_task(run.task)
            self.request.write_bytes(dumps(described))
        except BaseException:
            self.remove()
            raise

    def _write_parts(self, parts: Any) -> Iterator[dict[str, Any]]:
        """Writes the parts that are no text, each to a file with its number. Yields what they are."""
        for number, part in enumerate(parts, 1):
            which = part.WhichOneof("content")
            if which == "raw":
                suffix = mimetypes.guess_extension(part.media_type.partition(";")[0].strip()) or ""
                content = part.raw
            elif which == "data":
                suffix, content = (
                    ".json",
                    dumps(_encode_message(hub.Message(parts=[part]))["parts"][0]["data"]),
                )
            else:
                continue
            name = f"{number}{suffix}"
            (self.into / name).write_bytes(content)
            yield {"path": name, "part": number, "name": part.filename, "mediaType": part.media_type}

    def read_question(self) -> str:
        """The text in the file for a question, without the end of its last line; empty if there is none."""
        try:
            parent = self._open()
            try:
                file = _opened(self.question.name, parent)
            finally:
                os.close(parent)
        except OSError:
            return ""
        with file:
            if not _is_own(file):
                return ""
            return file.read(_QUESTION).decode("utf-8", "replace").rstrip("\r\n")

    def read_file(self, name: str, most: int) -> bytes:
        """A file of the output. Raises OutputTooLargeError, and OSError for a name without a regular file."""
        folder = self._open_out()
        try:
            return _content(folder, name, most)
        finally:
            os.close(folder)

    def read_files(self, most: int, without: Collection[str]) -> list[tuple[str, bytes]]:
        """The files of the output by name, but for some. Raises OutputTooLargeError, OSError."""
        found = []
        folder = self._open_out()
        try:
            names = sorted(name for name in os.listdir(folder) if name not in without)  # noqa: PTH208  of a descriptor
            if len(names) > _MOST_FILES:
                raise OutputTooLargeError(f"{_MOST_FILES} files")
            for name in names:
                try:
                    content = _content(folder, name, most)
                except OSError as error:
                    log.warning("%s in $%s is left out: %s", printable(name), OUT, error.strerror)
                    continue
                most -= len(content)
                found.append((name, content))
        finally:
            os.close(folder)
        return found

    def _open(self) -> int:
        return os.open(self.path, _FOLDER)

    def _open_out(self) -> int:
        # Each folder by itself: a program can replace the folder of its run by a link, too.
        parent = self._open()
        try:
            return os.open(self.out.name, _FOLDER, dir_fd=parent)
        finally:
            os.close(parent)

    def remove(self) -> None:
        _remove(self.path)


def _opened(name: str, folder: int) -> BinaryIO:
    # Without O_NONBLOCK a pipe with such a name would be waited for. The opener is called by the file, which
    # closes the descriptor of a folder; `os.fdopen` would leave it open.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    return open(name, "rb", opener=lambda path, _flags: os.open(path, flags, dir_fd=folder))


def _is_own(file: BinaryIO) -> bool:
    """Whether a file is a regular one that has no other name."""
    found = os.fstat(file.fileno())
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1


def _content(folder: int, name: str, most: int) -> bytes:
    with _opened(name, folder) as file:
        if not _is_own(file):
            raise OSError(0, "it is no regular file with one name")
        content = file.read(most + 1)
    if len(content) > most:
        raise OutputTooLargeError
    return content


def _remove(folder: Path) -> None:
    """Removes a folder, also one whose permissions a program has changed. Follows no link."""
    if folder.is_symlink():  # `os.walk` follows a link that it begins with
        folder.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_dir():
        for path, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)  # noqa: PTH101  of a folder: `os.walk` follows no link
        shutil.rmtree(folder, ignore_errors=True)
    if folder.is_dir():
        log.warning("the folder %s of a run cannot be removed", folder)


class _Server:
    """The folder of this process."""

    _lock = threading.Lock()
    _folder: Path | None = None
    _owner = 0

    @classmethod
    def folder(cls) -> Path:
        """The folder, which is made when it is first needed. Raises OSError."""
        with cls._lock:
            if cls._folder is None or cls._owner != os.getpid() or not cls._folder.is_dir():
                remove_leftovers()
                cls._folder, cls._owner = cls._made(), os.getpid()
                atexit.register(cls._close, cls._folder, cls._owner)
            return cls._folder

    @staticmethod
    def _made() -> Path:
        # Under another name until it is locked: others remove folders without a lock.
        new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
        _locked(new, os.O_CREAT)
        return new.rename(new.with_name(new.name[1:]))

    @staticmethod
    def _close(folder: Path, owner: int) -> None:
        if owner == os.getpid():
            _remove(folder)


def _locked(folder: Path, flags: int = 0) -> int | None:
    """The descriptor of a folder's lock, locked until it is closed; None if another process has the lock."""
    import fcntl  # not on Windows

    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_leftovers() -> None:
    """Ends the programs, and removes the folders, of servers of this user that were killed."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = _locked(folder)
        except OSError:
            continue  # another server is removing it
        if lock is None:
            continue
        try:
            _end_programs(folder)
            _remove(folder)
        finally:
            os.close(lock)


def _end_programs(folder: Path) -> None:
    """Kills the processes whose output belongs into a folder. Only Linux shows their variables."""
    wanted = f"{OUT}={folder}{os.sep}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, AttributeError):
            # Opened first: a process that has its id later is another one.
            descriptor = os.pidfd_open(int(process.name))
            try:
                variables = b"\0" + (process / "environ").read_bytes()
                if b"\0" + wanted in variables:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    log.warning("process %s of a server that was killed is ended", process.name)
            finally:
                os.close(descriptor)
