"""The interface between an HTTP host and the server side of a binding.

Rules:
1. A binding is written against Request, Reply and StreamReply, so every host can drive it.
2. A host owns the connection: framing, back-pressure, keep-alives, disconnects, draining.
3. A binding owns the bytes: the formats of responses, events and errors.

Beside it stand the names of headers, and the bytes of a whole response.
"""

import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple, Protocol

from multidict import MultiMapping, istr

from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.traffic import log_rejected
from a2a_bridge.codec import dumps
from a2a_bridge.core import call
from a2a_bridge.core.callers import UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import HTTP_JSON, KNOWN

CONTENT_ENCODING = istr("Content-Encoding")
CONTENT_LENGTH = istr("Content-Length")
CONTENT_TYPE = istr("Content-Type")
#: the deadline of the caller, in seconds from now
DEADLINE = istr("Request-Timeout")
HOST = istr("Host")
SIDE_CHANNEL = istr(call.SIDE_CHANNEL)
TRANSFER_ENCODING = istr("Transfer-Encoding")
VERSION = istr("A2A-Version")


#: bodies slower than this are rejected (bytes a second, after the header timeout has passed once more)
SLOWEST_BODY = 1024

#: hashable, so that a host can cache the serialized form of the few recurring heads
Headers = tuple[tuple[str, str], ...]

JSON: Headers = (("Content-Type", "application/json"),)
A2A_JSON: Headers = (("Content-Type", "application/a2a+json"),)
#: for answers to GET, which HTTP caches may keep otherwise: each is for one caller only
NO_STORE: Headers = (("Cache-Control", "no-store"),)
#: X-Accel-Buffering tells nginx to pass events on as they come
EVENT_STREAM: Headers = (
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),
)


class Request(Protocol):
    """One HTTP request, as the host passes it on.

    path: as sent, percent-encoded, below the mount of the whole application. query: likewise, without the
    question mark. headers: case-insensitive. peer: address of the other end, empty if unknown. stopping: the
    host has cancelled the handler because it shuts down, not because the client left.
    """

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def headers(self) -> MultiMapping[str]: ...
    @property
    def peer(self) -> str: ...
    @property
    def stopping(self) -> bool: ...

    async def read(self) -> bytes:
        """The body. Raises REQUEST_TOO_LARGE, ClientLeftError, HttpStatusError for unsupported encodings."""

    def parameters(self) -> Mapping[str, str]:
        """The headers as service parameters: lower-case names, repeated ones joined by commas."""

    def certificate(self) -> bytes | None:
        """The verified client certificate of the connection (DER), if it has one."""

    def base_url(self) -> str:
        """The URL of the application as the client used it, without a trailing slash."""


@dataclass(slots=True)
class Reply:
    """A response with a complete body."""

    status: int
    headers: Headers
    body: bytes = b""


class Failure(NamedTuple):
    """The two forms of an error: instead of the stream, and inside it."""

    reply: Reply
    event: bytes


class StreamReply(ABC):
    """A response of events. source: the events; the host closes them in every case."""

    __slots__ = ("source",)

    #: for counting
    binding: ClassVar[str] = ""

    def __init__(self, source: Events) -> None:
        self.source = source

    @abstractmethod
    def encode(self, event: Event) -> bytes:
        """The bytes of one event in the stream. Raises LengthyError within a budget (codec.budget)."""

    @abstractmethod
    def headers(self, *, gap: bool) -> Headers:
        """The headers. They are asked for after the first event, before which the agent's parameters are not
        known. gap: whether the stream begins with a gap.
        """

    @abstractmethod
    def fail(self, error: BaseException) -> Failure:
        """An exception of `source` or `encode` for the client."""


#: the form of an error that a host answers in the place of an application
Reject = Callable[[A2AError], Reply]


class ApplicationReply(NamedTuple):
    """A request is answered by an application of ASGI; see `application`."""

    application: Application
    #: what the application keeps for its requests
    state: Mapping[str, Any]
    reject: Reject
    #: the path of the request below the application's
    below: str


Answer = Reply | StreamReply | ApplicationReply
Handler = Callable[[Request], Awaitable[Answer]]


class ClientLeftError(Exception):
    """The client closed its connection before the request was complete. No response is possible."""


def body_too_slow() -> A2AError:
    """The error for a body that is slower than `SLOWEST_BODY`."""
    return A2AError(Reason.INVALID_REQUEST, "the body came too slowly")


class HttpStatusError(A2AError):
    """An error whose HTTP status is not its reason's: 405, 415, 431."""

    def __init__(self, status: int, reason: Reason, message: str, headers: Headers = ()) -> None:
        super().__init__(reason, message)
        self.status = status
        self.headers = headers


def error_status(error: A2AError, encoded: int) -> int:
    """The HTTP status of an error whose form says `encoded`."""
    return error.status if isinstance(error, HttpStatusError) else encoded


#: of an error that names none: a 401 must have a challenge (RFC 9110, 15.5.2)
_CHALLENGE: Headers = (("WWW-Authenticate", 'Bearer realm="a2a"'),)


def error_headers(error: A2AError, given: Headers = ()) -> Headers:
    """Headers that belong to an error: Allow, Retry-After, WWW-Authenticate. given: the response has them."""
    headers: Headers = error.headers if isinstance(error, HttpStatusError) else ()
    if error.challenges or isinstance(error, UnauthenticatedError):
        headers += tuple(("WWW-Authenticate", challenge) for challenge in error.challenges)
    elif error.reason is Reason.UNAUTHENTICATED and not any(
        name.lower() == "www-authenticate" for name, _ in given
    ):
        headers += _CHALLENGE
    if error.retry_after is not None:
        headers += (("Retry-After", str(max(0, math.ceil(error.retry_after)))),)
    return headers


def reject(error: A2AError) -> Reply:
    """The response to a request without a binding, in the HTTP+JSON format of the newest version."""
    encoded = KNOWN[0].forms[HTTP_JSON].encode_error(error)
    status = error_status(error, encoded.status)
    return Reply(status, JSON + error_headers(error), dumps(with_status(encoded.body, status)))


def reject_logged(request: Request, error: A2AError) -> Reply:
    """The response of `reject`, with a line of the log."""
    log_rejected(f"{request.method} {request.path}", request.peer, request.headers.get(VERSION, ""), error)
    return reject(error)


def with_status(body: Any, status: int) -> Any:
    """An HTTP+JSON error body that repeats the HTTP status it is sent with (spec 11.6)."""
    inner = body.get("error") if isinstance(body, dict) else None
    if isinstance(inner, dict) and "code" in inner:
        inner["code"] = status
    return body


def not_found() -> A2AError:
    """There is nothing at this path."""
    return A2AError(Reason.METHOD_NOT_FOUND, "there is nothing at this path")


def not_allowed(allowed: list[str]) -> HttpStatusError:
    """The path exists, but not for this HTTP method. `allowed`: the methods it exists for."""
    allow = ", ".join(allowed)
    text = f"this path takes {allow}"
    return HttpStatusError(405, Reason.METHOD_NOT_FOUND, text, (("Allow", allow),))


#: the response to `Expect: 100-continue`, for which the client waits before it sends the body
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
#: for clients of HTTP/1.0 that asked for it; it is the default of HTTP/1.1
KEEP = b"Connection: keep-alive\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

#: characters that would end a header early (response splitting)
_SPLITTING = re.compile(r"[\r\n\0]")

#: statuses of responses without a body
BODYLESS = frozenset({204, 304})


@lru_cache(maxsize=256)
def head(status: int, headers: Headers) -> bytes:
    """The status line and headers, without the empty line after them. Raises ValueError for a header with a
    line break or NUL.
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
    if reply.status in BODYLESS:
        return b"%b%b%b\r\n" % (first, date(), connection)
    size = len(body)
    return b"%b%bContent-Length: %d\r\n%b\r\n%b" % (
        first,
        date(),
        size,
        connection,
        b"" if without_body else body,
    )
