"""The same handlers as an ASGI 3 application, to mount in FastAPI or Starlette or to run under any ASGI
server.

It opens no socket. Lifespan events are answered but not required: mounted applications do not get them, so
`startup` runs before the first request at the latest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from math import inf
from typing import Protocol
from urllib.parse import quote, unquote

from multidict import CIMultiDict

from a2a_bridge.bindings.asgi import Receive, Scope, Send, certificate_of
from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.bindings.offload import SMALL, run_in_worker
from a2a_bridge.bindings.traffic import sent_bytes
from a2a_bridge.codec.budget import ALLOWANCE, METER, LengthyError
from a2a_bridge.core.addresses import Trust
from a2a_bridge.core.errors import A2AError, Blame, Reason, request_too_large
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.application import SPECIFICATION, Answering, Head
from a2a_bridge_transports._http.asgi_request import AsgiRequest, Watches, is_head_too_large
from a2a_bridge_transports._http.exchange import (
    SLOWEST_BODY,
    ApplicationReply,
    ClientLeftError,
    Headers,
    HttpStatusError,
    Reply,
    StreamReply,
    body_too_slow,
    reject_logged,
)
from a2a_bridge_transports._http.mounts import Mounts, without_empty_start
from a2a_bridge_transports._http.parameters import HeaderParameters, base_url, check_encoding, is_host
from a2a_bridge_transports._http.sse import KEEP_ALIVE, run_flushing

_log = logging.getLogger("a2a_bridge.http")

#: base URLs that one application remembers; callers choose the Host header
_REMEMBERED = 256
#: seconds for ended requests to inform their clients
LAST_WORDS = 1.0
#: the name of the ASGI extension for trailers
TRAILERS = "http.response.trailers"


class Calls(Protocol):
    """A binding that answers requests by their content type, beside the HTTP bindings."""

    #: the paths of its operations
    paths: Collection[str]

    def begin(
        self, host: AsgiHost, scope: Scope, receive: Receive, send: Send, path: str
    ) -> AsgiRequest | None:
        """The request, if it is one of this binding."""

    def retire(self) -> None:
        """Tells readers of the health service that the host drains."""

    def end(self) -> None:
        """Calls that are cancelled from here on end as UNAVAILABLE."""


class AsgiHost(Mounts):
    """An ASGI application; implements DocumentHost without a socket. startup: runs once, before the first
    request or at the lifespan's startup; again after a failure. close: runs once with a grace in seconds, by
    `drain` or, with `grace`, at the end of the lifespan.
    """

    def __init__(
        self,
        options: HostOptions,
        *,
        startup: Callable[[], Awaitable[None]] | None = None,
        close: Callable[[float], Awaitable[None]] | None = None,
        grace: float = 5.0,
    ) -> None:
        super().__init__(options)
        self.trust = Trust(options.trust_forwarded)
        self.watches = Watches(options.header_timeout)
        #: the requests in progress
        self.running: set[AsgiRequest] = set()
        #: see `bindings.ApplicationHost`
        self.cards: Callable[[str], Mapping[str, hub.AgentCard]] | None = None
        #: the listener for operators, once the application has started
        self.admin: ListenAddress | None = None
        #: gRPC, if it is mounted
        self.calls: Calls | None = None
        #: whether the server can send trailers, which gRPC needs; None before the first request
        self.trailers: bool | None = None
        #: (scheme, Host header, mount path) → base URL, while no forwarded headers count
        self.bases: dict[tuple[str, str | None, str], str] = {}
        self._startup = startup
        #: the last error of `startup` that was logged
        self._failure = ""
        self._close = close
        self._grace = grace
        self._starting = asyncio.Lock()
        #: whether the mounted applications have started
        self._has_started = False

    async def start(self) -> None:
        """Runs `startup` unless it has run."""
        async with self._starting:
            if self._startup is not None:
                await self._startup()
                self._startup = None
            if not self._has_started:
                await self.start_applications()
                self._has_started = True

    async def drain(self, grace: float) -> None:
        """Fails the readiness probe, lets running requests finish for `grace` seconds, ends the rest as
        UNAVAILABLE, and runs `close`. The listener and its connections belong to the ASGI server.
        """
        self.retire()
        if self.calls is not None:
            self.calls.retire()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        timers = self.end_calls_after(grace)
        while self.running and (now := loop.time()) < end:  # noqa: ASYNC110  a set has no event
            await asyncio.sleep(min(0.05, end - now))
        for timer in timers:
            timer.cancel()
        if self.calls is not None:
            self.calls.end()
        for request in list(self.running):
            request.stop()
        close, self._close = self._close, None
        if close is not None:
            await close(max(0.0, end - loop.time()))
        last = loop.time() + LAST_WORDS
        while self.running and loop.time() < last:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self.stop_applications()

    def base_url(self, scope: Scope, named: str | None, root: str, headers: Mapping[str, str]) -> str:
        """The application's URL as a client used it. named: the Host header. root: the mount path,
        percent-encoded.
        """
        scheme = scope.get("scheme", "http")
        name, port = scope.get("server") or ("localhost", None)
        client = scope.get("client")
        usable = named is not None and is_host(named)
        host = str(named) if usable else f"{name}:{port}" if port else str(name)
        peer = str(client[0]) if client else ""
        made = base_url(scheme, host, root, headers, trusted=peer in self.trust)
        if usable and not self.options.trust_forwarded:
            if len(self.bases) >= _REMEMBERED:
                self.bases.clear()
            self.bases[scheme, named, root] = made
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        if not self._has_started:
            try:
                await self.start()
            except Exception as error:  # noqa: BLE001  the application's function
                await self._reject(error, scope, receive, send)
                return
        if self.trailers is None:
            self.trailers = TRAILERS in (scope.get("extensions") or ())
        raw = scope.get("raw_path")
        if raw and not scope.get("root_path"):
            root, path = "", raw.decode("latin-1")
            if "?" in path:
                path = path.partition("?")[0]
        else:
            root, path = split(scope)
        if path.startswith("//"):
            path = without_empty_start(path)
        request: AsgiRequest | None = None
        calls = self.calls
        if calls is not None and path in calls.paths:
            request = calls.begin(self, scope, receive, send, path)
        if request is None:
            request = served = _Served(self, scope, receive, send, root, path)
            if calls is not None and served.headers.get("Content-Type", "").startswith("application/grpc"):
                request = calls.begin(self, scope, receive, send, path) or served
        self.running.add(request)
        try:
            await request.answer()
        except asyncio.CancelledError:
            if not request.forgive():
                raise
            _log.debug("a client left before its answer was complete")
        except ClientLeftError:
            _log.debug("a client left before its request was complete")
        except OSError:
            if not request.left:
                raise
            _log.debug("a client left before its answer was complete")
        finally:
            self.running.discard(request)
            request.end()

    async def _reject(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request while the application does not start."""
        if repr(error) != self._failure:  # once for all requests
            self._failure = repr(error)
            _log.error("the application cannot start: %s", error, exc_info=error)
        text = "the agent has not started; its log says why"
        rejection = A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
        request = _Served(self, scope, receive, send, *split(scope))
        with suppress(OSError):  # the client has left
            await request.reply(reject_logged(request, rejection))

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise ValueError(f"ASGI scope {kind!r} is not known here")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            starting = kind == "lifespan.startup"
            try:
                await (self.start() if starting else self.drain(self._grace))
            except Exception:  # noqa: BLE001  the application's function
                _log.exception("%s failed", kind)
                await send({"type": f"{kind}.failed", "message": "see the log"})
                return
            await send({"type": f"{kind}.complete"})
            if not starting:
                return


class _Served(AsgiRequest):
    """One HTTP request; implements Request and answers it."""

    __slots__ = (
        "_beat",
        "_head",
        "_host",
        "_last",
        "_root",
        "_sending",
        "_taken",
        "_timer",
        "_waited",
        "application",
        "headers",
        "method",
        "path",
        "peer",
        "query",
    )

    def __init__(
        self, host: AsgiHost, scope: Scope, receive: Receive, send: Send, root: str, path: str
    ) -> None:
        super().__init__(host.watches, scope, receive, send)
        self._host = host
        self._root = root
        self.path = path
        self.method: str = scope["method"]
        self.query: str = scope["query_string"].decode("latin-1")
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in scope["headers"]:
            headers.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
        self.headers: CIMultiDict[str] = headers
        client = scope.get("client")
        self.peer = str(client[0]) if client else ""
        self._head: list[tuple[bytes, bytes]] | None = None
        self._beat: asyncio.Task[None] | None = None
        self.application: Answering | None = None
        #: seconds that an application has waited for the body, and bytes of it that have come
        self._waited, self._taken = 0.0, 0

    def parameters(self) -> Mapping[str, str]:
        return HeaderParameters(self.headers)

    def certificate(self) -> bytes | None:
        return certificate_of(self.scope)

    def base_url(self) -> str:
        named = self.headers.get("host")
        known = self._host.bases.get((self.scope.get("scheme", "http"), named, self._root))
        return known or self._host.base_url(self.scope, named, self._root, self.headers)

    async def read(self) -> bytes:
        check_encoding(self.headers)
        self._watches.add(self)
        limit = self._host.options.max_body
        body = await self.body(limit, self._declared())
        if body is None:
            raise request_too_large(limit)
        return body

    def _declared(self) -> int:
        """The length of the body as its header says; 0 without one."""
        declared = self.headers.get("content-length", "")
        return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else 0

    async def read_part(self) -> tuple[bytes, bool]:
        limit = self._host.options.max_body
        if self._declared() > limit:
            raise request_too_large(limit)
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience = self._watches.patience + self._taken / SLOWEST_BODY - self._waited
        try:
            async with asyncio.timeout(patience):
                message = await self.next_part()
        except TimeoutError:
            self._is_late = True
            raise body_too_slow() from None
        finally:
            self._waited += loop.time() - began
        part: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        self._taken += len(part)
        if self._taken > limit:
            raise request_too_large(limit)
        if more or self._held or self._taken > SMALL:
            self.hold(len(part))
        return part, more

    def listen(self) -> None:
        if self._watch is None:
            self.watch()

    def leave(self) -> None:
        if self.application is None:
            super().leave()
            return
        self.left = True
        self.application.leave()

    def application_scope(self, root: str) -> Scope:
        path = self._root + self.path
        placed = {
            "asgi": SPECIFICATION,
            "root_path": unquote(self._root + root),
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
        }
        return {**self.scope, **placed}

    async def put_part(self, head: Head | None, data: bytes, *, more: bool) -> None:
        if head is not None:
            self.started = True
            headers = [(name.lower(), value) for name, value in head.headers]
            if head.length is not None and head.status != HTTPStatus.NO_CONTENT:
                headers.append((b"content-length", b"%d" % head.length))
            if more:
                self.release()
            await self.put({"type": "http.response.start", "status": head.status, "headers": headers})
        await self.put({"type": "http.response.body", "body": data, "more_body": more})

    def break_off(self, error: BaseException) -> None:
        """Has the server end the connection, which it does for an exception."""
        raise error

    async def answer(self) -> None:
        method = self.method
        if method in ("GET", "HEAD"):
            self._watches.add(self)
        rejection = self._rejection()
        if rejection is None:
            host = self._host
            handler = host.find_handler(self) if host.names else host.find(method, self.path)
            reply = await handler(self)
        else:
            reply = reject_logged(self, rejection)
        if isinstance(reply, ApplicationReply):
            self._watches.waiting.pop(self, None)  # the application calls `receive`
            failure = await Answering(self, reply, self._host.answering).run()
            if failure is not None:
                await self.reply(failure)
        elif isinstance(reply, StreamReply):
            self.release()
            await self._stream(reply)
        elif not self.left:
            if len(reply.body) > SMALL:
                self.hold(len(reply.body))
            await self.reply(reply)

    def _rejection(self) -> A2AError | None:
        """The error for a head that the HTTP listener would reject, too."""
        limit = self._host.options.max_header
        if len(self.path) + len(self.query) >= limit:
            return HttpStatusError(414, Reason.REQUEST_TOO_LARGE, "")
        if is_head_too_large(self.scope, limit):
            return HttpStatusError(431, Reason.REQUEST_TOO_LARGE, "")
        hosts = self.headers.getall("host", ())
        if len(hosts) > 1 or (hosts and not is_host(hosts[0])):
            return A2AError(Reason.INVALID_REQUEST, "the Host header is not valid")
        return None

    async def reply(self, reply: Reply) -> None:
        """Sends a whole response."""
        headers = list(_encode(reply.headers))
        body = reply.body
        if reply.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
            body = b"" if self.method == "HEAD" else body
        if self._is_late:
            headers += self.last_headers()
        await self.put(
            {"type": "http.response.start", "status": reply.status, "headers": headers},
            {"type": "http.response.body", "body": body},
        )

    async def _stream(self, reply: StreamReply) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        self._sending = False
        self._timer = loop.call_later(self._host.options.keep_alive, self._tick, reply)
        try:
            try:
                await run_flushing(self._events(reply), self)
            except BaseException as error:
                if self.left:
                    raise
                self._timer.cancel()  # a keep-alive beside the error would begin a second response
                failure = reply.fail(error)
                await self._after_beat()
                if self._head is None:
                    await self.reply(failure.reply)
                    return
                self.parts.append(failure.event)
            await self._after_beat()
            await self._put(more=False)
        finally:
            self._timer.cancel()
            if self._beat is not None:
                self._beat.cancel()
                await asyncio.wait([self._beat])
            await reply.source.aclose()

    async def _events(self, reply: StreamReply) -> None:
        encode, write = reply.encode, self.write
        async for event in reply.source:
            METER.left = ALLOWANCE  # as `within_budget`, without another call for each event
            try:
                data = encode(event)
            except LengthyError:
                METER.left = inf
                data = await run_in_worker(encode, event)
            finally:
                METER.left = inf
            sent_bytes[reply.binding] += len(data)
            if self._head is None:
                self._begin(reply, gap=event.gap)
            await write(data)
        if self._head is None:
            self._begin(reply, gap=False)

    def _begin(self, reply: StreamReply, *, gap: bool) -> None:
        """Makes the head. Raises A2AError for an invalid one."""
        self._head = list(_encode(reply.headers(gap=gap)))

    async def flush(self) -> None:
        await self._after_beat()
        if self.parts:
            await self._put()

    async def _put(self, *, more: bool = True) -> None:
        """Sends the written data, and the head before it."""
        self._sending = True
        data = self.take()  # at once: `run_flushing` must not send it too while the head waits
        try:
            if not self.started:
                self.started = True
                await self.put({"type": "http.response.start", "status": 200, "headers": self._head})
            await self.put({"type": "http.response.body", "body": data, "more_body": more})
        finally:
            self._sending = False
            self._last = asyncio.get_running_loop().time()

    def _tick(self, reply: StreamReply) -> None:
        """Sends a comment after `keep_alive` seconds without other data."""
        loop = asyncio.get_running_loop()
        interval = self._host.options.keep_alive
        silence = loop.time() - self._last
        if silence >= interval * 0.99:  # a timer may fire a little early
            silence = 0.0
            if not self._sending and not self.parts and (self._beat is None or self._beat.done()):
                self._beat = loop.create_task(self._keep_alive(reply))
        self._timer = loop.call_later(interval - silence, self._tick, reply)

    async def _keep_alive(self, reply: StreamReply) -> None:
        with suppress(OSError, A2AError):  # the next event reports it
            if self._head is None:
                self._begin(reply, gap=False)
            self.parts.append(KEEP_ALIVE)
            await self._put()

    async def _after_beat(self) -> None:
        """Waits until a keep-alive has been sent."""
        if self._beat is not None and not self._beat.done():
            await asyncio.wait([self._beat])


def split(scope: Scope) -> tuple[str, str]:
    """The path an application is mounted at and the path below it, both percent-encoded. `path` contains the
    mount path (as ASGI specifies), or a proxy stripped it and `root_path` has it.
    """
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")
    path = path.partition("?")[0]
    root = scope.get("root_path", "").rstrip("/")
    if not root:
        return "", path
    parts = path.split("/")
    depth = root.count("/") + 1
    if unquote("/".join(parts[:depth])) == root:
        return "/".join(parts[:depth]), "/" + "/".join(parts[depth:])
    return quote(root, safe="/:@!$&'()*+,;=~"), path


@lru_cache(maxsize=256)
def _encode(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode("latin-1"), value.encode("utf-8")) for name, value in headers)
