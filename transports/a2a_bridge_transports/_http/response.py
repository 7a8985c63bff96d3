"""Responses as whole blocks of bytes. It decides no status and opens no socket."""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from a2a_bridge_transports._http.exchange import Headers, Reply

#: the response to `Expect: 100-continue`, for which the client waits before it sends the body
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
#: for clients of HTTP/1.0 that asked for it; it is the default of HTTP/1.1
KEEP = b"Connection: keep-alive\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

#: characters that would end a header early (response splitting)
_SPLITTING = re.compile(r"[\r\n\0]")

#: statuses of responses without a body
_BODYLESS = frozenset({204, 304})


@lru_cache(maxsize=256)
def head(status: int, headers: Headers) -> bytes:
    """The status line and headers, without the empty line after them.

    Raises ValueError for a header with a line break or NUL.
    """
    for name, value in headers:
        if _SPLITTING.search(name) or _SPLITTING.search(value):
            raise ValueError(f"the response header {name!r} contains a line break or NUL")
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Error"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers), ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


_date_at = 0
_date_line = b""


def date() -> bytes:
    """The Date header of this second."""
    global _date_at, _date_line
    now = int(time.time())
    if now != _date_at:
        _date_at, _date_line = now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _date_line


def response(reply: Reply, connection: bytes, *, without_body: bool = False) -> bytes:
    """A whole response. connection: the Connection header, or nothing. without_body: it answers a HEAD."""
    body = reply.body
    first = head(reply.status, reply.headers)
    if reply.status in _BODYLESS:
        return b"%b%b%b\r\n" % (first, date(), connection)
    size = len(body)
    return b"%b%bContent-Length: %d\r\n%b\r\n%b" % (
        first,
        date(),
        size,
        connection,
        b"" if without_body else body,
    )
