"""Runs a program and records data that it receives, writes, syncs and sends: one JSON document a line.

    python -m tests.durability.tracer [--content] OUT -- COMMAND…
    {"what": "received"|"sent"|"written"|"synced"|"cut", "where": PATH or "socket", "marks": […], …}

marks: words that name a message or a piece of its answer. Writes to a file have `at` and, with --content,
`content` in hex. A failed call is not recorded. Exit code 77: tracing is forbidden.
"""

import argparse
import json
import re
import sys
from typing import IO, Any

from tests.durability.ptrace import Entered, Forbidden, run

#: exit code if tracing is forbidden
FORBIDDEN = 77
_MARK = re.compile(rb"m[0-9a-f]{15}(?::\d+\.)?")
_SENT = ("write", "writev", "sendto", "sendmsg", "sendmmsg")
_RECEIVED = ("read", "readv", "recvfrom", "recvmsg")
_FILES = ("pwrite64", "pwritev", "fsync", "fdatasync", "ftruncate")


class _Book:
    def __init__(self, out: IO[str], content: bool) -> None:
        self._out, self._content = out, content

    def tell(self, call: Entered) -> None:
        target = call.target
        socket = target.startswith("socket:")
        if call.result is not None and call.result < 0:
            return
        if call.name in _SENT or call.name in _RECEIVED:
            if not socket:
                return
            if found := _marks(call.data()):
                self._write("sent" if call.name in _SENT else "received", "socket", marks=found)
        elif call.name in ("fsync", "fdatasync"):
            self._write("synced", target)
        elif call.name == "ftruncate":
            self._write("cut", target, at=call.arguments[1])
        elif call.name in _FILES:
            data = call.data()
            more = {"content": data.hex()} if self._content else {}
            self._write("written", target, marks=_marks(data), at=call.arguments[3], length=len(data), **more)

    def _write(self, what: str, where: str, **more: Any) -> None:
        self._out.write(json.dumps({"what": what, "where": where, **more}) + "\n")
        self._out.flush()


def _marks(data: bytes) -> list[str]:
    return sorted({mark.decode() for mark in _MARK.findall(data)})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durability.tracer")
    parser.add_argument("out", type=argparse.FileType("w"))
    parser.add_argument("--content", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = [part for part in arguments.command if part != "--"]
    book = _Book(arguments.out, arguments.content)
    try:
        # Sent data counts from the moment it may leave, synced data from the end of the sync.
        return run(command, _SENT, (*_RECEIVED, *_FILES), book.tell)
    except Forbidden as error:
        print(error, file=sys.stderr)
        return FORBIDDEN


if __name__ == "__main__":
    raise SystemExit(main())
