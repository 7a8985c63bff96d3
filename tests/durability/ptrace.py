"""System calls of a process and its threads as they happen, by ptrace and a seccomp filter.

The tracer starts the process: systems with Yama allow only that. Only the requested calls stop it. A thread
goes on after the report of its call, so effects of one thread on another are reported in order.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_NUMBERS = {
    "x86_64": {
        "read": 0,
        "write": 1,
        "pwrite64": 18,
        "readv": 19,
        "writev": 20,
        "sendto": 44,
        "recvfrom": 45,
        "sendmsg": 46,
        "recvmsg": 47,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "pwritev": 296,
        "sendmmsg": 307,
    },
    "aarch64": {
        "read": 63,
        "write": 64,
        "pwrite64": 68,
        "readv": 65,
        "writev": 66,
        "sendto": 206,
        "recvfrom": 207,
        "sendmsg": 211,
        "recvmsg": 212,
        "fsync": 82,
        "fdatasync": 83,
        "ftruncate": 46,
        "pwritev": 70,
        "sendmmsg": 269,
    },
}
NUMBERS: Mapping[str, int] = _NUMBERS.get(platform.machine(), {}) if sys.platform == "linux" else {}
_NAMES = {number: name for name, number in NUMBERS.items()}

_CONT, _SYSCALL, _SEIZE, _LISTEN, _GET_SYSCALL_INFO = 7, 24, 0x4206, 0x4208, 0x420E
_FORK, _VFORK, _CLONE, _EXEC, _SECCOMP, _STOP = 1, 2, 3, 4, 7, 128
_OPTIONS = 1 | sum(1 << event for event in (_FORK, _VFORK, _CLONE, _EXEC, _SECCOMP)) | 1 << 20
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_WALL = 0x40000000
_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_RET_TRACE, _RET_ALLOW = 0x7FF00000, 0x7FFF0000

if NUMBERS:
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    _libc.ptrace.restype = ctypes.c_long
    _libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


class Entered(NamedTuple):
    """A call that begins (result is None) or has returned; a negative result is an error number."""

    name: str
    arguments: tuple[int, ...]
    process: Process
    result: int | None = None

    @property
    def fd(self) -> int:
        return self.arguments[0]

    @property
    def target(self) -> str:
        """The target of its file descriptor: a path, or such as `socket:[1]`; empty if there is none."""
        try:
            return str(Path(f"/proc/{self.process.pid}/fd/{self.fd}").readlink())
        except OSError:
            return ""

    def data(self) -> bytes:
        """The data that it writes; the data that it has read, once it has returned."""
        first, second = self.arguments[1], self.arguments[2]
        match self.name:
            case "read" | "recvfrom":
                return self.process.memory(first, max(0, self.result or 0))
            case "recvmsg":
                return b"".join(self._vectors(*self._header(first)))[: max(0, self.result or 0)]
            case "readv":
                return b"".join(self._vectors(first, second))[: max(0, self.result or 0)]
            case "sendmsg":
                return b"".join(self._vectors(*self._header(first)))
            case "writev" | "pwritev":
                return b"".join(self._vectors(first, second))
            case "sendmmsg":
                # Each entry is a header of 56 bytes, and the number that was sent.
                return b"".join(
                    piece
                    for number in range(second)
                    for piece in self._vectors(*self._header(first + 64 * number))
                )
            case _:
                return self.process.memory(first, second)

    def _header(self, address: int) -> tuple[int, int]:
        vectors, count = struct.unpack_from("=QQ", self.process.memory(address, 56), 16)
        return vectors, count

    def _vectors(self, address: int, count: int) -> Iterator[bytes]:
        raw = self.process.memory(address, 16 * count)
        for base, length in struct.iter_unpack("=QQ", raw):
            yield self.process.memory(base, length)


class Process:
    """A process that is traced, with all its threads."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._memory = -1

    def memory(self, address: int, length: int) -> bytes:
        """The memory at an address; empty if there is none."""
        if self._memory < 0:
            self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(self._memory, length, address) if length else b""
        except OSError:
            return b""

    def renew(self) -> None:
        """Called when the process executes another program."""
        if self._memory >= 0:
            os.close(self._memory)
        self._memory = -1


class Forbidden(Exception):  # noqa: N818  the name of the system for it
    """Processes may not be traced here. The text is the reason."""


def run(
    command: Sequence[str], before: Sequence[str], after: Sequence[str], tell: Callable[[Entered], None]
) -> int:
    """Runs a program to its end. Returns its exit code.

    before, after: names of the calls to report when they begin, and when they have returned. Signals INT and
    TERM are passed on to the program. Raises Forbidden.
    """
    if not NUMBERS:
        raise Forbidden(f"system calls cannot be traced on {sys.platform} {platform.machine()}")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            os.read(reading, 1)
            _filter([NUMBERS[name] for name in {*before, *after}])
            os.execvp(command[0], list(command))  # noqa: S606  there is no shell in it
        finally:
            os._exit(127)
    os.close(reading)
    try:
        _ptrace(_SEIZE, child, 0, _OPTIONS)
    except OSError as error:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise Forbidden(f"ptrace: {error.strerror}") from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    os.write(writing, b".")
    os.close(writing)
    return _Loop(Process(child), set(before), set(after), tell).run()


class _Loop:
    def __init__(
        self, process: Process, before: set[str], after: set[str], tell: Callable[[Entered], None]
    ) -> None:
        self._process, self._before = process, before
        self._after, self._tell = after, tell
        #: thread -> the call it is in
        self._inside: dict[int, Entered] = {}

    def run(self) -> int:
        while True:
            thread, status = os.waitpid(-1, _WALL)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if thread == self._process.pid:
                    return os.waitstatus_to_exitcode(status)
                continue
            try:
                self._stopped(thread, os.WSTOPSIG(status), status >> 16)
            except ProcessLookupError:
                # It was killed in the meantime.
                continue

    def _stopped(self, thread: int, number: int, event: int) -> None:
        request, passed = _CONT, 0
        if event == _SECCOMP:
            if self._enter(thread):
                request = _SYSCALL
        elif number == _SYSCALL_STOP:
            self._leave(thread)
        elif event == _EXEC:
            self._process.renew()
        elif event == _STOP:
            if number in _STOPPING:
                request = _LISTEN
        elif event == 0:
            passed = number
        _ptrace(request, thread, 0, passed)

    def _enter(self, thread: int) -> bool:
        """Whether its return has to be reported."""
        raw = ctypes.create_string_buffer(88)
        _ptrace(_GET_SYSCALL_INFO, thread, len(raw), ctypes.addressof(raw))
        number, *arguments = struct.unpack_from("=7Q", raw.raw, 24)
        entered = Entered(_NAMES.get(number, ""), tuple(arguments), self._process)
        if entered.name in self._before:
            self._tell(entered)
        if entered.name not in self._after:
            return False
        self._inside[thread] = entered
        return True

    def _leave(self, thread: int) -> None:
        entered = self._inside.pop(thread, None)
        if entered is None:
            return
        raw = ctypes.create_string_buffer(88)
        _ptrace(_GET_SYSCALL_INFO, thread, len(raw), ctypes.addressof(raw))
        self._tell(entered._replace(result=struct.unpack_from("=q", raw.raw, 24)[0]))


def _ptrace(request: int, thread: int, address: int, data: int) -> None:
    ctypes.set_errno(0)
    if _libc.ptrace(request, thread, address, data) < 0 and (number := ctypes.get_errno()):
        raise OSError(number, os.strerror(number))


def _filter(numbers: Sequence[int]) -> None:
    """From now on these system calls of this process stop for its tracer."""
    program = [(_LOAD, 0, 0, 0)]
    program += [(_JUMP_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    program += [(_RETURN, 0, 0, _RET_ALLOW), (_RETURN, 0, 0, _RET_TRACE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    # The length, padding, and the address of the program.
    header = ctypes.create_string_buffer(struct.pack("=H6xQ", len(program), ctypes.addressof(code)))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
