"""BindingContract: the guarantees of a transport, tested over a real socket. It does not test the wire
format.

Rules:
1. All of ServiceContract holds between a dialled client and a mounted service.
2. Waiting callers are informed in time: deadlines, dead peers, refused connections, drained hosts.
3. Callers are isolated: a slow reader costs bounded memory, a fast producer does not starve others.
4. Internal details of a service stay inside: defects reach the log, not the wire.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_bridge.bindings import Binding, DialOptions, Host, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.service_contract import PATIENCE, ServiceContract, failure, invoke, names

KIB = 1024
#: far more than sockets buffer, and still affordable
STREAM_BYTES = 64 * KIB * KIB
#: maximum bytes that a server and the kernel may hold for a stalled reader
STALLED_BYTES = 24 * KIB * KIB
EVENT_BYTES = 64 * KIB

BOTH: list[ops.Operation[Any, Any]] = [ops.GET_TASK, ops.SUBSCRIBE_TO_TASK]
both = pytest.mark.parametrize("operation", BOTH, ids=names(BOTH))


@dataclass(frozen=True)
class Listening:
    """A started host and the interface to dial."""

    host: Host
    interface: hub.AgentInterface


class BindingContract(ServiceContract):
    """Subclass it with a `binding` and its `url`; the subclass's name must start with `Test`.

    dialect: the version of the calls; it needs a form for the binding's kind, or a canonical one. Operations
    it lacks are not tested, members it may lose not compared. paths: True if several services may be mounted
    on one host, each at its path. keep_alive: True if silence on a stream is filled, and a silent peer is
    detected (HostOptions, DialOptions). numbered: True if events are sent with their ids (`core.resume`).
    Otherwise events must not have ids. stalled_bytes: the most that server, kernel and client may hold for a
    stalled reader.
    """

    binding: Binding[Any]
    dialect: Dialect = V1_0
    paths: bool = True
    keep_alive: bool = True
    numbered: bool = True
    stalled_bytes: int = STALLED_BYTES

    def url(self, address: ListenAddress, path: str, /) -> str:
        """The URL of an interface mounted at `path` ("" for the root) of a host."""
        raise NotImplementedError

    def has(self, operation: ops.Operation[Any, Any]) -> bool:
        form = self.dialect.form(self.binding.kind)
        return form is not None and form.row(operation) is not None

    def certain(self, message: Any) -> Any:
        copy = type(message)()
        copy.CopyFrom(message)
        lost = [loss for loss in self.dialect.losses if loss.concerns(self.binding.kind.name)]
        _lose(copy, frozenset(loss.path for loss in lost))
        if isinstance(copy, hub.SendMessageRequest) and not copy.configuration.ListFields():
            # Clients write it out if the versions' defaults differ; its absence is sent beside it.
            copy.ClearField("configuration")
            if set(copy.metadata.fields) == {KEY}:
                copy.ClearField("metadata")
        return copy

    @asynccontextmanager
    async def listen(
        self, service: Service, options: HostOptions | None = None, address: ListenAddress | None = None
    ) -> AsyncIterator[Listening]:
        """A host with `service` at its root."""
        host = self.binding.host(address or ListenAddress(), options or HostOptions())
        self.binding.mount(host, "", service, [self.dialect])
        await host.start()
        try:
            yield Listening(host, self.interface(self.url(host.address, "")))
        finally:
            await host.drain(0)

    def interface(self, url: str, tenant: str = "") -> hub.AgentInterface:
        """An interface of this binding and dialect."""
        return hub.AgentInterface(
            url=url,
            protocol_binding=self.binding.kind.name,
            protocol_version=self.dialect.version,
            tenant=tenant,
        )

    def dial(
        self, interface: hub.AgentInterface, options: DialOptions | None = None
    ) -> AbstractAsyncContextManager[Service]:
        """A client side."""
        return self.binding.dial(interface, self.dialect, options or DialOptions())

    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        async with self.listen(service) as there, self.dial(there.interface) as near:
            yield near

    async def test_the_origin_names_binding_and_version(self, near: Service, probe: Probe) -> None:
        probe.on_unary = answering(full(hub.Task))
        await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))
        origin = probe.last.context.origin
        assert (origin.binding, origin.version) == (self.binding.kind.name, self.dialect.version)

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
        request = _message_of(256 * KIB)
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
        message = _message_of(256 * KIB).message
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

    @pytest.mark.parametrize("pausing", [False, True])
    async def test_a_stalled_reader_costs_bounded_memory(
        self, near: Service, probe: Probe, pausing: bool
    ) -> None:
        produced = 0
        event = hub.StreamResponse(message=_message_of(EVENT_BYTES).message)

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            nonlocal produced
            for _number in range(STREAM_BYTES // EVENT_BYTES):
                produced += 1
                yield event
                if pausing:
                    await asyncio.sleep(0)

        probe.on_stream = stream
        probe.on_unary = answering(full(hub.Task))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with asyncio.timeout(4 * PATIENCE), aclosing(near.stream(call)) as events:
            assert (await anext(events)).message == event
            # Each call gives the producer a turn; a server that buffers would finish meanwhile.
            for _ in range(300):
                await invoke(near, ops.GET_TASK, hub.GetTaskRequest(id="t"))
            assert produced * EVENT_BYTES < self.stalled_bytes
            read = 1
            async for got in events:
                read += 1
                assert len(got.message.message.parts) == 1
        assert read == produced == STREAM_BYTES // EVENT_BYTES

    async def test_a_fast_producer_does_not_starve_other_calls(self, near: Service, probe: Probe) -> None:
        stop = asyncio.Event()
        event = hub.StreamResponse(message=_message_of(10).message)

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            while not stop.is_set():
                yield event

        probe.on_stream = stream
        probe.on_unary = answering(full(hub.Task))
        reader = asyncio.create_task(invoke(near, ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest)))
        await probe.wait_running(1)
        slowest = 0.0
        for _ in range(20):
            start = time.monotonic()
            await invoke(near, ops.GET_TASK, hub.GetTaskRequest(id="t"))
            slowest = max(slowest, time.monotonic() - start)
        assert slowest < 2
        stop.set()
        assert await reader

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

    async def test_a_client_that_is_closed_ends_its_streams(self, probe: Probe) -> None:
        probe.on_stream = holding(full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with self.listen(probe) as there:
            async with self.dial(there.interface) as near:
                events = near.stream(call)
                await anext(events)
            with pytest.raises((A2AError, StopAsyncIteration, asyncio.CancelledError)):
                await anext(events)
            await events.aclose()
            await probe.wait_running(0)

    @pytest.mark.parametrize("epoch", ["", "run_1-"])
    async def test_events_go_with_their_ids(self, near: Service, probe: Probe, epoch: str) -> None:
        sent = [f"{epoch}{number}" for number in range(8, 12)]

        async def stream(_: Call[Any, Any]) -> Events:
            for id_ in sent:
                yield Event(full(hub.StreamResponse), id_)

        probe.on_stream = stream
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
            got = [event.id async for event in events]
        assert got == (sent if self.numbered else [""] * len(sent))

    async def test_a_stream_without_ids_shows_none(self, near: Service, probe: Probe) -> None:
        probe.on_stream = yielding(full(hub.StreamResponse), full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
            assert [event.id async for event in events] == ["", ""]
        assert call.context.reply == {}

    async def test_a_subscription_sends_its_position(self, near: Service, probe: Probe) -> None:
        if not self.numbered:
            return
        probe.on_stream = yielding()
        context = CallContext(parameters={LAST_EVENT_PARAMETER: "run_1-7"})
        await invoke(near, ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), context)
        assert probe.last.context.parameters[LAST_EVENT_PARAMETER] == "run_1-7"

    async def test_invalid_ids_are_rejected(self, probe: Probe) -> None:
        if not self.numbered:
            return
        # The client side does not check parameters of the options.
        options = DialOptions(parameters={LAST_EVENT_PARAMETER: "1 or 2"})
        async with self.listen(probe) as there, self.dial(there.interface, options) as near:
            rejected = await failure(near, ops.SUBSCRIBE_TO_TASK)
        assert rejected.reason is Reason.INVALID_PARAMS
        assert [one.field for one in rejected.violations] == ["Last-Event-ID"]
        assert probe.calls == []

    async def test_silence_is_filled(self, probe: Probe) -> None:
        if not self.keep_alive:
            return
        go = asyncio.Event()

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            yield full(hub.StreamResponse)
            await go.wait()
            yield full(hub.StreamResponse)

        probe.on_stream = stream
        async with (
            self.listen(probe, HostOptions(keep_alive=0.1)) as there,
            self.dial(there.interface, DialOptions(idle_timeout=0.6)) as near,
        ):
            asyncio.get_running_loop().call_later(1.5, go.set)
            answer = await invoke(near, ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest))
        assert len(answer) == 2

    async def test_a_silent_peer_is_noticed(self, probe: Probe) -> None:
        if not self.keep_alive:
            return
        probe.on_stream = holding(full(hub.StreamResponse))
        async with (
            self.listen(probe, HostOptions(keep_alive=0.1)) as there,
            relay(there.host.address) as (address, mute),
            self.dial(self.interface(self.url(address, "")), DialOptions(idle_timeout=0.5)) as near,
        ):
            call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
            async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
                await anext(events)
                mute.set()
                with pytest.raises(A2AError) as caught:
                    await anext(events)
            assert (caught.value.reason, caught.value.blame) == (Reason.UNAVAILABLE, Blame.PEER)


@asynccontextmanager
async def relay(target: ListenAddress) -> AsyncIterator[tuple[ListenAddress, asyncio.Event]]:
    """A TCP relay to `target` and an event that makes it mute: it then reads bytes and sends none."""
    mute = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(64 * KIB):
            if not mute.is_set():
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(target.host, target.port)
        pumps = asyncio.gather(pump(reader, to_there), pump(there, writer), return_exceptions=True)
        try:
            await pumps
        finally:
            writer.close()
            to_there.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield ListenAddress(*server.sockets[0].getsockname()[:2]), mute
    finally:
        server.close()


def _lose(message: Any, paths: frozenset[str]) -> None:
    """Clears the members in `paths`, such as `GetTaskRequest.tenant`, at every depth."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.json_name}" in paths:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in [value] if isinstance(value, Message) else value:
                _lose(one, paths)


def _message_of(size: int) -> hub.SendMessageRequest:
    part = hub.Part(text="x" * size)
    return hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part]))
