"""Server-sent events, both ways (WHATWG HTML 9.2), and batches of them: events that are ready together are
sent together. Incremental; it does not know the content of events.

Rules:
1. Reading accepts every line end (CRLF, LF, CR), a byte order mark, comments, unknown fields, and chunk
   borders anywhere, also inside a character. Data stays bytes: its parser checks the UTF-8.
2. Writing uses one `data` line per event, because some readers support no other form.
3. A decoder holds at most `limit` bytes of an unfinished event.
4. An event without data, or with empty data, is left out: some servers and proxies send such events as
   keep-alives, and the official SDK ignores them (1.3.0, client/transports/http_helpers.py).
5. A JSON object without `data:`, up to a blank line or the end of the stream, is an event: some servers
   answer with a plain response under the media type of streams. No field of the format begins with `{`.
6. `run_flushing` sends the written data at the moment when the writer has to wait, so that no event is
   delayed. A writer that never waits keeps to the bounds of number, size and time here.
"""

import asyncio
import re
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

from a2a_bridge.core.resume import is_id

T = TypeVar("T")

BATCH_EVENTS = 16
BATCH_BYTES = 16 * 1024
#: longest delay of events from a writer that never waits (seconds)
BATCH_TIME = 0.005


class Flushed(Protocol):
    """A writer of messages."""

    parts: list[bytes]

    async def flush(self) -> None:
        """Sends `parts` and empties it."""


@coroutine
def run_flushing(work: Coroutine[Any, Any, T], out: Flushed) -> Generator[Any, Any, T]:
    """Runs `work` in this task. Before it waits, the data that it has written to `out` is sent."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        value = error = None
        try:
            if out.parts:
                yield from out.flush().__await__()
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001  raised again inside `work`
            error = raised
            if isinstance(raised, asyncio.CancelledError) and asyncio.isfuture(waits_for):
                waits_for.cancel()  # as the task does with the future that it waits for


KEEP_ALIVE = b": keep-alive\n\n"
#: bytes of an event's type
_LONGEST_NAME = 256
#: further empty lines say nothing
_EMPTY_LINES = re.compile(rb"\n{3,}")

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its type ("message" by default), its data lines, joined by LF, and its own id. The id of an
    earlier event, which the format lets persist, is not used.
    """

    type: str
    data: bytes
    id: str = ""


class EventTooLargeError(ValueError):
    """An event is larger than the decoder may hold."""


#: line ends of Unicode that this format does not have: readers built on `str.splitlines` break lines at them
_UNICODE_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def one_line(data: bytes) -> bytes:
    """Compact JSON as one line for every reader: line ends of Unicode are escaped as in JSON."""
    if not data.isascii() and (data.find(b"\xe2\x80") >= 0 or data.find(b"\xc2\x85") >= 0):
        for raw, escaped in _UNICODE_LINE_ENDS:
            data = data.replace(raw, escaped)
    return data


def encode(data: bytes, name: bytes = b"", id: str = "") -> bytes:  # noqa: A002  the format's word
    """An event, optionally with a type and an id. data: compact JSON, which has no line ends. Raises
    ValueError for an invalid id (see core.resume).
    """
    if not data.isascii():
        data = one_line(data)
    if not id:
        line = b"data: " + data + b"\n\n"
    # Most ids are plain numbers, which need no call.
    elif (id.isascii() and id.isalnum() and len(id) <= 64) or is_id(id):
        line = b"id: %b\ndata: %b\n\n" % (id.encode(), data)
    else:
        raise ValueError(f"{id[:80]!r} cannot be the id of an event")
    return b"event: " + name + b"\n" + line if name else line


def _joined(before: bytes | bytearray, more: bytes) -> bytes | bytearray:
    """Both texts; the first one is changed if it is an array."""
    if not before:
        return more
    if type(before) is bytes:
        before = bytearray(before)
    before += more
    return before


class Decoder:
    """Converts chunks to events. `held` is the number of bytes of the unfinished one."""

    __slots__ = ("_after_cr", "_data", "_id", "_is_object", "_limit", "_line", "_name", "_start", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: the unfinished line. An array from the second chunk on, which holds it without an object for each
        self._line: bytes | bytearray = b""
        #: the data lines of the event, joined by LF; None without any. An array from the second line on
        self._data: bytes | bytearray | None = None
        self.held = 0
        self._name = ""
        self._id = ""
        #: whether the data are lines of an object without `data:`
        self._is_object = False
        self._after_cr = False
        self._start: bytes | None = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes, in time linear in its length. Raises EventTooLargeError."""
        if self._start is not None:
            chunk = self._without_mark(chunk)
        if not chunk:
            return []
        if self._after_cr:
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        # `find`, because `in` tries its left side as a number first, and for bytes that fails slowly.
        if chunk.find(b"\r") >= 0:
            self._after_cr = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if chunk.find(b"\n\n\n") >= 0:
            chunk = _EMPTY_LINES.sub(b"\n\n", chunk)
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line = b""
        last = lines.pop()
        events: list[Event] = []
        for line in lines:
            if line:
                self._read(line)
                continue
            if self._data is not None:
                data = bytes(self._data)  # no copy of one line
                if data and not data.isspace():
                    events.append(tuple.__new__(Event, (self._name or "message", data, self._id)))
                self._data = None
                self._is_object = False
            self._name = self._id = ""
        if last:
            self._line = _joined(self._line, last)
        self.held = len(self._line) + (0 if self._data is None else len(self._data) + 1)
        if self.held > self._limit:
            raise self._too_large()
        return events

    def end(self) -> list[Event]:
        """The object that the end of the stream completes, if there is one."""
        if not self._begins_object(self._line):
            return []
        data = bytes(self._line if self._data is None else _joined(self._data, b"\n" + self._line)).rstrip()
        if not data.endswith(b"}"):
            return []
        self._data, self._line = None, b""
        return [Event("message", data, self._id)]

    def _begins_object(self, line: bytes | bytearray) -> bool:
        return self._is_object or (self._data is None and line.lstrip().startswith(b"{"))

    @property
    def pending(self) -> bool:
        """True if the stream would end in the middle of an event if it ended here."""
        has_data = self._data is not None and bool(self._data.strip(b"\n"))
        return has_data or bool(self._line and not self._line.startswith(b":"))

    def _read(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data" and self._data is None:
            self._data = value  # of one line, as events are
            if len(value) > self._limit:
                raise self._too_large()
        elif name == b"data":
            self._add(value)
        elif name == b"event":
            self._name = value[:_LONGEST_NAME].decode(errors="replace")
        elif name == b"id":
            self._id = value.decode(errors="replace")
            if not is_id(self._id):
                self._id = ""  # an id of a foreign format: a subscription could not use it
        elif self._begins_object(line):
            self._is_object = True
            self._add(line)
        # `retry` is for readers that reconnect by themselves; comments and other fields say nothing

    def _add(self, line: bytes) -> None:
        self._data = line if self._data is None else _joined(self._data, b"\n" + line)
        if len(self._data) > self._limit:
            raise self._too_large()

    def _too_large(self) -> EventTooLargeError:
        return EventTooLargeError(f"an event is larger than {self._limit} bytes")

    def _without_mark(self, chunk: bytes) -> bytes:
        head = (self._start or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._start = head
            return b""
        self._start = None
        return head.removeprefix(_BOM)
