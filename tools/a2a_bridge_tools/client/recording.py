"""Records what is said between a client and an agent, as NDJSON (`--record`), and prints frames (`--debug`).

Rules:
1. A line is one JSON object with `at` (seconds since the beginning), `hop` (such as `upstream`) and
   `exchange` (a number, counted by sent frames). With `call` and `request` it is an operation of A2A; with
   `sent` it is a frame: `head`, `headers`, and its `body` as text, or `base64` with the `message` in it.
   `cell` names the interface, if a call went over several.
2. Credentials are never recorded or printed: values of headers that hold some, members of queries, and values
   that are known, wherever they stand, are `***`. Bytes with one of them are left out where their message is
   there. `--debug` prints all other bytes as they are.
3. The recorder knows no file and no loop. Client sides (`observer` is for `DialOptions.frame_observer`),
   listeners, and gateways for both of their hops give it their frames.
"""

from __future__ import annotations

import os
import stat
import sys
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.frames import Frame, shown_lines
from a2a_bridge.cli.output import print_message
from a2a_bridge.cli.values import usage_error
from a2a_bridge.codec import Json, JsonSyntaxError, decoder, dumps, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.masking import HIDDEN, NONE_KNOWN, Secrets
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service

#: bytes of one line that is read: more than a frame with the largest body that a server takes by default
LONGEST_LINE = 64 << 20

_OPERATIONS = {one.name: one for one in ops.ALL}


@dataclass(slots=True)
class Recorder:
    """Writes lines. write: takes one line, with its end. clock: monotonic, in seconds. secrets: masked."""

    write: Callable[[str], object]
    clock: Callable[[], float] = monotonic
    secrets: Secrets = NONE_KNOWN
    _exchange: int = 0
    _begun: float = field(default=-1.0)

    def observer(self, hop: str, **members: Json) -> Callable[[Frame], None]:
        """Takes the frames of one hop. members: more of each line."""

        def observe(frame: Frame) -> None:
            if frame.sent and frame.head:
                self._exchange += 1
            self._line(hop, members | frame_tree(frame, self.secrets))

        return observe

    def call(self, hop: str, call: Call[Any, Any]) -> None:
        """Takes an operation."""
        self._line(hop, call_tree(call.operation, call.request))

    def _line(self, hop: str, tree: dict[str, Any]) -> None:
        now = self.clock()
        if self._begun < 0:
            self._begun = now
        head = {"at": round(now - self._begun, 6), "hop": hop, "exchange": self._exchange}
        self.write(self.secrets.text(dumps(head | tree).decode()) + "\n")


def call_tree(operation: ops.Operation[Any, Any], request: Any) -> dict[str, Any]:
    """The members of a line about an operation."""
    return {"call": operation.name, "request": encoder(type(request))(request)}


def frame_tree(frame: Frame, secrets: Secrets = NONE_KNOWN) -> dict[str, Any]:
    """The members of a line about a frame. secrets: are masked."""
    headers = [[name, secrets.header(name, value)] for name, value in frame.headers]
    tree: dict[str, Any] = {"sent": frame.sent}
    if frame.head:
        tree["head"] = secrets.head(frame.head)
    if headers:
        tree["headers"] = headers
    return tree | _body(frame, secrets)


def _body(frame: Frame, secrets: Secrets) -> dict[str, Json]:
    if not frame.body and frame.message is None:
        return {}
    has_secrets = secrets.are_in(frame.body)
    shown = HIDDEN if has_secrets else b64encode(frame.body).decode()
    if frame.message is not None:
        tree: Json = encoder(type(frame.message))(frame.message)
        return {
            "base64": shown,
            "message": loads(secrets.text(dumps(tree).decode())) if has_secrets else tree,
        }
    try:
        return {"body": secrets.text(frame.body.decode())}
    except UnicodeDecodeError:
        return {"base64": shown}


def lines_of(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The lines of a record, read one by one. Raises ValueError for one of more than `longest` bytes."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise ValueError(f"line {number} is no line of a record: it has more than {longest} bytes")
        yield line


def calls_of(lines: Iterable[bytes]) -> list[tuple[ops.Operation[Any, Any], Any]]:
    """The operations of a record, with their requests. Raises ValueError that names the line at fault."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            tree = loads(line)
            if not isinstance(tree, dict):
                raise TypeError("not an object")  # noqa: TRY301  one text for all that is wrong
            if "call" in tree:
                operation = _OPERATIONS[str(tree["call"])]
                found.append((operation, decoder(operation.request)(tree["request"])))
        except (JsonSyntaxError, A2AError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} is no line of a record: {error}") from None
    return found


#: the hop of a command: from here to the agent
HOP = "upstream"


@contextmanager
def record_to(path: Path | None) -> Iterator[Recorder | None]:
    """A recorder of lines in a file, for its owner only; None without a file. A file that is there keeps
    its mode, with a warning. Raises typer.BadParameter.
    """
    if path is None:
        yield None
        return
    try:
        path.touch(0o600)
        file = path.open("w", encoding="utf-8", buffering=1)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if sys.platform != "win32" and mode & 0o077:
            text = (
                f"warning: {path} has mode {mode:04o}, and others may read the record; try: chmod 600 {path}"
            )
            print_message(text, "yellow")
    except OSError as error:
        raise usage_error("--record", f"{path} cannot be written: {error.strerror}") from None
    with file:
        yield Recorder(file.write)


def add_observer(options: DialOptions, observe: Callable[[Frame], None]) -> DialOptions:
    """The options with a further observer of frames."""
    earlier = options.frame_observer
    if earlier is None:
        return replace(options, frame_observer=observe)

    def both(frame: Frame) -> None:
        observe(frame)
        earlier(frame)

    return replace(options, frame_observer=both)


class Recorded:
    """A service whose calls are recorded."""

    def __init__(self, service: Service, recorder: Recorder) -> None:
        self._service = service
        self._recorder = recorder

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        self._recorder.call(HOP, call)
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        self._recorder.call(HOP, call)
        return self._service.stream(call)


def show_frame(frame: Frame, secrets: Secrets = NONE_KNOWN) -> None:
    """Prints a frame: `>` for a sent one, `<` for a received one. secrets: are masked."""
    mark, style = (">", "cyan") if frame.sent else ("<", "green")
    for line in shown_lines(frame, secrets):
        print_message(f"{mark} {line}".rstrip(), style)
