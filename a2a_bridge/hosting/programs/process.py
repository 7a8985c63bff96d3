"""A program at work: its process group, the bytes on its stdout, and the lines on its stderr.

Rules:
1. A program has a session and a process group of its own, without a terminal and without a shell around it.
2. The end of the program is the end of its run. What it has written is read, and processes that it leaves in
   its group are killed. A process in another group that keeps stdout or stderr open is waited for at most
   _LINGER, in all.
3. `stop` sends SIGTERM to the whole group, and SIGKILL to what is left of it after GRACE.
4. A program is reaped after its group is killed, in the same thread: until then no other process can have the
   id of the group.
5. Text of a program in the log has no control characters, and each line of it is short.
6. A pipe is read and closed by its `_Pipe` only. A transport of uvloop closes the descriptor in libuv and
   then again with its file, when another thread may have the number already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

log = logging.getLogger("a2a_bridge.hosting.programs")

#: seconds between SIGTERM and SIGKILL. An engine waits a little longer for a run that is cancelled
GRACE = 3.0
#: seconds that output is waited for after the end of a program, on both pipes together
_LINGER = 1.0
#: bytes of stdout that are kept for a slow reader
_AHEAD = 256 * 1024
#: bytes that are read at once
_CHUNK = 64 * 1024
#: characters of a line of stderr in the log, and lines in the error of a program that has failed
_LONGEST, _LAST = 500, 20
#: seconds between two looks at a group that has to end
_PAUSE = 0.02


class Process:
    """A program that has been started."""

    def __init__(self, popen: subprocess.Popen[bytes], name: str) -> None:
        self._popen = popen
        self._name = name
        self._loop = asyncio.get_running_loop()
        #: guards the id of the group, which is free for others once the program is reaped
        self._lock = threading.Lock()
        self._stopping = False
        self._deadline: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._out = _Output(cast("IO[bytes]", popen.stdout), self._ended)
        self._errors = _ErrorLines(cast("IO[bytes]", popen.stderr), name)

    @classmethod
    def start(
        cls, words: Sequence[str], executable: str, environment: Mapping[str, str], text: Path
    ) -> Process:
        """Starts a program. text: the file that is its stdin. Raises OSError if it cannot be started."""
        with text.open("rb") as stdin:
            popen = subprocess.Popen(  # noqa: S603  the loop would wait for the fork in any case
                words,
                executable=executable,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        started = cls(popen, words[0])
        try:
            threading.Thread(target=started._watch, name=f"program {popen.pid}", daemon=True).start()
        except BaseException:
            with started._lock, contextlib.suppress(ProcessLookupError):
                os.killpg(popen.pid, signal.SIGKILL)
            started._close_pipes()
            raise
        return started

    @property
    def last_errors(self) -> list[str]:
        """The last lines of stderr, for the log."""
        return list(self._errors.last)

    async def read(self) -> bytes:
        """The next bytes of stdout; empty at the end."""
        return await self._out.read()

    async def wait(self) -> int:
        """Waits for the end, also of stderr. Returns the exit code; negative: the signal that ended it."""
        code = await asyncio.shield(self._ended)
        out, since = self._out, self._loop.time()
        try:
            await asyncio.wait({self._errors.over}, timeout=max(out.left, 0.0))
        finally:
            out.left -= self._loop.time() - since
        return code

    def stop(self) -> None:
        """Ends the program and its group, within GRACE."""
        if not self._stopping and not self._ended.done():
            self._stopping = True
            self._deadline = self._loop.call_later(GRACE, self._signal, signal.SIGKILL)
            self._signal(signal.SIGTERM)

    async def close(self) -> None:
        """Stops the program if it is still there, waits for its end, and closes its pipes."""
        try:
            self.stop()
            await self.wait()
        except asyncio.CancelledError:
            self._signal(signal.SIGKILL)  # nobody waits any more
            raise
        finally:
            if self._deadline is not None and self._ended.done():
                self._deadline.cancel()
            self._close_pipes()

    def _close_pipes(self) -> None:
        self._out.pipe.close()
        self._errors.pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._popen.returncode is None:
                os.killpg(self._popen.pid, number)

    def _watch(self) -> None:
        """Waits for the end of the program in a thread, ends its group, and reaps it."""
        wait = getattr(os, "waitid", None)
        if wait is not None:
            with contextlib.suppress(ChildProcessError):
                wait(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        if self._stopping:
            self._await_group()
        with self._lock:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            code = self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_end, code)

    def _await_group(self) -> None:
        """Gives other processes of the group, which have got SIGTERM, the rest of the grace."""
        last = time.monotonic() + GRACE
        while time.monotonic() < last and _has_others(self._popen.pid):
            time.sleep(_PAUSE)

    def _on_end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)
        self._out.wake()


def _has_others(group: int) -> bool:
    """Whether a group whose leader has ended has other processes. False where the system does not say."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return False
    for name in names:
        if not name.isdigit() or int(name) == group:
            continue
        try:
            text = Path("/proc", name, "stat").read_bytes()
        except OSError:
            continue
        # The name of the program, in parentheses, may have blanks in it.
        state, _, of = text.rpartition(b")")[2].split()[:3]
        if int(of) == group and state not in (b"Z", b"X"):
            return True
    return False


class _Pipe:
    """The end of a pipe that is read here, by the running loop. on_data: gets the bytes that were read, and
    nothing at the end, once.
    """

    def __init__(self, file: IO[bytes], on_data: Callable[[bytes], None]) -> None:
        self._file = file
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._is_read = False
        os.set_blocking(file.fileno(), False)
        self.resume()

    def pause(self) -> None:
        if self._is_read:
            self._is_read = False
            self._loop.remove_reader(self._file.fileno())

    def resume(self) -> None:
        if not self._is_read and not self._file.closed:
            self._is_read = True
            self._loop.add_reader(self._file.fileno(), self._on_readable)

    def close(self) -> None:
        """Closes the descriptor. May be called twice."""
        if not self._file.closed:
            self.pause()
            self._file.close()
            self._on_data(b"")

    def _on_readable(self) -> None:
        try:
            data = os.read(self._file.fileno(), _CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        if data:
            self._on_data(data)
        else:
            self.close()


class _Output:
    """The bytes on stdout, until the end of the pipe."""

    def __init__(self, file: IO[bytes], ended: asyncio.Future[int]) -> None:
        self._ended = ended
        self._buffer = bytearray()
        self._over = False
        self._waiter: asyncio.Future[None] | None = None
        #: seconds that are left to wait after the end of the program
        self.left = _LINGER
        self.pipe = _Pipe(file, self._on_data)

    def _on_data(self, data: bytes) -> None:
        self._buffer += data
        self._over = self._over or not data
        if len(self._buffer) > _AHEAD:
            self.pipe.pause()
        self.wake()

    def _finish(self) -> None:
        self._over = True
        self.wake()

    def wake(self) -> None:
        """Lets the reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while not self._buffer and not self._over:
            self._waiter = loop.create_future()
            since, timer = loop.time(), None
            if self._ended.done():
                timer = loop.call_later(max(self.left, 0.0), self._finish)
            try:
                await self._waiter
            finally:
                if timer is not None:
                    timer.cancel()
                    self.left -= loop.time() - since
                self._waiter = None
        data = bytes(self._buffer)
        self._buffer.clear()
        self.pipe.resume()
        return data


class _ErrorLines:
    """The lines on stderr, which go to the log, and never to a caller."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._name = name
        self._rest = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: the last lines, as they are in the log
        self.last: deque[str] = deque(maxlen=_LAST)
        self.pipe = _Pipe(file, self._on_data)

    def _on_data(self, data: bytes) -> None:
        if not data:
            self._finish()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _AHEAD:
            lines.append(self._rest)
            self._rest = b""
        # A program may write millions of lines, of which a log without them needs only the last ones.
        for line in lines if log.isEnabledFor(logging.INFO) else lines[-_LAST:]:
            self._write(line)

    def _finish(self) -> None:
        if self._rest:
            self._write(self._rest)
            self._rest = b""
        if not self.over.done():
            self.over.set_result(None)

    def _write(self, line: bytes) -> None:
        text = printable(line[: 4 * _LONGEST].decode("utf-8", "replace").rstrip())
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        self.last.append(shown)
        log.info("%s: %s", printable(self._name), shown)


def printable(text: str) -> str:
    """A text on one line, with escapes for control characters and for marks that turn its direction."""
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else f"\\x{ord(one):02x}" for one in text])
