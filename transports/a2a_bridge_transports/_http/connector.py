"""The connections of client sides, kept for the next call, and where they may go. It knows no calls."""

import asyncio
import socket
from functools import partial
from time import monotonic
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from a2a_bridge.bindings.binding import Resolve, mark_unconnected
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.probing import ends_within
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge_transports._http.agent_connection import Connection

HTTP_2_ONLY = "the agent speaks HTTP/2 only; where this is its gRPC port, write grpc://HOST:PORT"


class Connector(aiohttp.TCPConnector):
    """Makes such connections. seconds, patience: `DialOptions.connect_timeout` and `connect_patience`, both
    without the time in which this process was busy. kept: how many seconds a connection waits for the next
    call. options: of aiohttp.TCPConnector.

    A connection does not depend on the time of the call that asked for it: one connection for each place is
    made to its end, and kept for later calls. Otherwise callers with little time would never get one.
    """

    def __init__(self, seconds: float, *, kept: float, patience: float | None = None, **options: Any) -> None:
        super().__init__(keepalive_timeout=kept, **options)
        self._seconds = seconds
        self._kept = kept
        kind: type[ResponseHandler] = Connection
        self._factory = partial(kind, loop=self._loop)
        self._patience = patience
        #: connections that are made although the call that asked for them has ended
        self._apart: dict[Any, asyncio.Task[ResponseHandler]] = {}

    def take(self, origin: aiohttp.ClientRequest) -> Connection | None:
        """A kept connection to an origin; None if there is none that can be used. It goes to `give_back`.

        As `connect` takes it, but without two coroutines and an object for the way back.
        """
        kept = self._conns.get(origin.connection_key)
        # `connect` tells a request the credentials for its proxy, and throws away what cannot be used.
        if not kept or origin.proxy is not None:
            return None
        connection, since = kept[0]
        if not connection.is_connected() or monotonic() - since > self._kept:
            return None
        kept.popleft()  # an empty place goes with the next clean-up
        self._acquired.add(connection)
        return cast("Connection", connection)

    async def lend(self, origin: aiohttp.ClientRequest, limit: float | None) -> Connection:
        """A connection to an origin, kept or made within so many seconds. It goes to `give_back`."""
        lease = await self.connect(origin, [], aiohttp.ClientTimeout(total=limit))
        connection, lease._protocol = lease.protocol, None  # noqa: SLF001  it goes back without this object
        return cast("Connection", connection)

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection for the next call, or closes it if it cannot be used again."""
        if self._cleanup_handle is None or connection.should_close:
            self._release(connection.place, connection)
            return
        self._acquired.discard(connection)
        self._conns[connection.place].append((connection, monotonic()))

    async def _create_connection(
        self,
        req: Any,
        traces: Any,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  the name in aiohttp
    ) -> ResponseHandler:
        # Only who waits for a new connection needs a limit here: one that was kept is there at once.
        async with asyncio.timeout(timeout.total):
            return await self._make(req, traces, timeout)

    async def _make(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> ResponseHandler:  # noqa: ASYNC109
        making = asyncio.create_task(self._open(req, traces, timeout))
        seconds = self._seconds
        if self._patience is not None:
            most = timeout.total / 4 if timeout.total else self._patience
            seconds = min(seconds, self._patience, most)
        try:
            with unsent():
                has_ended = await ends_within(making, seconds)
        except asyncio.CancelledError as error:
            mark_unconnected(error)
            self._finish_apart(req.connection_key, making)
            raise
        if not has_ended:
            if self._patience is None:
                making.cancel()
            else:
                self._finish_apart(req.connection_key, making)
            raise aiohttp.ConnectionTimeoutError(f"none within {seconds:g} s")
        made = making.result()
        if isinstance(made, Connection) and made.speaks_http_2:
            made.close()
            raise unavailable(HTTP_2_ONLY, "connect")
        return made

    async def _open(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> ResponseHandler:  # noqa: ASYNC109
        made = await super()._create_connection(req, traces, timeout)
        if isinstance(made, Connection):
            made.pool, made.place = self, req.connection_key
        return made

    def _finish_apart(self, key: Any, making: asyncio.Task[ResponseHandler]) -> None:
        if key in self._apart or self.closed:
            making.cancel()
        else:
            self._apart[key] = making
        end = self._loop.call_later(self._seconds, making.cancel)
        making.add_done_callback(partial(self._keep, key, end))

    def _keep(self, key: Any, end: asyncio.TimerHandle, making: asyncio.Task[ResponseHandler]) -> None:
        end.cancel()
        if self._apart.get(key) is making:
            del self._apart[key]
        if making.cancelled() or making.exception() is not None:
            return
        if self.closed:
            making.result().close()
        else:
            self._release(key, making.result())

    async def close(self, *, abort_ssl: bool = False) -> None:
        for making in self._apart.values():
            making.cancel()
        await super().close(abort_ssl=abort_ssl)


class Checked(AbstractResolver):
    """Connects only to the addresses that `resolve` gives for a host at that moment."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found: list[ResolveResult] = []
        for text in await self._resolve(host, port):
            kind = socket.AF_INET6 if ":" in text else socket.AF_INET
            if family in (socket.AF_UNSPEC, kind):
                found.append(
                    ResolveResult(
                        hostname=host,
                        host=text,
                        port=port,
                        family=kind,
                        proto=0,
                        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    )
                )
        if not found:
            raise OSError("the host has no address")
        return found

    async def check_literal(self, url: URL) -> None:
        """Checks a host that is an address, or a number that stands for an address: connectors resolve
        neither. Raises UNAVAILABLE (phase=connect), and the A2AError with which `resolve` rejects the host.
        """
        host = url.host or ""
        if ":" in host or host.replace(".", "").isdigit():
            try:
                await self._resolve(host, url.port or 0)
            except (OSError, UnicodeError) as error:
                raise unavailable(f"no connection to the agent: {host} is no address", "connect") from error

    async def close(self) -> None:
        """Nothing to close."""


def build_resolver(resolve: Resolve | None) -> Checked | None:
    """A resolver for `open_exchanger` that calls `resolve`; None for the system's."""
    return None if resolve is None else Checked(resolve)


def unavailable(text: str, phase: str) -> A2AError:
    """The error of a peer that cannot be reached, or does not answer. phase: how far the call came."""
    return A2AError(Reason.UNAVAILABLE, text, metadata={"phase": phase}, blame=Blame.PEER)
