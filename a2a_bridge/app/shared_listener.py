"""Notices that several worker processes of one ASGI server serve an agent, as `uvicorn --workers` and
gunicorn start them. It rejects nothing: a SQLite file has a lock of its own.

Such workers have one parent, and listen on sockets that it has bound: each process locks a file for each of
these addresses, and the second finds it locked. A server in one process has bound nothing when it starts, or
an address of its own.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

_log = logging.getLogger("a2a_bridge.shared_listener")

#: the locks of this process by file; they end with it
_held: dict[Path, FileLock] = {}


def note_other_workers(name: str) -> None:
    """Logs a warning if another worker process of this server serves an agent. name: of the agent, which
    keeps its tasks in this process.
    """
    if not all(map(_alone, _bound())):
        _log.warning(
            "several worker processes of this server serve the agent %r, and each keeps its own tasks:"
            " a task is often not found again. Start one worker, or use"
            " ServeOptions(store='postgresql://…'). This is for agents that answer with messages only",
            name,
        )


def _alone(address: str) -> bool:
    """Whether no other process of the same parent has called this for an address."""
    key = hashlib.sha256(f"{os.getuid()} {os.getppid()} {address}".encode()).hexdigest()[:32]
    path = Path(tempfile.gettempdir()) / f"a2a-bridge-{key}.lock"
    if path in _held:
        return True
    lock = FileLock(path, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return False
    except OSError:  # no such folder, or a file of another user: unknown
        return True
    _held[path] = lock
    atexit.register(path.unlink, missing_ok=True)
    return True


def _bound() -> Iterator[str]:
    """The addresses that sockets of this process accept connections at, or will."""
    with suppress(OSError):  # systems without it
        for path in list(Path("/dev/fd").iterdir()):
            with suppress(OSError):  # closed meanwhile
                if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                    yield from _address(int(path.name))


def _address(descriptor: int) -> Iterator[str]:
    found = socket.socket(fileno=descriptor)
    try:
        address = found.getsockname()
        with suppress(OSError):
            found.getpeername()
            return
        unbound = not address or (isinstance(address, tuple) and address[1] == 0)
        if found.type == socket.SOCK_STREAM and not unbound:
            yield repr(address)
    finally:
        found.detach()
