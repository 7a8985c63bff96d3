"""Responses as whole blocks of bytes, written beside aiohttp's own response classes. It decides no status.

aiohttp would add headers that name it and the version of Python, and serialize each head anew.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from a2a_bridge_transports._http.exchange import Headers, Reply


class Written(web.StreamResponse):
    """Tells aiohttp that the response has been written, and whether the connection stays open.

    data: still to be written, as the last response of its connection.
    """

    def __init__(self, *, keep: bool, data: bytes = b"") -> None:
        super().__init__()
        self._keep = keep
        self._data = data

    @property
    def keep_alive(self) -> bool:
        return self._keep

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self._data and request.transport is not None:
            request.transport.write(self._data)
        return None

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002
        return None


def last_response(reply: Reply) -> Written:
    """A response after which the connection is closed."""
    length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(reply.body)
    return Written(keep=False, data=b"".join((head(reply.status, reply.headers), date(), length, reply.body)))


@lru_cache(maxsize=256)
def head(status: int, headers: Headers) -> bytes:
    """The status line and headers, without the empty line after them."""
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
