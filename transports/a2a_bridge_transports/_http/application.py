"""Requests of our hosts that an application of ASGI 3 answers. `lifespan` has the start and end of one.

Rules:
1. The host keeps the request: the limits of heads, bodies, time, connections and memory, TLS, the rules for
   Host and the drain are those of every request. The application gets the body in parts, as it comes.
2. The head is sent with the first part of the response, as ASGI asks, and at once for an event stream, whose
   reader waits for it. Until then a failure is an answer of the host. Later the connection breaks, so that no
   client takes the response for a whole one. Neither shows the exception.
3. The application hears `http.disconnect` when the client has left. It is not cancelled: it may have work to
   finish. What it sends then is dropped, as ASGI 2.3 says: applications such as those of sse-starlette send
   the end of a stream in any case, and report an error as a fault of theirs. One that sends on and on does
   not listen, and gets OSError.
4. A body that is too large, too slow or malformed is `http.disconnect`, too. The client gets the error of
   the host, whatever the application sends.
5. When the host drains, an event stream that a GET reads ends at once, as a whole response. Other requests
   have the grace. Then their application is cancelled, and its client gets UNAVAILABLE.
6. Trailers are refused: those that a request announces with 400, those of a response as an error of the
   application.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from typing import Any, NamedTuple, Protocol

from a2a_bridge.bindings.asgi import Application, Message, Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge_transports._http.exchange import (
    BODYLESS,
    ApplicationReply,
    ClientLeftError,
    Reply,
    Request,
    reject_logged,
)
from a2a_bridge_transports._http.sse import BATCH_BYTES, BATCH_EVENTS

_log = logging.getLogger("a2a_bridge.http")

#: the version of the specification that applications are told: with it they listen for the end of the client
SPECIFICATION = {"version": "3.0", "spec_version": "2.3"}
#: parts that are dropped before an application has to end
_MOST_DROPPED = 100
#: the name of a header, and what would end its value early (response splitting)
_NAME, _SPLITTING = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(rb"[\r\n\0]")
#: headers of a connection, which belong to the host
_OF_HOST = frozenset({b"connection", b"date", b"keep-alive", b"transfer-encoding", b"upgrade"})


class Head(NamedTuple):
    """The status and headers of a response, without those of the host. length: of its body, if it is known.
    has_body: False for HEAD and for statuses without a body. is_event_stream: by its Content-Type.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    length: int | None
    has_body: bool
    is_event_stream: bool

    @classmethod
    def of(cls, message: Message, method: str) -> Head:
        """The head in a message of ASGI. Raises ValueError, TypeError, KeyError for an invalid one."""
        status = int(message["status"])
        if not 200 <= status <= 999 or message.get("trailers"):
            raise ValueError("a response has a status from 200 on, and no trailers")
        headers: list[tuple[bytes, bytes]] = []
        length: int | None = None
        is_event_stream = False
        for name, value in message.get("headers", ()):
            lower = bytes(name).lower()
            if not _NAME.fullmatch(lower) or _SPLITTING.search(value):
                raise ValueError(f"the response header {name!r} is not valid")
            if lower == b"content-length":
                if not value.isdigit() or length not in (None, int(value)):
                    raise ValueError("the Content-Length of the response is not valid")
                length = int(value)
            elif lower not in _OF_HOST:
                headers.append((name, value))
                if lower == b"content-type":
                    is_event_stream = value.lower().startswith(b"text/event-stream")
        has_body = method != "HEAD" and status not in BODYLESS
        return cls(status, headers, length, has_body, is_event_stream)


class Served(Request, Protocol):
    """A request of a host that an application answers."""

    #: its answer; the host calls `Answering.leave` when the client has left
    application: Answering | None

    async def read_part(self) -> tuple[bytes, bool]:
        """The next bytes of the body, and whether more follow. Raises A2AError, ClientLeftError."""

    def listen(self) -> None:
        """Has the host look for the end of the client. The body has been read."""

    async def put_part(self, head: Head | None, data: bytes, *, more: bool) -> None:
        """Sends a part of the response, with the head before the first one, and waits for a reader that is
        behind. more: whether other parts follow. Raises OSError if the client has left.
        """

    def break_off(self, error: BaseException) -> None:
        """Ends the connection, because the rest of the response does not come. May raise `error`."""

    def application_scope(self, root: str) -> Scope:
        """The scope of ASGI. root: the path of the application, percent-encoded."""

    def cancel(self) -> None:
        """Cancels the task that answers."""


def client_chain(certificate: bytes) -> dict[str, Any]:
    """The extension `tls` of a scope with a client certificate (DER)."""
    return {"client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)], "client_cert_error": None}


class Answering:
    """One request, answered by an application. running: has it until its application has returned."""

    __slots__ = (
        "_dropped",
        "_end",
        "_failure",
        "_has_ended",
        "_has_left",
        "_head",
        "_is_begun",
        "_is_listening",
        "_is_read",
        "_is_retired",
        "_is_sending",
        "_is_stream",
        "_length",
        "_reply",
        "_running",
        "_sends_body",
        "_sent",
        "_size",
        "_turn",
        "request",
    )

    def __init__(self, request: Served, reply: ApplicationReply, running: set[Answering]) -> None:
        self.request = request
        self._reply = reply
        self._running = running
        #: set when `receive` has nothing more to wait for
        self._end = asyncio.Event()
        #: the error of the body
        self._failure: A2AError | None = None
        #: False until the body has been read
        self._is_read = False
        #: True when the whole response has been sent
        self._has_ended = False
        self._has_left = False
        #: True when the application has given a head
        self._is_begun = False
        #: the head, until it has been sent
        self._head: Head | None = None
        self._sends_body = True
        #: one part is sent after the other; set when one has been sent, for tasks that wait with another one
        self._is_sending = False
        self._sent: asyncio.Event | None = None
        #: bytes that the body has to have; None if that is not known
        self._length: int | None = None
        #: True while `receive` waits for the end
        self._is_listening = False
        #: True if the host drains and the response is an event stream that a GET reads
        self._is_retired = False
        self._is_stream = False
        #: bytes of the response
        self._size = 0
        #: parts that were sent after the client had left
        self._dropped = 0
        #: parts since other tasks had their turn
        self._turn = 0

    @property
    def application(self) -> Application:
        return self._reply.application

    async def run(self) -> Reply | None:
        """Runs the application. Returns a response to send in its place; None if the response has been sent,
        or cannot be. Raises CancelledError, and what `Served.break_off` raises.
        """
        reply, path = self._reply, self.request.path
        below = reply.below
        root = path[: len(path) - len(below)] if path.endswith(below) else path
        self._running.add(self)
        self.request.application = self
        error: BaseException | None = None
        try:
            scope = self.request.application_scope(root)
            scope["state"] = dict(reply.state)
            await reply.application(scope, self.receive, self.send)
        except asyncio.CancelledError as cancelled:
            error = self._cancelled(cancelled)
        except (Exception, SystemExit, KeyboardInterrupt) as raised:  # noqa: BLE001  it must not reach the client or the loop
            error = raised
        finally:
            self._end.set()
            self._running.discard(self)
        if self._is_retired and not self._has_left and not self._has_ended:
            await self._transfer(None, b"", more=False)
            return None
        if error is None and not self._has_ended:
            error = RuntimeError("the application returned before the end of its response")
        if error is None:
            return None
        if self._has_left:
            _log.debug("an application failed after its client had left", exc_info=error)
            return None
        if self._failure is not None:
            error = self._failure
        elif not isinstance(error, A2AError):
            _log.error("the application failed at %s", path, exc_info=error)
        if self._has_ended:
            return None
        if self._is_begun and self._head is None:
            self.request.break_off(error)
            return None
        if isinstance(error, A2AError):
            reject_logged(self.request, error)
            return reply.reject(error)
        return reply.reject(internal_error())

    def _cancelled(self, error: asyncio.CancelledError) -> BaseException:
        """What the cancellation of an application means. Raises it again if the host has not asked for it."""
        task = asyncio.current_task()
        if task is not None and (self.request.stopping or self._is_retired):
            task.uncancel()
            return A2AError(Reason.UNAVAILABLE, "the server is shutting down", blame=Blame.SELF)
        if task is None or task.cancelling():
            raise error
        return error  # of the application itself

    def leave(self) -> None:
        """The client has left."""
        self._has_left = True
        self._end.set()

    def retire(self) -> None:
        """The host drains."""
        if self._has_ended or not (self._is_stream and self.request.method == "GET"):
            return
        self._is_retired = True
        if self._is_listening:
            self._end.set()
        else:
            self.request.cancel()

    async def receive(self) -> Message:
        """`receive` of ASGI."""
        if not (self._is_read or self._end.is_set()):
            try:
                data, more = await self.request.read_part()
            except A2AError as error:
                self._failure = error
                self._end.set()
            except ClientLeftError:
                self.leave()
            else:
                self._is_read = not more
                return {"type": "http.request", "body": data, "more_body": more}
        if not self._end.is_set():
            self.request.listen()
            self._is_listening = True
            try:
                await self._end.wait()
            finally:
                self._is_listening = False
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """`send` of ASGI. Raises OSError if the client has left long ago, RuntimeError and ValueError for a
        message that does not fit.
        """
        kind = message["type"]
        if kind == "http.response.body":
            await self._put(message.get("body", b""), more=bool(message.get("more_body", False)))
        elif kind == "http.response.start":
            if self._is_begun:
                raise RuntimeError("the response has begun already")
            head = self._head = Head.of(message, self.request.method)
            self._is_begun = True
            self._sends_body = head.has_body
            self._length = head.length if head.has_body else None
            self._is_stream = self._sends_body and head.is_event_stream
            if self._is_stream:
                await self._put(b"", more=True)
        else:
            raise ValueError(f"the message {kind!r} is not known here")

    async def _drop(self, *, more: bool) -> None:
        """Takes a part that nobody reads. Raises OSError after many of them."""
        self._dropped += 1
        if self._dropped > _MOST_DROPPED:
            raise ConnectionResetError("the client has left")
        self._has_ended = not more
        await asyncio.sleep(0)  # so that an application that listens hears of it

    async def _transfer(self, head: Head | None, data: bytes, *, more: bool) -> None:
        """Sends a part after those that other tasks of the application send. A lock would cost five calls for
        each part, and most applications send from one task.
        """
        while self._is_sending:
            if self._sent is None:
                self._sent = asyncio.Event()
            await self._sent.wait()
        self._is_sending = True
        try:
            await self.request.put_part(head, data, more=more)
        finally:
            self._is_sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None

    async def _put(self, data: bytes, *, more: bool) -> None:
        if not self._is_begun or self._has_ended:
            raise RuntimeError("a part of the response came before its start, or after its end")
        if self._has_left and self._failure is None:
            await self._drop(more=more)
            return
        if self._is_retired or self._failure is not None:
            raise ConnectionResetError("the client gets nothing more of this response")
        self._size += len(data)
        length = self._length
        if length is not None and (self._size > length or (not more and self._size < length)):
            raise ValueError("the response has another length than its Content-Length says")
        head, self._head = self._head, None
        if head is not None and not more and head.length is None and (head.has_body or data):
            head = head._replace(length=len(data))
        try:
            await self._transfer(head, data if self._sends_body else b"", more=more)
        except OSError:
            self.leave()
            await self._drop(more=more)
            return
        if not more:
            self._has_ended = True
            self._end.set()
            return
        self._turn += 1
        if self._turn >= BATCH_EVENTS or len(data) >= BATCH_BYTES:
            self._turn = 0
            await asyncio.sleep(0)
