"""A client for a host whose addresses are checked: it gets another channel when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from a2a_bridge.bindings.binding import Resolve
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.places import place_name
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge_transports.grpc.wire import closed_error


class Finishing(Service, Protocol):
    """A service over connections that can be closed."""

    async def close(self) -> None:
        """Ends running calls and closes the connections."""

    async def finish(self) -> None:
        """Closes the connections when the running calls have ended."""


class Redialled:
    """Implements Service. make: creates a client for a target that consists of addresses.

    gRPC resolves names for each connection, and accepts no custom resolver. So the channel gets addresses
    instead of the name; the name is only used for `:authority` and for the certificate check. After a failure
    to connect, the next call resolves again, and gets a new channel if the addresses have changed. Calls that
    run on the former channel end there: they may still get a connection, or have one that only accepts no
    further calls.
    """

    def __init__(self, resolve: Resolve, host: str, port: int, make: Callable[[str], Finishing]) -> None:
        self._resolve = resolve
        self._host, self._port = host, port
        self._make = make
        self._client: Finishing | None = None
        #: the clients for former addresses, and what waits for the end of their calls
        self._former: dict[asyncio.Task[None], Finishing] = {}
        self._target = ""
        self._stale = True
        self._closed = False
        self._dialling = asyncio.Lock()

    async def unary(self, call: Call[Req, Res], /) -> Res:
        client = await self._current()
        try:
            return await client.unary(call)
        except A2AError as error:
            self._learn(client, error)
            raise

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        client = await self._current()
        try:
            return await open_stream(client.stream(call))
        except A2AError as error:
            self._learn(client, error)
            raise

    async def close(self) -> None:
        """Closes the connections. Calls that wait for addresses dial none."""
        self._closed = True
        for waiting, former in tuple(self._former.items()):
            waiting.cancel()
            await former.close()
        if self._client is not None:
            await self._client.close()

    def _learn(self, client: Finishing, error: A2AError) -> None:
        if client is self._client and error.metadata.get("phase") == "connect":
            self._stale = True

    def _leave(self, client: Finishing) -> None:
        task = asyncio.create_task(client.finish(), name="a2a former connection")
        self._former[task] = client
        task.add_done_callback(self._former.pop)

    async def _current(self) -> Finishing:
        """The client for the present addresses. Raises UNAVAILABLE, and the errors of `resolve`."""
        if self._client is not None and not self._stale:
            return self._client
        with unsent():
            return await self._redial()

    async def _redial(self) -> Finishing:
        async with self._dialling:
            if self._client is None or self._stale:
                target = await self._check()
                if self._closed:
                    raise closed_error()
                if target != self._target or self._client is None:
                    former, self._client, self._target = self._client, self._make(target), target
                    if former is not None:
                        self._leave(former)
                self._stale = False
            return self._client

    async def _check(self) -> str:
        try:
            addresses = await self._resolve(self._host, self._port)
        except OSError:
            addresses = []
        if not addresses:
            raise A2AError(
                Reason.UNAVAILABLE,
                f"no address of {self._host} is known",
                metadata={"phase": "connect"},
                blame=Blame.PEER,
            )
        return _target_with(addresses, self._port)


def _target_with(addresses: Sequence[str], port: int) -> str:
    """All addresses of the first one's family: a target has a single family."""
    family = "ipv6" if ":" in addresses[0] else "ipv4"
    places = [place_name(text, port) for text in addresses if (":" in text) == (family == "ipv6")]
    return f"{family}:{','.join(places)}"
