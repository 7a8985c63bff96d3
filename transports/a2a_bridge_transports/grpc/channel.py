"""The parts of a gRPC channel: its place, arguments and credentials, the search for dead peers, observers.

Servers with gRPC's default settings end a connection after a few HTTP/2 pings on a silent stream
(`too_many_pings`, any interval below five minutes), and agents are silent for minutes while they work. A
small call on the same connection is answered by every server, if only with UNIMPLEMENTED.

An observer gets the frames of calls. Without one nothing is installed for it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import Row
from a2a_bridge_transports._http.proxy import is_loopback

_MAX_METADATA = 64 * 1024


def arguments_of(options: DialOptions, host: str) -> list[tuple[str, int | str]]:
    """The arguments of a channel to a host."""
    return [
        # Proxies of the environment are for other machines only.
        ("grpc.enable_http_proxy", 0 if is_loopback(host) else 1),
        ("grpc.primary_user_agent", "a2a-bridge"),
        ("grpc.max_receive_message_length", min(options.max_message, 2**31 - 1)),
        ("grpc.max_send_message_length", -1),
        # Errors are sent in trailers, and some peers send large ones.
        ("grpc.max_metadata_size", _MAX_METADATA),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA),
        # The limit of one connection attempt; the option's name is historical.
        ("grpc.min_reconnect_backoff_ms", max(1, int(options.connect_timeout * 1000))),
        # A restarted agent is found again within seconds, not within gRPC's default of two minutes.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # Otherwise channels to one address would share a connection and its failures.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def credentials_of(tls: Any, secure: bool | None) -> Any:
    """Channel credentials for DialOptions.tls and a URL's scheme; None for plain text. Raises ValueError."""
    if isinstance(tls, grpc.ChannelCredentials):
        return tls
    if isinstance(tls, ssl.SSLContext):
        return _from_context(tls)
    if isinstance(tls, TlsFiles):
        return _from_files(tls) if secure else None
    if tls is not None and not isinstance(tls, bool):
        raise ValueError(f"tls of type {type(tls).__name__} is nothing gRPC can use")
    return grpc.ssl_channel_credentials() if (secure if tls is None else tls) else None


def _from_files(files: TlsFiles) -> Any:
    """Raises ValueError for unusable files."""
    if not files.verify:
        raise ValueError(
            "gRPC always checks certificates: name the authority that signed the agent's (--cacert)"
        )
    try:
        files.context()  # gRPC reports invalid PEM files only when it connects
        ca, certificate, key = (
            Path(name).read_bytes() if name else None
            for name in (files.ca, files.certificate, files.key or files.certificate)
        )
    except OSError as error:
        raise ValueError(f"the files for TLS cannot be used: {error}") from None
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _from_context(context: ssl.SSLContext) -> Any:
    """The trusted authorities of an SSLContext. gRPC cannot get its client certificate: for that a caller
    passes grpc.ChannelCredentials.
    """
    if context.verify_mode is ssl.CERT_NONE:
        raise ValueError(
            "gRPC always verifies certificates: pass grpc.ChannelCredentials with the right roots"
        )
    authorities = [ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)]
    return grpc.ssl_channel_credentials("".join(authorities).encode() if authorities else None)


_PROBE = "/grpc.health.v1.Health/Check"


class Keepalive:
    """Watches the streams of one channel. A quarter of `idle_timeout` (seconds) of silence on all of them
    starts a probe. Without an answer in the rest of that time, the streams are cancelled and added to `lost`.
    takes_one: whether the server would let a probe wait for the end of the only stream; then there is none.
    """

    def __init__(self, channel: Any, idle_timeout: float, takes_one: Callable[[], Awaitable[bool]]) -> None:
        self._takes_one = takes_one
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
                elif await self._takes_one() or await self._answers():
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
        answer: bytes = await self._show(lambda: self._call)
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
