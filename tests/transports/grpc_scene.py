"""A probe behind a gRPC host, and the plain grpcio client that sends bytes to it. No tests."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.pb import google_rpc
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports.grpc import BINDING, GrpcHost
from tests.patience import PATIENCE

SERVICE = "lf.a2a.v1.A2AService"


@asynccontextmanager
async def hosting(
    service: Service, *, dialects: Sequence[Dialect] = (V1_0,), **options: Any
) -> AsyncIterator[GrpcHost]:
    host = BINDING.host(ListenAddress(), HostOptions(**options))
    BINDING.mount(host, "", service, dialects)
    await host.start()
    try:
        yield host
    finally:
        await host.drain(0)


@asynccontextmanager
async def dialling(
    url: object, *, tenant: str = "", dialect: Dialect = V1_0, **options: Any
) -> AsyncIterator[Client]:
    interface = hub.AgentInterface(
        url=str(url), protocol_binding="GRPC", protocol_version=dialect.version, tenant=tenant
    )
    async with BINDING.dial(interface, dialect, DialOptions(**options)) as service:
        yield Client(service)


@asynccontextmanager
async def channel(address: object, options: Sequence[tuple[str, Any]] = ()) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(str(address), options=list(options)) as opened:
        yield opened


async def finished(rpc: Any) -> list[bytes]:
    """All answers of a unary or streaming call. Raises AioRpcError."""
    if not hasattr(rpc, "read"):
        return [await rpc]
    answers = []
    while (answer := await rpc.read()) is not grpc.aio.EOF:
        answers.append(answer)
    return answers


async def rejected(rpc: Any) -> Any:
    """The AioRpcError of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(finished(rpc), PATIENCE)
    return caught.value


def details_of(error: Any) -> tuple[str, list[Any]]:
    """(ErrorInfo.reason, all details) of a status."""
    trailers = dict(error.trailing_metadata())
    status = google_rpc.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = google_rpc.ErrorInfo.FromString(status.details[0].value)
    assert info.domain == "a2a-protocol.org"
    return info.reason, list(status.details)


def texts(error: Any) -> Iterable[str]:
    yield error.details()
    for _, value in error.trailing_metadata():
        yield value if isinstance(value, str) else value.decode("latin-1")


# --- A relay between a client and a server that can fall silent or break, as networks do; no test ---
class Relay:
    """`address` leads where the relay was told to lead."""

    def __init__(self, host: str, port: int) -> None:
        self.address = ""
        self.muted = False
        self._there = (host, port)
        self._writers: list[asyncio.StreamWriter] = []
        self._running: set[asyncio.Task[None]] = set()

    async def ended(self) -> None:
        """Returns when no connection is left. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while self._running:
                await asyncio.wait(self._running)

    def mute(self) -> None:
        """Swallows everything from now on; the connections stay."""
        self.muted = True

    def cut(self) -> None:
        """Breaks all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        """Breaks all connections and waits until nothing is left of them."""
        while self._running:
            self.cut()
            await asyncio.wait(self._running)
        await asyncio.gather(*(one.wait_closed() for one in self._writers), return_exceptions=True)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.create_task(self._relay(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._there)
        self._writers.append(far_writer)
        await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not self.muted:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass  # broken by one side or by `cut`: the other side is to notice as well
        writer.transport.abort()


@asynccontextmanager
async def relaying(address: Any) -> AsyncIterator[Relay]:
    """A relay to `address` ("host:port")."""
    host, _, port = str(address).rpartition(":")
    relay = Relay(host, int(port))
    server = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
        # Since 3.12 this waits for the end of all connections, also of those that a client leaves open.
        await server.wait_closed()
