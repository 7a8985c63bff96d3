"""The official SDK's gRPC classes against ours, in both directions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientTimeoutError
from a2a.client.transports.grpc import GrpcTransport
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a.utils.errors import A2A_ERROR_REASONS
from a2a.utils.errors import A2AError as SdkError
from google.protobuf.empty_pb2 import Empty as SdkEmpty
from google.rpc import error_details_pb2, status_pb2

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import full, samples
from tests.transports.grpc_scene import channel, dialling, hosting

pytestmark = pytest.mark.sdk

STREAMING = [operation for operation in ops.ALL if isinstance(operation, ops.Streaming)]
EVENTS = samples(hub.StreamResponse)
#: operations with other names in the SDK's transport
SDK_NAMES = {"SendStreamingMessage": "send_message_streaming", "SubscribeToTask": "subscribe"}
SDK_REASONS = {name: cls for cls, name in A2A_ERROR_REASONS.items()}

operations = pytest.mark.parametrize("operation", ops.ALL, ids=lambda operation: operation.name)


def sdk(message: Any) -> Any:
    cls = getattr(a2a_pb2, message.DESCRIPTOR.name, SdkEmpty)
    return cls.FromString(message.SerializeToString())


def same(ours: Any, theirs: Any) -> bool:
    return bool(ours == type(ours).FromString(theirs.SerializeToString()))


def sdk_method(transport: GrpcTransport, operation: ops.Operation[Any, Any]) -> Any:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation.name)
    return getattr(transport, SDK_NAMES.get(operation.name, snake.removeprefix("_")))


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_stream = yielding(*EVENTS)
    return made


@pytest.fixture
async def raw(probe: Probe) -> AsyncIterator[Any]:
    async with hosting(probe) as host, channel(host.address) as opened:
        yield opened


@pytest.fixture
def transport(raw: Any) -> GrpcTransport:
    return GrpcTransport(raw, None)


@operations
async def test_the_sdks_client_calls_us(transport: GrpcTransport, probe: Probe, operation: Any) -> None:
    request = full(operation.request)
    context = ClientCallContext(service_parameters={"A2A-Extensions": "u:1,u:2"}, timeout=20.0)
    if operation in STREAMING:
        got = [event async for event in sdk_method(transport, operation)(sdk(request), context=context)]
        assert all(map(same, EVENTS, got))
        assert len(got) == len(EVENTS)
    else:
        answer = full(operation.response)
        probe.on_unary = answering(answer)
        got = await sdk_method(transport, operation)(sdk(request), context=context)
        assert got is None if operation is ops.DELETE_PUSH_CONFIG else same(answer, got)
    assert probe.last.operation is operation
    assert probe.last.request == request
    seen = probe.last.context
    assert (seen.tenant, seen.parameters["a2a-version"]) == (request.tenant, "1.0")
    assert seen.extensions == ("u:1", "u:2")
    assert seen.deadline is not None


@pytest.mark.parametrize("name", SDK_REASONS)
@pytest.mark.parametrize("streaming", [False, True])
async def test_the_sdks_client_reads_our_errors(
    transport: GrpcTransport, probe: Probe, name: str, streaming: bool
) -> None:
    error = A2AError(Reason[name], "as we say é", violations=[Violation("id", "is wrong")])
    probe.on_unary, probe.on_stream = answering(error), yielding(error)
    operation = ops.SUBSCRIBE_TO_TASK if streaming else ops.GET_TASK
    call = sdk_method(transport, operation)(sdk(full(operation.request)))
    with pytest.raises(SdkError) as caught:
        await (anext(call) if streaming else call)
    assert type(caught.value) is SDK_REASONS[name]
    assert caught.value.message == "as we say é"
    assert caught.value.data == {"errors": [{"field": "id", "message": "is wrong"}]}


async def test_the_sdks_client_times_out(transport: GrpcTransport, probe: Probe) -> None:
    probe.on_unary = waiting
    with pytest.raises(A2AClientTimeoutError):
        await transport.get_task(a2a_pb2.GetTaskRequest(id="t"), context=ClientCallContext(timeout=0.2))
    await probe.wait_running(0)


async def test_the_sdks_client_leaves_a_stream(transport: GrpcTransport, probe: Probe) -> None:
    probe.on_stream = holding(*EVENTS)
    events = transport.subscribe(a2a_pb2.SubscribeToTaskRequest(id="t"))
    assert same(EVENTS[0], await anext(events))
    await events.aclose()
    await transport.close()
    await probe.wait_running(0)


class Servicer(a2a_pb2_grpc.A2AServiceServicer):  # type: ignore[misc]
    """Answers every rpc as the test chooses, through the generated code of the SDK."""

    def __init__(self, answer: Any) -> None:
        self.requests: list[Any] = []
        self.answer = answer

    async def _unary(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        if callable(self.answer):
            await self.answer(context)
        return self.answer

    async def _stream(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        if callable(self.answer):
            await self.answer(context)
        for event in self.answer:
            yield event


for one in ops.ALL:
    setattr(Servicer, one.name, Servicer._stream if one in STREAMING else Servicer._unary)


@asynccontextmanager
async def serving(servicer: Servicer) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@operations
async def test_we_call_generated_servers(operation: Any) -> None:
    request = full(operation.request)
    streaming = operation in STREAMING
    answer = EVENTS if streaming else full(operation.response)
    servicer = Servicer([sdk(event) for event in EVENTS] if streaming else sdk(answer))
    call = Call(operation, request, CallContext())
    async with serving(servicer) as address, dialling(address) as client:
        got: Any
        if streaming:
            got = [event.message async for event in client.service.stream(call)]
        else:
            got = await client.service.unary(call)
    assert got == answer
    assert same(request, servicer.requests[0])


@pytest.mark.parametrize("streaming", [False, True])
async def test_we_read_errors_packed_by_googles_classes(streaming: bool) -> None:
    async def reject(context: Any) -> None:
        status = status_pb2.Status(code=9, message="as it says")
        info = error_details_pb2.ErrorInfo(
            reason="TASK_NOT_CANCELABLE", domain="a2a-protocol.org", metadata={"taskId": "t"}
        )
        wrong = error_details_pb2.BadRequest()
        wrong.field_violations.add(field="id", description="is wrong")
        for detail in (info, wrong):
            status.details.add().Pack(detail)
        trailers = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "other words", trailers)

    async with serving(Servicer(reject)) as address, dialling(address) as client:
        call: Any
        if streaming:
            call = anext(client.subscribe_to_task(hub.SubscribeToTaskRequest(id="t")))
        else:
            call = client.cancel_task(hub.CancelTaskRequest(id="t"))
        with pytest.raises(A2AError) as caught:
            await call
    error = caught.value
    assert (error.reason, error.message) == (Reason.TASK_NOT_CANCELABLE, "as it says")
    assert (error.violations, error.metadata) == ((Violation("id", "is wrong"),), {"taskId": "t"})
