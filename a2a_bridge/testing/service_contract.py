"""ServiceContract: the guarantees of every Service. Transports have further ones.

Rules:
1. Everything between a caller and a service (a binding, a gateway, an idle middleware) is transparent:
   requests, answers, errors and streams arrive as they were sent.
2. A caller that leaves ends the work: closing a stream or cancelling a call reaches the service.
3. Nothing leaks: after a test no additional asyncio task runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import every_error, full, minimal, samples

#: seconds after which a test fails as hanging
PATIENCE = 120.0

UNARY: list[ops.Operation[Any, Any]] = [one for one in ops.ALL if isinstance(one, ops.Unary)]
STREAMING: list[ops.Operation[Any, Any]] = [one for one in ops.ALL if isinstance(one, ops.Streaming)]
REQUESTS = [
    pytest.param(operation, index, id=f"{operation.name}-{index}")
    for operation in ops.ALL
    for index in range(len(samples(operation.request)))
    # A config without a task has no address over HTTP+JSON, although the schema does not require the member.
    if (operation, index) != (ops.CREATE_PUSH_CONFIG, 1)
]
RESPONSES = [
    pytest.param(operation, index, id=f"{operation.name}-{index}")
    for operation in UNARY
    for index in range(len(samples(operation.response)))
]
#: errors are tested with one unary and one streaming operation only: they do not depend on the operation
_SAMPLES: list[list[ops.Operation[Any, Any]]] = [[ops.SEND_MESSAGE, ops.GET_TASK], STREAMING]
ERRORS = [
    pytest.param(sent, sample[number % 2], id=f"{reason.name}-{sample[number % 2].name}")
    for sample in _SAMPLES
    for number, (reason, sent) in enumerate(zip(Reason, every_error(), strict=True))
]
AWKWARD_IDS = ["a/b", "a:b", "a:cancel", "50%", "%2F", "a b", "é✓", "a+b", "a?b#c", "..", "a;b,c", '"', "\\"]


def names(values: list[Any]) -> list[str]:
    """Test ids of operations or reasons."""
    return [value.name for value in values]


async def invoke(
    service: Service,
    operation: Any,
    request: Any,
    context: CallContext | None = None,
    *,
    got: list[Any] | None = None,
) -> Any:
    """Makes a call; returns the response or the list of messages, which `got` has also after an error."""
    call = Call(operation, request, context or CallContext())
    events = [] if got is None else got
    async with asyncio.timeout(PATIENCE):
        if not isinstance(operation, ops.Streaming):
            return await service.unary(call)
        async with aclosing(service.stream(call)) as stream:
            async for event in stream:
                events.append(event.message)
    return events


async def failure(service: Service, operation: Any, request: Any = None) -> A2AError:
    """The error of a call that must fail."""
    with pytest.raises(A2AError) as caught:
        await invoke(service, operation, full(operation.request) if request is None else request)
    return caught.value


def assert_same_error(got: A2AError, sent: A2AError) -> None:
    """Compares everything that a caller can see of an error, apart from `blame`."""
    assert (got.reason, got.name, got.code) == (sent.reason, sent.name, sent.code)
    assert got.message == sent.message
    assert got.violations == sent.violations
    assert got.metadata == sent.metadata
    assert [dict(detail) for detail in got.details] == [dict(detail) for detail in sent.details]
    assert got.retry_after == sent.retry_after


class ServiceContract:
    """Subclass it and implement `serve`; it contains the tests. The subclass's name must start with `Test`.
    Needs pytest-asyncio in auto mode.

    tenants: True if requests carry their tenant.
    """

    tenants: bool = True

    def serve(self, service: Service) -> AbstractAsyncContextManager[Service]:
        """Puts `service` at the far end of the tested path, and returns the near end."""
        raise NotImplementedError

    def has(self, operation: ops.Operation[Any, Any]) -> bool:  # noqa: ARG002
        """True if the tested path knows the operation."""
        return True

    def certain(self, message: Any) -> Any:
        """A request or a response without members that the tested path may lose."""
        return message

    @pytest.fixture(autouse=True)
    async def nothing_is_left_behind(self) -> AsyncIterator[None]:
        before = asyncio.all_tasks()
        yield
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if left:
            _, pending = await asyncio.wait(left, timeout=PATIENCE)
            assert not pending

    @pytest.fixture
    def probe(self) -> Probe:
        return Probe()

    @pytest.fixture
    async def near(self, probe: Probe) -> AsyncIterator[Service]:
        async with self.serve(probe) as service:
            yield service

    @each(("operation", "index"), REQUESTS)
    async def test_requests_arrive_whole(
        self, near: Service, probe: Probe, operation: Any, index: int
    ) -> None:
        if not self.has(operation):
            return
        request = samples(operation.request)[index]
        before = request.SerializeToString(deterministic=True)
        probe.on_unary = answering(minimal(operation.response))
        probe.on_stream = yielding(full(hub.StreamResponse))
        await invoke(near, operation, request)
        assert probe.last.operation is operation
        assert self.certain(probe.last.request) == self.certain(request)
        assert request.SerializeToString(deterministic=True) == before

    @each(("operation", "index"), RESPONSES)
    async def test_answers_arrive_whole(
        self, near: Service, probe: Probe, operation: Any, index: int
    ) -> None:
        if not self.has(operation):
            return
        answer = samples(operation.response)[index]
        probe.on_unary = answering(answer)
        got = await invoke(near, operation, full(operation.request))
        assert self.certain(got) == self.certain(answer)

    @pytest.mark.parametrize("operation", STREAMING, ids=names(STREAMING))
    async def test_events_arrive_whole_and_in_order(
        self, near: Service, probe: Probe, operation: Any
    ) -> None:
        events = samples(hub.StreamResponse) * 5
        probe.on_stream = yielding(*events)
        assert await invoke(near, operation, full(operation.request)) == events

    async def test_a_stream_may_be_empty(self, near: Service) -> None:
        assert await invoke(near, ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest)) == []

    async def test_events_arrive_as_they_are_made(self, near: Service, probe: Probe) -> None:
        first = full(hub.StreamResponse)
        probe.on_stream = holding(first)
        call = Call(ops.SEND_STREAMING_MESSAGE, full(hub.SendMessageRequest), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
            assert (await anext(events)).message == first

    @each("task_id", AWKWARD_IDS)
    async def test_any_id_arrives(self, near: Service, probe: Probe, task_id: str) -> None:
        probe.on_unary = answering(minimal(hub.TaskPushNotificationConfig))
        for request in (
            hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id=task_id, tenant=task_id),
            hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="x"),
        ):
            await invoke(near, ops.GET_PUSH_CONFIG, request)
            assert self.certain(probe.last.request) == self.certain(request)

    @each(("sent", "operation"), ERRORS)
    async def test_errors_arrive_whole(
        self, near: Service, probe: Probe, operation: Any, sent: A2AError
    ) -> None:
        probe.on_unary = answering(sent)
        probe.on_stream = yielding(sent)
        assert_same_error(await failure(near, operation), sent)

    @each("sent", every_error())
    async def test_errors_in_a_stream_arrive_after_its_events(
        self, near: Service, probe: Probe, sent: A2AError
    ) -> None:
        events = samples(hub.StreamResponse)
        probe.on_stream = yielding(*events, sent)
        got: list[Any] = []
        with pytest.raises(A2AError) as caught:
            await invoke(near, ops.SEND_STREAMING_MESSAGE, full(hub.SendMessageRequest), got=got)
        assert got == events
        assert_same_error(caught.value, sent)

    async def test_a_code_that_no_reason_has_arrives(self, near: Service, probe: Probe) -> None:
        sent = A2AError(
            Reason.INTERNAL_ERROR, "own", code=-32050, name="A2A_32050", metadata={"code": "-32050"}
        )
        probe.on_unary = answering(sent)
        got = await failure(near, ops.GET_TASK)
        assert (got.code, got.name, got.message) == (-32050, "A2A_32050", "own")

    async def test_closing_a_stream_reaches_the_service(self, near: Service, probe: Probe) -> None:
        probe.on_stream = holding(full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with asyncio.timeout(PATIENCE):
            stream = near.stream(call)
            await anext(stream)
            await probe.wait_running(1)
            await stream.aclose()
            await probe.wait_running(0)
        assert probe.cancelled == 1

    @pytest.mark.parametrize("operation", [ops.GET_TASK, *STREAMING], ids=names([ops.GET_TASK, *STREAMING]))
    async def test_cancelling_a_call_reaches_the_service(
        self, near: Service, probe: Probe, operation: Any
    ) -> None:
        probe.on_unary = waiting
        probe.on_stream = holding()
        task = asyncio.create_task(invoke(near, operation, full(operation.request)))
        await probe.wait_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await probe.wait_running(0)
        assert probe.cancelled == 1

    async def test_one_ended_call_ends_no_other(self, near: Service, probe: Probe) -> None:
        probe.on_stream = holding(full(hub.StreamResponse))
        calls = [
            Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=name), CallContext()) for name in "ab"
        ]
        async with asyncio.timeout(PATIENCE):
            left, right = [near.stream(call) for call in calls]
            await anext(left)
            await anext(right)
            await left.aclose()
            await probe.wait_running(1)
            probe.on_unary = answering(full(hub.Task))
            answer = await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))
            assert answer == full(hub.Task)
            await right.aclose()
            await probe.wait_running(0)

    async def test_many_calls_at_once_get_their_own_answers(self, near: Service, probe: Probe) -> None:
        everybody = asyncio.Barrier(40)

        async def echo(call: Call[Any, Any]) -> Any:
            await everybody.wait()  # so that all of them run concurrently
            return hub.Task(id=call.request.id, status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

        probe.on_unary = echo
        answers = await asyncio.gather(
            *(invoke(near, ops.GET_TASK, hub.GetTaskRequest(id=f"t{number}")) for number in range(40))
        )
        assert [answer.id for answer in answers] == [f"t{number}" for number in range(40)]

    async def test_a_megabyte_arrives(self, near: Service, probe: Probe) -> None:
        part = hub.Part(raw=bytes(range(256)) * 4096)
        message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part, hub.Part(text="é" * 500_000)])
        probe.on_unary = answering(hub.SendMessageResponse(message=message))
        probe.on_stream = yielding(hub.StreamResponse(message=message))
        request = hub.SendMessageRequest(message=message)
        answer = await invoke(near, ops.SEND_MESSAGE, request)
        assert self.certain(probe.last.request) == self.certain(request)
        assert answer == hub.SendMessageResponse(message=message)
        assert await invoke(near, ops.SEND_STREAMING_MESSAGE, request) == [
            hub.StreamResponse(message=message)
        ]

    @pytest.mark.parametrize("operation", [ops.GET_TASK, *STREAMING], ids=names([ops.GET_TASK, *STREAMING]))
    async def test_the_deadline_arrives(self, near: Service, probe: Probe, operation: Any) -> None:
        async def stream(_: Call[Any, Any]) -> Any:
            yield full(hub.StreamResponse)

        probe.on_unary, probe.on_stream = answering(full(hub.Task)), stream
        deadline = time.monotonic() + 30  # earlier than the default timeout of a client side
        await invoke(near, operation, full(operation.request), CallContext(deadline=deadline))
        assert probe.last.context.deadline is not None
        assert deadline - 5 < probe.last.context.deadline < deadline + 5

    @pytest.mark.parametrize("operation", [ops.GET_TASK, *STREAMING], ids=names([ops.GET_TASK, *STREAMING]))
    async def test_extensions_go_there_and_back(self, near: Service, probe: Probe, operation: Any) -> None:
        async def unary(call: Call[Any, Any]) -> Any:
            call.context.reply["a2a-extensions"] = "https://e.example/1"
            return full(hub.Task)

        async def stream(call: Call[Any, Any]) -> Any:
            call.context.reply["a2a-extensions"] = "https://e.example/1"
            yield full(hub.StreamResponse)

        probe.on_unary, probe.on_stream = unary, stream
        context = CallContext(parameters={"a2a-extensions": "https://e.example/1, https://e.example/2"})
        call = Call(operation, full(operation.request), context)
        async with asyncio.timeout(PATIENCE):
            if operation is ops.GET_TASK:
                await near.unary(call)
            else:
                async with aclosing(near.stream(call)) as events:
                    await anext(events)  # gateways pass the reply on before the first event
        assert probe.last.context.extensions == ("https://e.example/1", "https://e.example/2")
        assert context.reply == {"a2a-extensions": "https://e.example/1"}

    async def test_the_tenant_arrives(self, near: Service, probe: Probe) -> None:
        if not self.tenants:
            return
        probe.on_unary = answering(full(hub.Task))
        await invoke(near, ops.GET_TASK, hub.GetTaskRequest(id="t", tenant="acme"))
        assert probe.last.request.tenant == "acme"
