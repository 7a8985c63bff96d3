"""The channel of a gRPC client: to a host whose addresses are checked before each connection, and with calls
that find a dead peer on silent streams. It resolves nothing itself.

gRPC resolves names for each connection, and accepts no custom resolver. So the channel gets addresses instead
of the name; the name is only used for `:authority` and for the certificate check. After a failure to connect,
the next call resolves again, and gets a new channel if the addresses have changed. Calls that run on the
former channel end there: they may still get a connection, or have one that only accepts no further calls.

Servers with gRPC's default settings end a connection after a few HTTP/2 pings on a silent stream
(`too_many_pings`, any interval below five minutes), and agents are silent for minutes while they work. A
small call on the same connection is answered by every server, if only with UNIMPLEMENTED.

An observer gets the frames of calls. Without one nothing is installed for it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Protocol

import grpc
import grpc.aio

from a2a_bridge.bindings.binding import Resolve
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.dialects import Row
from a2a_bridge_transports.grpc.wire import closed_error

_NATIVE = re.compile(r"(?:dns|ipv4|ipv6):(?://[^/]*/)?")


class Client(Service, Protocol):
    """A service over one channel."""

    async def close(self) -> None: ...

    async def finish(self) -> None:
        """Closes it when its running calls have ended."""


def place_of(target: str) -> tuple[str, int] | None:
    """The host and port of a target; None for several addresses, or none, such as the path of a socket."""
    host, _, port = _NATIVE.sub("", target).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return (host, int(port)) if host and port.isdecimal() and "," not in host and "/" not in host else None


def place_name(host: str, port: int) -> str:
    """`host:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Redialled:
    """Implements Service. make: creates a client for a target that consists of addresses."""

    def __init__(self, resolve: Resolve, host: str, port: int, make: Callable[[str], Client]) -> None:
        self._resolve = resolve
        self._host, self._port = host, port
        self._make = make
        self._client: Client | None = None
        #: the clients for former addresses, and what waits for the end of their calls
        self._former: dict[asyncio.Task[None], Client] = {}
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

    def _learn(self, client: Client, error: A2AError) -> None:
        if client is self._client and error.metadata.get("phase") == "connect":
            self._stale = True

    def _leave(self, client: Client) -> None:
        task = asyncio.create_task(client.finish(), name="a2a former connection")
        self._former[task] = client
        task.add_done_callback(self._former.pop)

    async def _current(self) -> Client:
        """The client for the present addresses. Raises UNAVAILABLE, and the errors of `resolve`."""
        if self._client is not None and not self._stale:
            return self._client
        with unsent():
            return await self._redial()

    async def _redial(self) -> Client:
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
        return _target(addresses, self._port)


def _target(addresses: Sequence[str], port: int) -> str:
    """All addresses of the first one's family: a target has a single family."""
    family = "ipv6" if ":" in addresses[0] else "ipv4"
    places = [place_name(text, port) for text in addresses if (":" in text) == (family == "ipv6")]
    return f"{family}:{','.join(places)}"


_PROBE = "/grpc.health.v1.Health/Check"


class Keepalive:
    """Watches the streams of one channel. A quarter of `idle_timeout` (seconds) of silence on all of them
    starts a probe, which has the rest of it for an answer; else they are cancelled and added to `lost`.
    """

    def __init__(self, channel: Any, idle_timeout: float) -> None:
        self.last_received = 0.0
        self.lost: set[Any] = set()
        self._quiet = idle_timeout / 4
        self._patience = idle_timeout - self._quiet
        self._probe = channel.unary_unary(_PROBE)
        self._streams: set[Any] = set()
        self._task: asyncio.Task[None] | None = None

    def watch(self, rpc: Any) -> None:
        """Starts watching a stream."""
        self.last_received = time.monotonic()
        self._streams.add(rpc)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def leave(self, rpc: Any) -> None:
        """Stops watching a stream, lost or not."""
        self._streams.discard(rpc)
        self.lost.discard(rpc)

    async def close(self) -> None:
        """Stops watching all streams."""
        self._streams.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while self._streams:
                silence = time.monotonic() - self.last_received
                if silence < self._quiet:
                    await asyncio.sleep(self._quiet - silence)
                elif await self._answers():
                    self.last_received = time.monotonic()
                else:
                    self.lost.update(self._streams)
                    for rpc in tuple(self._streams):
                        rpc.cancel()
                    return
        finally:
            self._task = None

    async def _answers(self) -> bool:
        probed_at = time.monotonic()
        try:
            await self._probe(b"", timeout=self._patience)
        except grpc.aio.AioRpcError as error:
            # Any other status is a response, or a broken connection, which the streams detect themselves.
            return error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED or self.last_received > probed_at
        return True


#: gets the frames of gRPC calls. grpcio does not expose the bytes of HTTP/2; the reports contain its inputs
#: and outputs: path, metadata, messages (as bytes and decoded), status and trailers
FrameObserver = Callable[[Frame], None]


def observe_frames(
    start: Callable[..., Any], row: Row[str, bytes], observe: FrameObserver
) -> Callable[..., Any]:
    """A multicallable whose frames are reported to `observe`."""

    def begin(wire: bytes, *, timeout: float | None, metadata: Any) -> _Call:
        observe(Frame(True, row.address, _headers(metadata), wire, row.decode_request(wire)))
        return _Call(start(wire, timeout=timeout, metadata=metadata), row, observe)

    return begin


class _Call:
    """A call of grpc.aio that reports its reads; everything else is delegated."""

    def __init__(self, call: Any, row: Row[str, bytes], observe: FrameObserver) -> None:
        self._call = call
        self._row = row
        self._observe = observe
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._answer().__await__()

    async def read(self) -> Any:
        return await self._show(self._call.read)

    async def _answer(self) -> bytes:
        async def whole() -> bytes:
            answer: bytes = await self._call
            return answer

        answer: bytes = await self._show(whole)
        await self._end()
        return answer

    async def _show(self, read: Callable[[], Any]) -> Any:
        try:
            answer = await read()
        except grpc.aio.AioRpcError:
            await self._begin()
            await self._end()
            raise
        await self._begin()
        if answer is grpc.aio.EOF:
            await self._end()
        else:
            self._observe(Frame(False, body=answer, message=self._decode(answer)))
        return answer

    async def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        if headers := _headers(await self._call.initial_metadata()):
            self._observe(Frame(False, "initial metadata", headers))

    async def _end(self) -> None:
        code = await self._call.code()
        details = await self._call.details()
        head = f"grpc-status: {code.value[0]} {code.name}" + (f" ({details})" if details else "")
        self._observe(Frame(False, head, _headers(await self._call.trailing_metadata())))

    def _decode(self, answer: bytes) -> Any:
        try:
            return self._row.decode_response(answer)
        except A2AError:
            return None  # the client will report the error; this shows the bytes


def _headers(metadata: Any) -> tuple[tuple[str, str], ...]:
    """Metadata as text; values of `-bin` names in hexadecimal."""
    return tuple(
        (name, value.hex() if isinstance(value, bytes) else str(value)) for name, value in metadata or ()
    )
