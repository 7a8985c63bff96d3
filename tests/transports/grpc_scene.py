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
