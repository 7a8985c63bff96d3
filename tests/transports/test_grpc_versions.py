"""Several versions on one gRPC port: packages, headers, errors, and content beside messages."""

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import GRPC, KNOWN, V0_1, V0_2_5, V0_3, V1_0, Dialect
from a2a_bridge.dialects.signed_extras import open_side_channel, seal_side_channel
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge.testing.samples import every_error, minimal
from a2a_bridge.testing.service_contract import assert_same_error, invoke
from a2a_bridge_transports.grpc import BINDING, add_to_server
from tests.transports.grpc_scene import channel, details_of, dialling, finished, hosting, rejected
from tests.transports.http_peer import NOTE, OLD, OLDER, PACKAGE

ALL = (V1_0, OLD, OLDER)
NEW = "/lf.a2a.v1.A2AService/"
REQUEST = hub.GetTaskRequest(id="t").SerializeToString()
TASK = minimal(hub.Task)
ONE, TWO = "https://e.example/1", "https://e.example/2"


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(TASK)
    made.on_stream = yielding(minimal(hub.StreamResponse))
    return made


def get(raw: Any, package: str, *metadata: tuple[str, str], wire: bytes = REQUEST) -> Any:
    return raw.unary_unary(package + "GetTask")(wire, metadata=metadata)


@pytest.mark.parametrize(
    ("package", "declared", "version"),
    [
        (NEW, None, "1.0"),
        (NEW, "1.0.1", "1.0"),
        (PACKAGE, None, "0.3"),
        (PACKAGE, "", "0.3"),
        (PACKAGE, "0.3", "0.3"),
        (PACKAGE, " 0.3.1 ", "0.3"),
        (PACKAGE, "0.2.5", "0.2.5"),
        (PACKAGE, "0.2", "0.2.5"),
    ],
)
async def test_package_and_header(probe: Probe, package: str, declared: str | None, version: str) -> None:
    metadata = [] if declared is None else [("a2a-version", declared)]
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        for _ in range(2):
            await get(raw, package, *metadata)
        stream = raw.unary_stream(package + "SubscribeToTask")(REQUEST, metadata=metadata)
        await finished(stream)
    assert [call.context.origin.version for call in probe.calls] == [version] * 3


@pytest.mark.parametrize(
    ("package", "declared"), [(NEW, "0.3"), (PACKAGE, "1.0"), (PACKAGE, "0.1"), (PACKAGE, "x")]
)
async def test_a_header_that_contradicts_the_package(probe: Probe, package: str, declared: str) -> None:
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        error = await rejected(get(raw, package, ("a2a-version", declared)))
    assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"
    assert error.details().startswith("VersionNotSupportedError: ") == (package == PACKAGE)
    other = {"0.3": f"served at {PACKAGE}, ", "1.0": f"served at {NEW}, "}.get(declared, "not supported here")
    assert f"version {declared!r} is {other}" in error.details()
    assert not probe.calls


async def test_several_versions_in_the_metadata(probe: Probe) -> None:
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        error = await rejected(get(raw, NEW, ("a2a-version", "1.0"), ("a2a-version", "0.3")))
        await get(raw, NEW, ("a2a-version", "1.0"), ("a2a-version", "1.0"))
    assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"
    assert "several versions, '1.0,0.3'" in error.details()


async def test_a_version_that_another_one_stands_for(probe: Probe) -> None:
    async with hosting(probe, dialects=(V1_0, OLDER)) as host, channel(host.address) as raw:
        await get(raw, PACKAGE)
        error = await rejected(get(raw, PACKAGE, ("a2a-version", "0.3")))
    assert probe.last.context.origin.version == "0.2.5"
    assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"


async def test_each_package_has_its_errors(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_CANCELABLE, "done"))
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        new, old = await rejected(get(raw, NEW)), await rejected(get(raw, PACKAGE))
        assert (new.code().value[0], new.details()) == (9, "done")
        assert (old.code().value[0], old.details()) == (9, "TaskNotCancelableError: done")
        assert details_of(new)[0] == details_of(old)[0] == "TASK_NOT_CANCELABLE"
        unknown = await rejected(raw.unary_unary(PACKAGE + "Nothing")(b""))
        assert details_of(unknown)[0] == "METHOD_NOT_FOUND"
        other = await rejected(raw.unary_unary("/a2a.v9.A2AService/SendMessage")(b""))
        assert details_of(other)[0] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize(("dialects", "package"), [((OLD,), NEW), ((V1_0,), PACKAGE)])
async def test_the_package_that_is_not_served(probe: Probe, dialects: Any, package: str) -> None:
    async with hosting(probe, dialects=dialects) as host, channel(host.address) as raw:
        error = await rejected(get(raw, package))
    assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"


async def test_several_mounts_share_a_port(probe: Probe) -> None:
    other = Probe()
    other.on_unary = answering(TASK)
    host = BINDING.host(ListenAddress(), HostOptions())
    BINDING.mount(host, "", probe, [V1_0])
    BINDING.mount(host, "", other, [OLD, OLDER])
    with pytest.raises(ValueError, match="served"):
        BINDING.mount(host, "", probe, [OLDER])
    BINDING.mount(host, "", probe, [V0_1])  # no version of gRPC
    await host.start()
    try:
        async with channel(host.address) as raw:
            await get(raw, NEW)
            await get(raw, PACKAGE)
            await get(raw, PACKAGE, ("a2a-version", "0.2.5"))
            for package in (NEW, PACKAGE):  # the agent with the package rejects it
                error = await rejected(raw.unary_unary(package + "Nothing")(b""))
                assert details_of(error)[0] == "METHOD_NOT_FOUND"
                assert (error.details() == "Method not found") == (package == NEW)
            error = await rejected(raw.unary_unary("/a2a.v9.A2AService/SendMessage")(b""))
            assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"
    finally:
        await host.drain(0)
    assert (len(probe.calls), len(other.calls)) == (1, 2)


async def test_health_and_reflection_know_both(probe: Probe) -> None:
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        health = health_pb2_grpc.HealthStub(raw)
        for name in ("", "lf.a2a.v1.A2AService", "a2a.v1.A2AService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        replies = reflection_pb2_grpc.ServerReflectionStub(raw).ServerReflectionInfo(iter([asked]))
        listed = {one.name for one in (await anext(aiter(replies))).list_services_response.service}
    assert {"lf.a2a.v1.A2AService", "a2a.v1.A2AService"} <= listed


@pytest.mark.parametrize("package", [NEW, PACKAGE])
@pytest.mark.parametrize(
    ("sent", "seen", "echoed"),
    [
        ([("x-a2a-extensions", f"{ONE}, {TWO}")], (ONE, TWO), {"x-a2a-extensions"}),
        ([("a2a-extensions", ONE), ("a2a-extensions", TWO)], (ONE, TWO), {"a2a-extensions"}),
        (
            [("a2a-extensions", TWO), ("x-a2a-extensions", f"{TWO},{ONE}")],
            (TWO, ONE),
            {"a2a-extensions", "x-a2a-extensions"},
        ),
    ],
)
async def test_extensions_under_either_name(
    probe: Probe, package: str, sent: list[tuple[str, str]], seen: tuple[str, ...], echoed: set[str]
) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = ONE
        return TASK

    probe.on_unary = unary
    async with hosting(probe, dialects=ALL) as host, channel(host.address) as raw:
        rpc = get(raw, package, *sent)
        await rpc
        received = await rpc.initial_metadata()
    assert probe.last.context.extensions == seen
    assert {name for name, _ in received if "extensions" in name} == echoed
    assert {value for name, value in received if "extensions" in name} == {ONE}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (V1_0, {"a2a-version": "1.0", "a2a-extensions": ONE}),
        (OLD, {"a2a-extensions": ONE, "x-a2a-extensions": ONE}),
    ],
)
@pytest.mark.parametrize("where", ["context", "options"])
async def test_declared_versions_of_clients(
    probe: Probe, dialect: Dialect, expected: dict[str, str], where: str
) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = ONE
        return TASK

    probe.on_unary = unary
    said = {"a2a-extensions": ONE, "a2a-version": "9.9"}
    context = CallContext(parameters=said if where == "context" else {})
    options = {"parameters": said} if where == "options" else {}
    async with (
        hosting(probe, dialects=ALL) as host,
        dialling(host.address, dialect=dialect, **options) as client,
    ):
        await client.service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
    got = probe.last.context
    assert {name: value for name, value in got.parameters.items() if "a2a-" in name} == expected
    assert got.origin.version == dialect.version
    assert context.reply == {"a2a-extensions": ONE}


def noting(probe: Probe) -> Probe:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply.side_channel = "note"
        return TASK

    probe.on_unary = unary
    return probe


async def test_side_content_of_messages(probe: Probe) -> None:
    async with hosting(noting(probe), dialects=ALL) as host, channel(host.address) as raw:
        rpc = get(raw, PACKAGE, (SIDE_CHANNEL, "forged"), wire=REQUEST + NOTE)
        answer = await rpc
        assert answer.endswith(NOTE)
        assert SIDE_CHANNEL not in {name for name, _ in await rpc.initial_metadata()}
        await get(raw, PACKAGE, (SIDE_CHANNEL, "forged"))
        await get(raw, NEW, (SIDE_CHANNEL, "forged"))
        about = hub.GetTaskRequest(id="t")
        rpc = get(raw, NEW, (SIDE_CHANNEL, seal_side_channel("from a bridge", about)))
        await rpc
        told = dict(await rpc.initial_metadata())[SIDE_CHANNEL]
        assert open_side_channel(str(told), about) == "note"
    got = [call.context.side_channel for call in probe.calls]
    assert got == ["note", "", "", "from a bridge"]


async def test_side_content_of_messages_crosses_two_bridges(probe: Probe) -> None:
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(hosting(noting(probe), dialects=(OLD,)))
        to_far = await stack.enter_async_context(dialling(far.address, dialect=OLD))
        middle = await stack.enter_async_context(hosting(to_far.service, dialects=(V1_0,)))
        to_middle = await stack.enter_async_context(dialling(middle.address))
        near = await stack.enter_async_context(hosting(to_middle.service, dialects=(OLD,)))
        raw = await stack.enter_async_context(channel(near.address))
        answer = await get(raw, PACKAGE, wire=REQUEST + NOTE)
    assert probe.last.context.side_channel == "note"
    assert answer.endswith(NOTE)


async def test_an_old_agent_cannot_speak_to_the_bridge_in_metadata(probe: Probe) -> None:
    doubted = replace(V1_0, version="0.3", declares=False)
    context = CallContext()
    async with hosting(noting(probe)) as host, dialling(host.address, dialect=doubted) as client:
        await client.service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
    assert context.reply == {}


async def test_the_tap_shows_old_messages_as_the_hub_has_them(probe: Probe) -> None:
    frames: list[Any] = []
    async with hosting(probe, dialects=ALL) as host:
        interface = hub.AgentInterface(url=str(host.address))
        async with BINDING.dial(interface, OLD, DialOptions(frame_observer=frames.append)) as near:
            await near.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))
    assert [one.message for one in frames if one.message is not None] == [hub.GetTaskRequest(id="t"), TASK]


@pytest.mark.parametrize(
    ("operation", "text", "status", "reason"),
    [
        (ops.CANCEL_TASK, "is done", 12, Reason.TASK_NOT_CANCELABLE),
        (ops.GET_TASK, "is gone", 5, Reason.TASK_NOT_FOUND),
    ],
)
async def test_an_ambiguous_status_is_read_by_its_operation(
    operation: Any, text: str, status: int, reason: Reason
) -> None:

    async def answer(_wire: bytes, context: Any) -> bytes:
        code = next(code for code in grpc.StatusCode if code.value[0] == status)
        await context.abort(code, text)
        return b""

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("a2a.v1.A2AService", {operation.name: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with dialling(f"127.0.0.1:{port}", dialect=OLD) as client:
            with pytest.raises(A2AError) as caught:
                await client.service.unary(Call(operation, operation.request(id="t"), CallContext()))
    finally:
        await server.stop(0)
    assert (caught.value.reason, caught.value.message) == (reason, text)


async def test_reflection_lists_all_packages(probe: Probe) -> None:
    async with hosting(probe, dialects=KNOWN) as host, channel(host.address) as raw:
        stub = reflection_pb2_grpc.ServerReflectionStub(raw)
        for symbol in ("a2a.v1.A2AService", "a2a.v1.Message", "lf.a2a.v1.A2AService"):
            asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
            replies = stub.ServerReflectionInfo(iter([asked]))
            files = (await anext(aiter(replies))).file_descriptor_response.file_descriptor_proto
            found = [descriptor_pb2.FileDescriptorProto.FromString(one) for one in files]
            assert symbol.rpartition(".")[0] in {one.package for one in found}


async def test_all_versions_on_an_application_server(probe: Probe) -> None:
    server = grpc.aio.server()
    add_to_server(probe, server, KNOWN, HostOptions(), health=True, reflection=True)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        for dialect in (V1_0, V0_3, V0_2_5):
            async with dialling(f"127.0.0.1:{port}", dialect=dialect) as client:
                got = await client.get_task(hub.GetTaskRequest(id="t"))
                assert got == TASK
    finally:
        await server.stop(0)
    # Clients of 0.2 send no version, and the newest version of their package understands them.
    assert [call.context.origin.version for call in probe.calls] == ["1.0", "0.3", "0.3"]


@pytest.mark.parametrize("dialect", [V1_0, V0_3, V0_2_5])
@pytest.mark.parametrize("sent", every_error(), ids=lambda error: error.name)
async def test_errors_of_streams_in_every_version(probe: Probe, dialect: Dialect, sent: A2AError) -> None:
    probe.on_stream = yielding(minimal(hub.StreamResponse), sent)
    got: list[Any] = []
    async with hosting(probe, dialects=KNOWN) as host, dialling(host.address, dialect=dialect) as client:
        with pytest.raises(A2AError) as caught:
            await invoke(client.service, ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), got=got)
    assert len(got) == 1
    assert_same_error(caught.value, sent)


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_status_depends_on_a_declared_0_3(probe: Probe, streaming: bool) -> None:
    """SDKs of 1.0 declare 0.3, and read as in 1.0."""
    error = A2AError(Reason.UNSUPPORTED_OPERATION)
    probe.on_unary, probe.on_stream = answering(error), yielding(error)
    row = V0_3.forms[GRPC].row(ops.SEND_MESSAGE)
    wire = row.encode_request(minimal(hub.SendMessageRequest))
    found = {}
    async with hosting(probe, dialects=(V1_0, V0_3)) as host, channel(host.address) as raw:
        for declared in (None, "", "0.3"):
            metadata = [] if declared is None else [("a2a-version", declared)]
            method = PACKAGE + ("SendStreamingMessage" if streaming else "SendMessage")
            call = (raw.unary_stream if streaming else raw.unary_unary)(method)(wire, metadata=metadata)
            told = await rejected(call)
            found[declared] = told.code()
            assert details_of(told)[0] == "UNSUPPORTED_OPERATION"
            assert told.details().startswith("UnsupportedOperationError: ")
    silent, spoken = grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.FAILED_PRECONDITION
    assert found == {None: silent, "": silent, "0.3": spoken}
