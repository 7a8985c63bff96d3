"""The connections of client sides, kept for the next call, and where they may go. It knows no calls."""

import asyncio
import re
import socket
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from a2a_bridge.bindings.binding import Resolve, mark_unconnected
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.probing import ends_within
from a2a_bridge.core.errors import A2AError, Blame, Reason

#: the first frame of a server of HTTP/2 (RFC 9113, 3.4)
_SETTINGS = re.compile(rb"\x00\x00.\x04\x00\x00\x00\x00\x00", re.DOTALL)
HTTP_2_ONLY = "the agent speaks HTTP/2 only; where this is its gRPC port, write grpc://HOST:PORT"


class _Connection(ResponseHandler):
    """A connection that is not used again after a response that nobody asked for: the next call, of another
    caller perhaps, would get it, and each further call the error of the call before.

    Closing it drops the rest of a request: a peer that reads nothing would keep it in memory for ever.
    """

    def is_connected(self) -> bool:
        # Not by `super`: this is asked for each call.
        return not self._buffer and self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        transport = self.transport
        if isinstance(transport, asyncio.Transport) and transport.get_write_buffer_size():
            self.abort()
        else:
            super().close()

    @property
    def speaks_http_2(self) -> bool:
        """Whether the server has begun with the settings of HTTP/2, before any request."""
        return _SETTINGS.match(self._tail) is not None


class Connector(aiohttp.TCPConnector):
    """Makes such connections. seconds, patience: `DialOptions.connect_timeout` and `connect_patience`, both
    without the time in which this process was busy. options: of aiohttp.TCPConnector.

    A connection does not depend on the time of the call that asked for it: one connection for each place is
    made to its end, and kept for later calls. Otherwise callers with little time would never get one.
    """

    def __init__(self, seconds: float, *, patience: float | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        kind: type[ResponseHandler] = _Connection
        self._factory = partial(kind, loop=self._loop)
        self._patience = patience
        #: connections that are made although the call that asked for them has ended
        self._apart: dict[Any, asyncio.Task[ResponseHandler]] = {}

    async def _create_connection(
        self,
        req: Any,
        traces: Any,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  the name in aiohttp
    ) -> ResponseHandler:
        making = asyncio.create_task(super()._create_connection(req, traces, timeout))
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
        if isinstance(made, _Connection) and made.speaks_http_2:
            made.close()
            raise unavailable(HTTP_2_ONLY, "connect")
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
