"""The ASGI application that Envoy loads: runs the command line again, in the process of Envoy.

Rules:
1. The command runs in a thread of its own, with the checks, messages and exit codes that it has elsewhere.
2. Its event loop is that of Envoy's Python module, which calls the application in it.
3. Envoy starts to listen when the application is ready, and ends when the command has ended.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from a2a_bridge.cli import envoy, main
from a2a_bridge.cli.envoy.bootstrap import CONNECTIONS, FORWARDED_SCHEME, LISTENER, STREAMS
from a2a_bridge.cli.envoy.supervisor import HANGUP, Handover

if TYPE_CHECKING:
    from a2a_bridge.app.process import Stop
    from a2a_bridge.bindings.binding import ListenAddress
    from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds that the listener stays open after the signal while connections are open, without --drain-window
_WINDOW = 0.5
#: seconds for the last responses to reach their callers
_FLUSH, _FAREWELL = 2.0, 0.25

_log = logging.getLogger(__name__)

Application = Callable[[Any, Any, Any], Awaitable[None]]

#: the header that Envoy writes: see `bootstrap.py`
_CERTIFICATE = b"x-forwarded-client-cert"
_CERTIFICATE_MEMBER = re.compile(r'(?:^|;)Cert="([^"]*)"')


class Inside:
    """The command in the process of Envoy."""

    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._on_hangup: Callable[[], None] = _ignore
        self._stop: Stop | None = None
        #: resolved when requests can be answered
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        #: answers requests, once it is ready
        self.application: Application = _not_ready

    def start(self) -> None:
        """Runs the command in a thread."""
        threading.Thread(target=self._command, name="a2a-bridge", daemon=True).start()

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine of the command to its end; called in the command's thread."""
        asyncio.run_coroutine_threadsafe(main, self._loop.result()).result()

    @contextmanager
    def stop_signals(self, _grace: float) -> Iterator[Stop]:
        """The event that the supervisor sets. The supervisor also limits the time of the end."""
        from a2a_bridge.app.process import Stop  # loads protobuf

        loop = asyncio.get_running_loop()
        stop = self._stop = Stop()

        def on_readable() -> None:
            number = os.read(self._handover.stop, 1)
            if number == HANGUP:
                self._on_hangup()
                return
            loop.remove_reader(self._handover.stop)
            stop.request(signal.Signals(number[0]).name if number else "the end of its supervisor")

        loop.add_reader(self._handover.stop, on_readable)
        try:
            yield stop
        finally:
            loop.remove_reader(self._handover.stop)

    def hangups(self, on_hangup: Callable[[], None]) -> None:
        """Calls `on_hangup` when the supervisor gets SIGHUP."""
        self._on_hangup = on_hangup

    @asynccontextmanager
    async def serve(
        self, application: Any, interfaces: Sequence[hub.AgentInterface], window: float | None
    ) -> AsyncIterator[Listening]:
        """Lets Envoy send requests to an application until the context ends. Raises errors of the start."""
        application.trailers = True  # the card lists gRPC
        await application.start()
        answering: Application = application
        if self._handover.trusts_proxies:
            answering = restore_forwarded(answering)
        if self._handover.has_clients:
            answering = place_certificate(answering)
        self.application = answering
        self._ready.set()
        admin = Admin(self._handover.admin)
        families = {"grpc" if one.protocol_binding == "GRPC" else "http" for one in interfaces}
        address = await admin.wait_listening()
        server = Listening(application, admin, address, families, self._handover.secure, window)
        try:
            yield server
        finally:
            await server.drain(0)

    async def lifespan(self, receive: Any, send: Any) -> None:
        """Answers the lifespan protocol of the Python module of Envoy."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_exception)
        self._loop.set_result(loop)
        await receive()
        await self._ready.wait()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        # Envoy was stopped by another process: its listeners are closed already.
        if self._stop is not None:
            self._stop.request("the end of Envoy")
        await self._ended.wait()
        await send({"type": "lifespan.shutdown.complete"})

    def _command(self) -> None:
        code: Any = 1
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code
            if isinstance(code, str):
                sys.stderr.write(f"{code}\n")
                code = 1
        except BaseException:  # noqa: BLE001  as the interpreter does it
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        if code or not self._ready.is_set():
            atexit._run_exitfuncs()  # noqa: SLF001  as the interpreter does it
            os._exit(code or 0)
        self._loop.result().call_soon_threadsafe(self._ended.set)
        os.kill(os.getpid(), signal.SIGTERM)  # Envoy's handler


class Listening:
    """A running server in Envoy, in the manner of `runtime.Server`."""

    def __init__(
        self,
        application: Any,
        admin: Any,
        address: Any,
        families: set[str],
        secure: bool,
        window: float | None,
    ) -> None:
        self._application = application
        self._admin = admin
        self._address = address
        self._window = window
        self._drained = False
        self.http = address if "http" in families else None
        self.grpc = address if "grpc" in families else None
        self.secure = secure
        self.admin = application.admin

    @property
    def cards(self) -> Any:
        """The cards by name, as a caller on this machine sees them; "" for the only one."""
        return self._application.cards(f"{'https' if self.secure else 'http'}://{self._address}")

    async def drain(self, grace: float) -> None:
        """Rejects new work; running calls get `grace` seconds, then end as UNAVAILABLE. May be repeated."""
        if self._drained:
            return
        self._drained = True
        end = monotonic() + grace
        self._application.retire()
        await self._admin.close_connections()
        window = self._window
        if window is None:
            window = _WINDOW if await self._admin.connections() else 0.0
        await asyncio.sleep(min(window, grace))
        await self._admin.close_listeners()
        await self._application.drain(max(0.0, end - monotonic()))
        await self._admin.wait_finished(_FLUSH, _FAREWELL)


def _ignore() -> None:
    """SIGHUP before the command is ready: it reads its configuration anyway."""


async def _not_ready(_scope: Any, _receive: Any, _send: Any) -> None:
    raise RuntimeError("a request came before the application was ready")


def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports errors of callbacks, as event loops do. When a client leaves, pyvoy resolves futures that are
    cancelled already: that is no error.
    """
    if isinstance(context.get("exception"), asyncio.InvalidStateError):
        _log.debug("a client left: %s", context.get("message"))
    else:
        loop.default_exception_handler(context)


def restore_forwarded(application: Application) -> Application:
    """An application that gets X-Forwarded-Proto back, which Envoy copied: see `bootstrap.py`."""
    copied, original = FORWARDED_SCHEME.encode(), b"x-forwarded-proto"

    def restore(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        scope["headers"] = [(original if name == copied else name, value) for name, value in scope["headers"]]
        return application(scope, receive, send)

    return restore


def place_certificate(application: Application) -> Application:
    """An application that gets the client certificate where ASGI has it, and not in a header."""

    def move(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        headers, found = [], b""
        for name, value in scope["headers"]:
            if name == _CERTIFICATE:
                found = value
            else:
                headers.append((name, value))
        if found:
            extensions = scope.get("extensions") or {}
            member = _CERTIFICATE_MEMBER.search(found.decode("latin-1"))
            chain = [] if member is None else [unquote(member[1])]
            tls = {**extensions.get("tls", {}), "client_cert_chain": chain}
            scope["headers"], scope["extensions"] = headers, {**extensions, "tls": tls}
        return application(scope, receive, send)

    return move


def __getattr__(name: str) -> Any:
    """`app` starts the command. Only Envoy's module reads it, once."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    inside = Inside(Handover.take())

    def app(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        # No coroutine of its own: this is on the path of each request.
        if scope["type"] == "lifespan":
            return inside.lifespan(receive, send)
        return inside.application(scope, receive, send)

    # Envoy's module asks this of callables that are not coroutine functions.
    app._asgi_single_callable = True  # type: ignore[attr-defined]  # noqa: SLF001
    envoy.set_inside(inside)
    inside.start()
    return app


#: seconds between two requests for a state
_LOOK = 0.01


class Admin:
    """The administration of the Envoy that this process is, over its Unix socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def wait_listening(self) -> ListenAddress:
        """Waits until Envoy serves; returns the address of the listener, with its real port."""
        from a2a_bridge.bindings.binding import ListenAddress

        while True:
            try:
                if (await self._ask("GET", "/ready")).strip() == "LIVE":
                    break
            except OSError:  # the socket is not there yet
                pass
            await asyncio.sleep(_LOOK)
        states = json.loads(await self._ask("GET", "/listeners?format=json"))["listener_statuses"]
        address = next(one for one in states if one["name"] == LISTENER)["local_address"]["socket_address"]
        return ListenAddress(address["address"], address["port_value"])

    async def close_connections(self) -> None:
        """From now on each response closes its connection (HTTP/2: GOAWAY)."""
        await self._ask("POST", "/healthcheck/fail")

    async def close_listeners(self) -> None:
        """New connections are refused; open ones stay."""
        await self._ask("POST", "/drain_listeners")

    async def connections(self) -> int:
        """The open connections of callers."""
        return await self._number(CONNECTIONS)

    async def wait_finished(self, limit: float, farewell: float) -> None:
        """Waits until no request is open, for at most `limit` seconds, then until no connection is open, for
        at most `farewell` seconds: callers that keep idle connections open do not delay the end.
        """
        for name, seconds in ((STREAMS, limit), (CONNECTIONS, farewell)):
            try:
                async with asyncio.timeout(seconds):
                    while await self._number(name):  # noqa: ASYNC110  Envoy tells nothing by itself
                        await asyncio.sleep(_LOOK)
            except TimeoutError:
                pass

    async def _number(self, name: str) -> int:
        wanted = f"http.{LISTENER}.{name}"
        for line in (await self._ask("GET", f"/stats?filter={name}")).splitlines():
            key, _, value = line.partition(": ")
            if key == wanted:
                return int(value)
        return 0  # Envoy creates a counter when it first counts

    async def _ask(self, method: str, path: str) -> str:
        """The body of a response. Raises OSError."""
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n".encode())
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return _join(body)


def _join(body: bytes) -> str:
    """The content of a chunked body; Envoy's administration sends no other."""
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        content += rest[:length]
        body = rest[length + 2 :] if length else b""
    return content.decode()
