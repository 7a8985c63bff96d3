"""The same handlers as an ASGI 3 application, to mount in FastAPI or Starlette or to run under any ASGI
server.

It opens no socket. Lifespan events are answered but not required: mounted applications do not get them, so
`startup` runs before the first request at the latest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Joined, entries_of
from a2a_bridge.core.errors import A2AError, request_too_large
from a2a_bridge.dialects.extensions import OLDER_EXTENSIONS, merged
from a2a_bridge.memory import in_work
from a2a_bridge_transports._http.exchange import ClientLeftError, Headers, Reply, StreamReply
from a2a_bridge_transports._http.mounts import Mounts, without_empty_start
from a2a_bridge_transports._http.origin import Trust, base_url, is_host
from a2a_bridge_transports._http.parameters import Overlaid, check_encoding
from a2a_bridge_transports._http.sse import KEEP_ALIVE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("a2a_bridge.http")

#: events sent before other tasks get a turn, if the server never makes the writer wait
TURN = 8


class AsgiHost(Mounts):
    """An ASGI application; implements DocumentHost without a socket.

    startup: runs once, before the first request or at the lifespan's startup; tried again after a failure.
    close: runs once with a grace in seconds, by `drain` or, with `grace`, at the end of the lifespan.
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
        self._startup = startup
        self._close = close
        self._grace = grace
        self._starting: asyncio.Lock | None = None

    @property
    def address(self) -> ListenAddress:
        """Unknown: the socket belongs to the ASGI server."""
        return ListenAddress("", 0)

    async def start(self) -> None:
        """Runs `startup` unless it has run."""
        if self._startup is None:
            return
        if self._starting is None:
            self._starting = asyncio.Lock()
        async with self._starting:
            if self._startup is not None:
                await self._startup()
                self._startup = None

    async def drain(self, grace: float) -> None:
        """Fails the readiness probe and runs `close`; the ASGI server ends the connections."""
        self.draining = True
        close, self._close = self._close, None
        if close is not None:
            await close(grace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self.start()
            await _Served(self, scope, receive, send).run()
        elif kind == "lifespan":
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


class _Served:
    """One request; implements Request and answers it."""

    #: an ASGI server does not announce its shutdown to requests
    stopping = False

    def __init__(self, host: AsgiHost, scope: Scope, receive: Receive, send: Send) -> None:
        self._host = host
        self._scope = scope
        self._receive = receive
        self._send = send
        self.method: str = scope["method"]
        self.headers: Mapping[str, str] = CaseInsensitive(scope["headers"])
        client = scope.get("client")
        self.peer = str(client[0]) if client else ""
        self._root, path = split(scope)
        self.path = without_empty_start(path)
        self.query: str = scope["query_string"].decode("latin-1")
        self._gone = False
        #: bytes that are counted as in work
        self._held = 0
        self._watch: asyncio.Task[None] | None = None

    def parameters(self) -> Mapping[str, str]:
        headers = self.headers
        if OLDER_EXTENSIONS not in headers:
            return headers
        both = merged(headers.get(name, "") for name in (EXTENSIONS_PARAMETER, OLDER_EXTENSIONS))
        return Overlaid(headers, {EXTENSIONS_PARAMETER: both})

    def base_url(self) -> str:
        host, port = self._scope.get("server") or ("localhost", None)
        named = self.headers.get("host", "")
        return base_url(
            self._scope.get("scheme", "http"),
            named if is_host(named) else f"{host}:{port}" if port else str(host),
            self._root,
            self.headers,
            trusted=self.peer in self._host.trust,
        )

    async def read(self) -> bytes:
        check_encoding(self.headers)
        limit = self._host.options.max_body
        declared = self.headers.get("content-length", "")
        size = int(declared) if declared.isdigit() and len(declared) < 20 else 0
        parts: list[bytes] = []
        received = 0
        more = True
        while more and size <= limit:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                raise ClientLeftError
            part: bytes = message.get("body", b"")
            received += len(part)
            self._hold(len(part))
            size = max(size, received)
            parts.append(part)
            more = message.get("more_body", False)
        if size > limit:
            raise request_too_large(limit)
        self._start_watch()
        return b"".join(parts)

    async def run(self) -> None:
        """Answers the request, or stops when the client leaves."""
        try:
            if self.method in ("GET", "HEAD"):
                self._start_watch()
            reply = await self._host.find(self.method, self.path)(self)
            if isinstance(reply, StreamReply):
                self._release()
                await self._stream(reply)
            elif not self._gone:
                self._hold(len(reply.body))
                await self._reply(reply)
        except asyncio.CancelledError:
            if not self._gone:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        except ClientLeftError:
            _log.debug("a client left before its request was complete")
        except OSError:
            if not self._gone:
                raise
        finally:
            self._release()
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])

    def _hold(self, size: int) -> None:
        """Counts these bytes as in work."""
        self._held += size
        in_work.add(size)

    def _release(self) -> None:
        in_work.add(-self._held)
        self._held = 0

    def _start_watch(self) -> None:
        """Cancels this task when the client leaves; from here on only the watch calls `receive`."""
        task = asyncio.current_task()

        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._gone = True
            if task is not None:
                task.cancel()

        if self._watch is None:
            self._watch = asyncio.create_task(watch())

    async def _reply(self, reply: Reply) -> None:
        headers = list(_encoded(reply.headers))
        body = reply.body
        if reply.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
            body = b"" if self.method == "HEAD" else body
        await self._put({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self._put({"type": "http.response.body", "body": body})

    async def _stream(self, reply: StreamReply) -> None:
        out = _Events(self._put, reply)
        beat = asyncio.create_task(out.keep_alive(self._host.options.keep_alive))
        try:
            sent = 0
            try:
                async for event in reply.source:
                    data = reply.encode(event)
                    await out.write(data if isinstance(data, bytes) else await data, event.gap)
                    sent += 1
                    if sent % TURN == 0:
                        await asyncio.sleep(0)
                await out.write(b"")
            except BaseException as error:
                if self._gone:
                    raise
                failure = reply.fail(error)
                if not out.started:
                    await self._reply(failure.reply)
                    return
                await out.write(failure.event)
            await out.end()
        finally:
            beat.cancel()
            await asyncio.wait([beat])
            await reply.source.aclose()

    async def _put(self, message: MutableMapping[str, Any]) -> None:
        try:
            await self._send(message)
        except OSError:
            self._gone = True  # the servers' way to tell a writer that the client has left
            raise


class _Events:
    """The response of a stream; keep-alives come from another task."""

    def __init__(self, put: Send, reply: StreamReply) -> None:
        self._put = put
        self._reply = reply
        self._lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self.started = False

    async def write(self, data: bytes, gap: bool = False) -> None:
        """Sends bytes, preceded by the head if they are the first. gap: they begin with a gap. Raises
        A2AError for an invalid head.
        """
        async with self._lock:
            if not self.started:
                headers = list(_encoded(self._reply.headers(gap)))
                self.started = True
                await self._put({"type": "http.response.start", "status": 200, "headers": headers})
            if data:
                await self._put({"type": "http.response.body", "body": data, "more_body": True})
            self._last = self._loop.time()

    async def end(self) -> None:
        """Ends the response."""
        async with self._lock:
            await self._put({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self, interval: float) -> None:
        """Sends a comment after each `interval` seconds without other data; runs until cancelled."""
        with suppress(OSError, A2AError):  # the next write reports it
            while True:
                await asyncio.sleep(max(interval - (self._loop.time() - self._last), interval / 100))
                if self._loop.time() - self._last >= interval * 0.99:
                    await self.write(KEEP_ALIVE)


class CaseInsensitive(Mapping[str, str]):
    """ASGI headers as a mapping; repeated ones joined by commas."""

    __slots__ = ("_found",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        found: dict[str, str] = {}
        for raw, value in pairs:
            name = raw.decode("latin-1").lower()
            text = value.decode("utf-8", "surrogateescape")
            found[name] = Joined((*entries_of(found[name]), text)) if name in found else text
        self._found = found

    def __getitem__(self, name: str) -> str:
        return self._found[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def split(scope: Scope) -> tuple[str, str]:
    """The path an application is mounted at, and the path below it, both percent-encoded.

    `path` contains the mount path (as ASGI specifies), or a proxy stripped it and `root_path` has it.
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
def _encoded(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode("latin-1"), value.encode("utf-8")) for name, value in headers)
