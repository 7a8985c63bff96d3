"""Server-sent events, both ways (WHATWG HTML 9.2). Pure and incremental; it does not know the events'
content.

Rules:
1. Reading accepts every line end (CRLF, LF, CR), a byte order mark, comments, unknown fields, and chunk
   borders anywhere, also inside a character. Data stays bytes: its parser checks the UTF-8.
2. Writing uses one `data` line per event, because some readers support no other form.
3. A decoder holds at most `limit` bytes of an unfinished event.
4. An event without data, or with empty data, is left out: some servers and proxies send such events as
   keep-alives, and the official SDK ignores them (1.3.0, client/transports/http_helpers.py).
"""

from __future__ import annotations

from typing import NamedTuple

from a2a_bridge.core.resume import is_id

KEEP_ALIVE = b": keep-alive\n\n"

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
    if not data.isascii() and (b"\xe2\x80" in data or b"\xc2\x85" in data):
        for raw, escaped in _UNICODE_LINE_ENDS:
            data = data.replace(raw, escaped)
    return data


def encode(data: bytes, name: bytes = b"", id: str = "") -> bytes:  # noqa: A002  the format's word
    """An event, optionally with a type and an id. `data` is compact JSON, which has no line ends.

    Raises ValueError for an invalid id (see core.resume).
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


class Decoder:
    """Converts chunks to events."""

    __slots__ = ("_after_cr", "_data", "_held", "_id", "_limit", "_name", "_start", "_tail", "_tail_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._data: list[bytes] = []
        self._held = 0
        self._name = ""
        self._id = ""
        self._after_cr = False
        self._start: bytes | None = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Raises EventTooLargeError."""
        if self._start is not None:
            chunk = self._without_mark(chunk)
        if not chunk:
            return []
        if self._after_cr:
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._tail:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail.clear()
            self._tail_size = 0
        last = lines.pop()
        events: list[Event] = []
        for line in lines:
            if line:
                self._line(line)
                continue
            if self._data:
                data = b"\n".join(self._data)
                if data and not data.isspace():
                    events.append(Event(self._name or "message", data, self._id))
                self._data = []
                self._held = 0
            self._name = self._id = ""
        if last:
            self._tail.append(last)
            self._tail_size += len(last)
        self._check()
        return events

    @property
    def pending(self) -> bool:
        """True if the stream would end in the middle of an event if it ended here."""
        return any(self._data) or any(not part.startswith(b":") for part in self._tail[:1])

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._held += len(value) + 1
            self._check()
        elif name == b"event":
            self._name = value.decode(errors="replace")
        elif name == b"id":
            self._id = value.decode(errors="replace")
            if not is_id(self._id):
                self._id = ""  # an id of a foreign format: a subscription could not use it
        # `retry` is for readers that reconnect by themselves; comments have no name, and other fields no
        # meaning

    def _check(self) -> None:
        if self._held + self._tail_size > self._limit:
            raise EventTooLargeError(f"an event is larger than {self._limit} bytes")

    def _without_mark(self, chunk: bytes) -> bytes:
        head = (self._start or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._start = head
            return b""
        self._start = None
        return head.removeprefix(_BOM)
