"""BindingContract: the guarantees of a transport, tested over a real socket; not its wire format.

Rules:
1. All of ServiceContract holds between a dialled client and a mounted service.
2. Waiting callers are informed in time: deadlines, dead peers, refused connections, drained hosts.
3. Callers are isolated: a slow reader costs bounded memory, a fast producer does not starve others.
4. Internal details of a service stay inside: defects reach the log, not the wire.
5. The options of the host about access are obeyed: callers are identified, and nothing is sent without TLS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.binding_calls import KIB, AccessContract, StreamContract, both, message_of
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.service_contract import PATIENCE, failure, invoke


class BindingContract(AccessContract, StreamContract):
    """Subclass it with a `binding` and its `url`; the subclass's name must start with `Test`. OpensBindings
    has the attributes for bindings that lack something.
    """

    @both
    async def test_the_tenant_reaches_the_context(self, near: Service, probe: Probe, operation: Any) -> None:
        if not self.tenants:
            return
        probe.on_unary = answering(full(hub.Task))
        await invoke(near, operation, operation.request(id="t", tenant="acme é"))
        assert probe.last.context.tenant == "acme é"
        await invoke(near, operation, operation.request(id="t"))
        assert probe.last.context.tenant == ""

    @both
    async def test_the_tenant_of_the_interface_is_used(self, probe: Probe, operation: Any) -> None:
        if not self.tenants:
            return
        probe.on_unary = answering(full(hub.Task))
        request = operation.request(id="t")
        async with self.listen(probe) as there:
            interface = self.interface(there.interface.url, tenant="acme")
            async with self.dial(interface) as near:
                await invoke(near, operation, request)
                assert probe.last.request.tenant == "acme"
                assert request.tenant == ""
                await invoke(near, operation, operation.request(id="t", tenant="own"))
                assert probe.last.request.tenant == "own"

    @both
    async def test_defects_stay_in(
        self, near: Service, probe: Probe, operation: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        probe.on_unary = answering(RuntimeError("a secret"))
        probe.on_stream = yielding(RuntimeError("a secret"))
        with caplog.at_level(logging.ERROR, "a2a_bridge"):
            error = await failure(near, operation)
        assert error.reason is Reason.INTERNAL_ERROR
        assert "secret" not in repr((error.message, error.metadata, error.details))
        assert "a secret" in caplog.text

    async def test_defects_in_a_stream_stay_in(
        self, near: Service, probe: Probe, caplog: pytest.LogCaptureFixture
    ) -> None:
        probe.on_stream = yielding(full(hub.StreamResponse), RuntimeError("a secret"))
        with caplog.at_level(logging.ERROR, "a2a_bridge"):
            error = await failure(near, ops.SUBSCRIBE_TO_TASK)
        assert error.reason is Reason.INTERNAL_ERROR
        assert "secret" not in repr((error.message, error.metadata, error.details))
        assert "a secret" in caplog.text

    @both
    async def test_errors_of_the_agent_blame_the_peer(
        self, near: Service, probe: Probe, operation: Any
    ) -> None:
        probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
        probe.on_stream = yielding(A2AError(Reason.TASK_NOT_FOUND))
        assert (await failure(near, operation)).blame is Blame.PEER

    @both
    async def test_a_deadline_ends_the_wait_and_the_work(
        self, near: Service, probe: Probe, operation: Any
    ) -> None:
        probe.on_unary = waiting
        probe.on_stream = holding(full(hub.StreamResponse))
        context = CallContext(deadline=time.monotonic() + 0.2)
        with pytest.raises(A2AError) as caught:
            await invoke(near, operation, full(operation.request), context)
        assert caught.value.reason is Reason.DEADLINE_EXCEEDED
        await probe.wait_running(0)

    @both
    async def test_a_deadline_of_the_past_is_an_error(
        self, near: Service, probe: Probe, operation: Any
    ) -> None:
        probe.on_unary = waiting
        probe.on_stream = holding()
        context = CallContext(deadline=time.monotonic() - 1)
        with pytest.raises(A2AError) as caught:
            await invoke(near, operation, full(operation.request), context)
        assert caught.value.reason is Reason.DEADLINE_EXCEEDED
        await probe.wait_running(0)

    async def test_a_unary_call_has_a_default_deadline(self, probe: Probe) -> None:
        probe.on_unary = waiting
        async with (
            self.listen(probe) as there,
            self.dial(there.interface, DialOptions(timeout=0.2)) as near,
        ):
            assert (await failure(near, ops.GET_TASK)).reason is Reason.DEADLINE_EXCEEDED
            await probe.wait_running(0)

    @both
    async def test_a_peer_that_is_not_there(self, operation: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = ListenAddress(*taken.getsockname()[:2])
        async with self.dial(self.interface(self.url(address, ""))) as near:
            error = await failure(near, operation)
        assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.PEER)
        assert error.metadata["phase"] == "connect"

    async def test_a_taken_address_is_an_os_error(self, probe: Probe) -> None:
        async with self.listen(probe) as there:
            second = self.binding.host(there.host.address, HostOptions())
            self.binding.mount(second, "", probe, [self.dialect])
            with pytest.raises(OSError):  # noqa: PT011  the system chooses its number and text
                await second.start()

    async def test_services_at_several_paths(self) -> None:
        if not self.paths:
            return
        probes = {path: Probe() for path in ("", "/a", "/a/b")}
        host = self.binding.host(ListenAddress(), HostOptions())
        for path, probe in probes.items():
            probe.on_unary = answering(hub.Task(id=path or "root", status=hub.TaskStatus()))
            self.binding.mount(host, path, probe, [self.dialect])
        await host.start()
        try:
            for path in probes:
                async with self.dial(self.interface(self.url(host.address, path))) as near:
                    answer = await invoke(near, ops.GET_TASK, hub.GetTaskRequest(id="t"))
                assert answer.id == (path or "root")
        finally:
            await host.drain(0)

    async def test_parameters_travel_by_permission(self, probe: Probe) -> None:
        probe.on_unary = answering(full(hub.Task))
        given = {"authorization": "Bearer x", "traceparent": "00-a-b-01", "x-private": "no", "x-named": "yes"}
        options = DialOptions(
            parameters={"x-api-key": "k"}, forward=frozenset({"x-named", "traceparent", "authorization"})
        )
        async with self.listen(probe) as there, self.dial(there.interface, options) as near:
            await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest), CallContext(parameters=given))
        got = probe.last.context.parameters
        assert {name: got.get(name) for name in (*given, "x-api-key")} == {
            **given,
            "x-private": None,
            "x-api-key": "k",
        }

    @pytest.mark.parametrize("value", ["a\r\nx-injected: y", "a\nb", "a\x00b"])
    async def test_no_parameter_smuggles_another(self, near: Service, probe: Probe, value: str) -> None:
        probe.on_unary = answering(full(hub.Task))
        context = CallContext(parameters={"a2a-extensions": value})
        with pytest.raises(A2AError) as caught:
            await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest), context)
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert not probe.calls

    @pytest.mark.parametrize("value", ["a\r\nx-injected: y", "a\nb", "a\x00b"])
    async def test_no_reply_parameter_smuggles_another(self, near: Service, probe: Probe, value: str) -> None:
        async def unary(call: Call[Any, Any]) -> Any:
            call.context.reply["a2a-extensions"] = value
            return full(hub.Task)

        probe.on_unary = unary
        context = CallContext()
        with pytest.raises(A2AError) as caught:
            await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest), context)
        assert caught.value.reason is Reason.INTERNAL_ERROR
        assert context.reply == {}

    @pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
    async def test_a_request_can_be_too_large(self, probe: Probe, operation: Any) -> None:
        probe.on_unary = answering(full(hub.SendMessageResponse))
        request = message_of(256 * KIB)
        async with (
            self.listen(probe, HostOptions(max_body=64 * KIB)) as there,
            self.dial(there.interface) as near,
        ):
            error = await failure(near, operation, request)
            assert error.reason is Reason.REQUEST_TOO_LARGE
            assert not probe.calls
            assert await invoke(near, ops.SEND_MESSAGE, full(hub.SendMessageRequest))

    @pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
    async def test_an_answer_can_be_too_large(self, probe: Probe, operation: Any) -> None:
        message = message_of(256 * KIB).message
        probe.on_unary = answering(hub.SendMessageResponse(message=message))
        probe.on_stream = yielding(hub.StreamResponse(message=message))
        async with (
            self.listen(probe) as there,
            self.dial(there.interface, DialOptions(max_message=64 * KIB)) as near,
        ):
            error = await failure(near, operation)
            assert (error.reason, error.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
            await probe.wait_running(0)
            probe.on_unary = answering(full(hub.Task))
            answer = await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))
            assert answer == full(hub.Task)

    @both
    async def test_draining_lets_work_finish(self, probe: Probe, operation: Any) -> None:
        go = asyncio.Event()

        async def unary(_: Call[Any, Any]) -> Any:
            await go.wait()
            return full(hub.Task)

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            yield full(hub.StreamResponse)
            await go.wait()
            yield full(hub.StreamResponse)

        probe.on_unary, probe.on_stream = unary, stream
        async with self.listen(probe) as there, self.dial(there.interface) as near:
            call = asyncio.create_task(invoke(near, operation, full(operation.request)))
            await probe.wait_running(1)
            draining = asyncio.create_task(there.host.drain(PATIENCE))
            go.set()
            answer = await call
            event = full(hub.StreamResponse)
            task = full(hub.Task)
            assert answer == (task if operation is ops.GET_TASK else [event] * 2)
            async with asyncio.timeout(PATIENCE / 2):
                await draining

    @both
    async def test_draining_answers_calls_that_cannot_finish(self, probe: Probe, operation: Any) -> None:
        probe.on_unary = waiting
        probe.on_stream = holding(full(hub.StreamResponse))
        async with self.listen(probe) as there, self.dial(there.interface) as near:
            call = asyncio.create_task(failure(near, operation))
            await probe.wait_running(1)
            await there.host.drain(0.1)
            assert (await call).reason is Reason.UNAVAILABLE
            await probe.wait_running(0)
            assert (await failure(near, operation)).reason is Reason.UNAVAILABLE

    async def test_draining_does_not_wait_for_a_reader_that_has_stopped(self, probe: Probe) -> None:
        begun = asyncio.Event()

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            yield full(hub.StreamResponse)
            begun.set()
            # More than may be on its way to a reader.
            yield hub.StreamResponse(message=message_of(self.stalled_bytes).message)
            await asyncio.Event().wait()

        probe.on_stream = stream
        probe.on_unary = answering(full(hub.Task))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with self.listen(probe) as there, self.dial(there.interface) as near:
            async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
                await anext(events)
                await begun.wait()
                await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))  # gives the writer its turn
                await there.host.drain(0)
            await probe.wait_running(0)
