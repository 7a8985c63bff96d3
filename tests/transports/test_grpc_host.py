"""The gRPC host: health, reflection, draining, addresses, and the service on an application's own server."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import GRPC, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import minimal
from a2a_bridge_transports.grpc import BINDING, GrpcHost, add_to_server
from tests.transports.grpc_scene import PATIENCE, SERVICE, channel, details_of, dialling, hosting, rejected

EVENT = minimal(hub.StreamResponse)
SEND = hub.SendMessageRequest()
Serving = health_pb2.HealthCheckResponse


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(minimal(hub.SendMessageResponse))
    made.on_stream = yielding(EVENT)
    return made


@pytest.fixture
async def host(probe: Probe) -> AsyncIterator[GrpcHost]:
    async with hosting(probe) as started:
        yield started


@pytest.mark.parametrize("name", ["", SERVICE])
async def test_health(host: GrpcHost, name: str) -> None:
    async with channel(host.address) as raw:
        stub = health_pb2_grpc.HealthStub(raw)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == Serving.SERVING
        error = await rejected(stub.Check(health_pb2.HealthCheckRequest(service="nobody")))
        assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_who_watches_health_learns_of_the_drain_first(host: GrpcHost, probe: Probe) -> None:
    probe.on_unary = waiting
    async with channel(host.address) as raw, dialling(host.address) as client:
        stub = health_pb2_grpc.HealthStub(raw)
        known = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"))
        assert (await known.read()).status == Serving.SERVING
        assert (await unknown.read()).status == Serving.SERVICE_UNKNOWN
        call = asyncio.create_task(client.send_message(SEND))
        await probe.wait_running(1)
        draining = asyncio.create_task(host.drain(0.3))
        assert (await asyncio.wait_for(known.read(), PATIENCE)).status == Serving.NOT_SERVING
        assert not call.done()
        for watch in (known, unknown):
            assert (await rejected(watch)).code() is grpc.StatusCode.UNAVAILABLE
        await draining
        with pytest.raises(A2AError):
            await call


async def test_watchers_of_health_do_not_hold_a_drain(host: GrpcHost) -> None:
    async with channel(host.address) as raw:
        watch = health_pb2_grpc.HealthStub(raw).Watch(health_pb2.HealthCheckRequest())
        await watch.read()
        await asyncio.wait_for(host.drain(60), PATIENCE)


async def reflect(address: object, *requests: Any) -> list[Any]:
    async with channel(address) as raw:
        rpc = reflection_pb2_grpc.ServerReflectionStub(raw).ServerReflectionInfo(iter(requests))
        return [answer async for answer in rpc]


async def test_reflection_lists_the_services(host: GrpcHost) -> None:
    (answer,) = await reflect(host.address, reflection_pb2.ServerReflectionRequest(list_services=""))
    assert [service.name for service in answer.list_services_response.service] == [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        SERVICE,
    ]


async def test_reflection_gives_every_file_that_a_tool_needs(host: GrpcHost) -> None:
    wanted, files = [SERVICE, "grpc.health.v1.Health"], {}
    requests = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in wanted]
    while requests:
        for answer in await reflect(host.address, *requests):
            for data in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(data)
                files[file.name] = file
        missing = {name for file in files.values() for name in file.dependency} - files.keys()
        requests = [reflection_pb2.ServerReflectionRequest(file_by_filename=name) for name in missing]
    services = {f"{file.package}.{service.name}" for file in files.values() for service in file.service}
    assert services == set(wanted)
    (service,) = (file.service[0] for file in files.values() if file.package == "lf.a2a.v1")
    assert len(service.method) == 11


@pytest.mark.parametrize("symbol", ["no.Such", f"{SERVICE}.NoSuch", "GetTask", ""])
async def test_reflection_does_not_know_everything(host: GrpcHost, symbol: str) -> None:
    (answer,) = await reflect(
        host.address, reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
    )
    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_finds_a_method(host: GrpcHost, version: str) -> None:
    """The first question of `grpcurl describe` and of other tools is for v1."""
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=f"{SERVICE}.GetTask")
    async with channel(host.address) as raw:
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        rpc = raw.stream_stream(path)(iter([request.SerializeToString()]))
        (answer,) = [reflection_pb2.ServerReflectionResponse.FromString(wire) async for wire in rpc]
    names = [
        descriptor_pb2.FileDescriptorProto.FromString(data).package
        for data in answer.file_descriptor_response.file_descriptor_proto
    ]
    assert names[0] == SERVICE.rpartition(".")[0]


async def test_an_address_in_use_is_a_clear_error(host: GrpcHost, capfd: pytest.CaptureFixture[str]) -> None:
    second = BINDING.host(host.address, HostOptions())
    with pytest.raises(OSError) as caught:
        await second.start()
    assert caught.value.errno == errno.EADDRINUSE
    await second.drain(0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = ListenAddress("127.0.0.1", other.getsockname()[1])
        with pytest.raises(OSError) as caught:
            await BINDING.host(address, HostOptions()).start()
        assert caught.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError) as caught:
        await BINDING.host(ListenAddress("192.0.2.1", 0), HostOptions()).start()
    assert caught.value.errno == errno.EADDRNOTAVAIL
    assert capfd.readouterr().err == ""


async def test_a_port_is_free_again_after_the_drain(probe: Probe) -> None:
    address = ListenAddress()
    for _ in range(3):
        host = BINDING.host(address, HostOptions())
        BINDING.mount(host, "", probe, [V1_0])
        await host.start()
        assert host.address.port != 0
        address = host.address
        async with dialling(address) as client:
            await client.send_message(SEND)
        await host.drain(1)
        await host.drain(1)
    assert len(probe.calls) == 3


async def test_limits_may_be_larger_than_an_option_of_grpc(probe: Probe) -> None:
    large = 1 << 40
    options = HostOptions(max_body=large, max_connections=large, max_connection_streams=large)
    host = BINDING.host(ListenAddress(), options)
    BINDING.mount(host, "", probe, [V1_0])
    await host.start()
    async with dialling(host.address) as client:
        await client.send_message(SEND)
    await host.drain(1)
    assert len(probe.calls) == 1


async def test_one_address_one_service(host: GrpcHost, probe: Probe) -> None:
    fresh = BINDING.host(ListenAddress(), HostOptions())
    BINDING.mount(fresh, "", probe, [V1_0])
    with pytest.raises(ValueError, match="served"):
        BINDING.mount(fresh, "/other", probe, [V1_0])
    form = V1_0.forms[GRPC]
    rows = tuple(replace(row, operation=ops.SUBSCRIBE_TO_TASK) for row in form.rows)
    other = replace(V1_0, version="1.1", forms={GRPC: replace(form, rows=rows)})
    with pytest.raises(ValueError, match="in some versions only"):
        BINDING.mount(BINDING.host(ListenAddress(), HostOptions()), "", probe, [V1_0, other])
    with pytest.raises(RuntimeError, match="started"):
        BINDING.mount(host, "", probe, [V1_0])


def test_tls_of_a_host_is_grpcs_own() -> None:
    with pytest.raises(ValueError, match="ServerCredentials"):
        BINDING.host(ListenAddress(), HostOptions(tls="cert.pem"))


async def test_remaining_calls_get_an_error_after_the_grace(host: GrpcHost, probe: Probe) -> None:
    probe.on_unary, probe.on_stream = waiting, holding(EVENT)
    async with channel(host.address) as raw:
        stream = raw.unary_stream(f"/{SERVICE}/SendStreamingMessage")(b"")
        assert await stream.read() == EVENT.SerializeToString()
        unary = raw.unary_unary(f"/{SERVICE}/SendMessage")(b"")
        await probe.wait_running(2)
        await asyncio.wait_for(host.drain(0), PATIENCE)
        for rpc in (stream, unary):
            error = await rejected(rpc)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert details_of(error)[0] == "UNAVAILABLE"
    assert probe.cancelled == 2


async def test_a_caller_that_reads_nothing_does_not_hold_a_drain(
    host: GrpcHost, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    big = hub.StreamResponse(message=hub.Message(message_id="x" * 1_000_000))
    probe.on_stream = yielding(*[big] * 100)
    async with channel(host.address) as raw:
        stream = raw.unary_stream(f"/{SERVICE}/SendStreamingMessage")(b"")
        await stream.read()
        await asyncio.wait_for(host.drain(0), PATIENCE)
        await probe.wait_running(0)
        stream.cancel()
    assert not caplog.records


def _read_too_much(address: object, path: str) -> None:
    """Calls with a client that takes no message above 4 MiB, which is the default."""
    with grpc.insecure_channel(str(address)) as raw:
        make = raw.unary_unary if path.endswith("SendMessage") else raw.unary_stream
        for _ in range(10):
            with pytest.raises(grpc.RpcError, match="larger than max"):
                list(make(path)(b"", timeout=PATIENCE))


@pytest.mark.parametrize("name", ["SendMessage", "SendStreamingMessage"])
async def test_a_caller_that_rejects_what_it_gets_is_no_defect(
    probe: Probe, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    large = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="x" * 5_000_000)])
    probe.on_unary = answering(hub.SendMessageResponse(message=large))
    probe.on_stream = yielding(hub.StreamResponse(message=large), EVENT)
    async with hosting(probe) as host:
        # In a thread: a client of this loop would not be as fast as the server.
        await asyncio.to_thread(_read_too_much, host.address, f"/{SERVICE}/{name}")
        await probe.wait_running(0)
    assert not caplog.records


async def test_on_an_application_server(probe: Probe) -> None:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_to_server(probe, server, [V1_0], HostOptions(max_body=1000), health=True, reflection=True)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with dialling(address) as client:
        assert await client.send_message(SEND) == minimal(hub.SendMessageResponse)
        async with aclosing(client.send_streaming_message(SEND)) as events:
            assert [event async for event in events] == [EVENT]
        with pytest.raises(A2AError) as caught:
            await client.send_message(hub.SendMessageRequest(message=hub.Message(message_id="x" * 2000)))
        assert caught.value.reason is Reason.REQUEST_TOO_LARGE
    async with channel(address) as raw:
        stub = health_pb2_grpc.HealthStub(raw)
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=SERVICE))).status == Serving.SERVING
    (answer,) = await reflect(address, reflection_pb2.ServerReflectionRequest(list_services=""))
    assert SERVICE in {service.name for service in answer.list_services_response.service}
    await server.stop(None)


def test_a_server_of_threads_is_rejected(probe: Probe) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    with pytest.raises(TypeError, match=r"need a server of grpc\.aio\.server\(\), not grpc\._server"):
        add_to_server(probe, server, [V1_0], HostOptions())
    server.stop(None)


async def test_on_an_application_server_health_and_reflection_are_optional(probe: Probe) -> None:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_to_server(probe, server, [V1_0], HostOptions())
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with channel(address) as raw:
        check = health_pb2_grpc.HealthStub(raw).Check(health_pb2.HealthCheckRequest())
        assert (await rejected(check)).code() is grpc.StatusCode.UNIMPLEMENTED
    await server.stop(None)
