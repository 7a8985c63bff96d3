"""The base of BindingContract, which opens the binding under test, and its tests of callers and streams."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_bridge.bindings.binding import Binding, DialOptions, Host, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext, Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.resume import mark_gap
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects import V0_3, V1_0, BindingKind, Dialect, ErrorReply
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import every_error, full
from a2a_bridge.testing.service_contract import (
    PATIENCE,
    ServiceContract,
    assert_same_error,
    failure,
    invoke,
    names,
)

KIB = 1024
#: maximum bytes that a server and the kernel may hold for a stalled reader
STALLED_BYTES = 24 * KIB * KIB

BOTH: list[ops.Operation[Any, Any]] = [ops.GET_TASK, ops.SUBSCRIBE_TO_TASK]
both = pytest.mark.parametrize("operation", BOTH, ids=names(BOTH))


@dataclass(frozen=True)
class Listening:
    """A started host and the interface to dial."""

    host: Host
    interface: hub.AgentInterface


class OpensBindings(ServiceContract):
    """Opens the binding under test. dialect: the version of the calls; it needs a form for the binding's
    kind, or a canonical one. Operations it lacks are not tested, members it may lose not compared. paths:
    True if one host takes several services, each at its path. keep_alive: True if silence on a stream is
    filled, and a silent peer is detected (HostOptions, DialOptions). numbered: True if events are sent with
    their ids (`core.resume`); otherwise events must not have ids. stalled_bytes: the most that server, kernel
    and client may hold for a stalled reader.
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
        self,
        service: Service,
        options: HostOptions | None = None,
        dialects: Sequence[Dialect] = (),
    ) -> AsyncIterator[Listening]:
        """A host with `service` at its root, in the version of the calls unless `dialects` are given."""
        host = self.binding.host(ListenAddress(), options or HostOptions())
        self.binding.mount(host, "", service, dialects or [self.dialect])
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


def message_of(size: int) -> hub.SendMessageRequest:
    """A message with a text of so many bytes."""
    part = hub.Part(text="x" * size)
    return hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part]))


def _lose(message: Any, paths: frozenset[str]) -> None:
    """Clears the members in `paths`, such as `GetTaskRequest.tenant`, at every depth."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.json_name}" in paths:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in [value] if isinstance(value, Message) else value:
                _lose(one, paths)


class AccessContract(OpensBindings):
    """Versions, callers, TLS."""

    async def test_the_origin_names_binding_version_and_peer(self, near: Service, probe: Probe) -> None:
        probe.on_unary = answering(full(hub.Task))
        await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))
        origin = probe.last.context.origin
        assert (origin.binding, origin.version) == (self.binding.kind.name, self.dialect.version)
        assert "127.0.0.1" in origin.peer

    async def test_callers_of_two_versions_are_answered_in_theirs(self, probe: Probe) -> None:
        other = V0_3 if self.dialect is V1_0 else V1_0
        if other.form(self.binding.kind) is None:
            other = _build_other(self.dialect, self.binding.kind)
        sent = every_error()[0]
        probe.on_unary = answering(sent)
        for dialects in ([self.dialect, other], [other, self.dialect]):
            async with self.listen(probe, dialects=dialects) as there:
                for dialect in dialects:
                    there.interface.protocol_version = dialect.version
                    async with self.binding.dial(there.interface, dialect, DialOptions()) as near:
                        assert_same_error(await failure(near, ops.GET_TASK), sent)
                    assert probe.last.context.origin.version == dialect.version

    @both
    async def test_callers_are_identified(self, probe: Probe, operation: Any) -> None:
        asked: list[tuple[str | None, str]] = []

        async def authenticate(presented: Presented) -> Principal:
            asked.append((presented.parameters.get("authorization"), presented.peer))
            return Principal("ann")

        probe.on_unary = answering(full(hub.Task))
        options = DialOptions(parameters={"authorization": "Bearer x"})
        async with (
            self.listen(probe, HostOptions(authenticate=authenticate)) as there,
            self.dial(there.interface, options) as near,
        ):
            await invoke(near, operation, full(operation.request))
        assert asked == [("Bearer x", "127.0.0.1")]
        assert probe.last.context.principal == Principal("ann")

    @both
    async def test_callers_that_are_not_identified_reach_nothing(self, probe: Probe, operation: Any) -> None:
        async def authenticate(_: Presented) -> Principal:
            raise UnauthenticatedError("who calls?")

        async with (
            self.listen(probe, HostOptions(authenticate=authenticate)) as there,
            self.dial(there.interface) as near,
        ):
            assert (await failure(near, operation)).reason is Reason.UNAUTHENTICATED
        assert not probe.calls

    async def test_no_listener_without_tls_stands_in_for_one_with_it(self, probe: Probe) -> None:
        options = HostOptions(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        try:
            host = self.binding.host(ListenAddress(), options)
        except (TypeError, ValueError):
            return  # it cannot use this one
        self.binding.mount(host, "", probe, [self.dialect])
        await host.start()
        try:
            async with self.dial(self.interface(self.url(host.address, ""))) as near:
                assert (await failure(near, ops.GET_TASK)).reason is Reason.UNAVAILABLE
        finally:
            await host.drain(0)
        assert not probe.calls


def _build_other(dialect: Dialect, kind: BindingKind[Any, Any]) -> Dialect:
    """A later version with other errors, for bindings that no second version knows."""
    form = dialect.form(kind)
    if form is None:
        raise LookupError(f"version {dialect.version} has no form for {kind.name}")

    def encode(error: A2AError) -> ErrorReply[Any]:
        reply = form.encode_error(error)
        return replace(reply, body={"other": reply.body})

    def decode(reply: ErrorReply[Any]) -> A2AError:
        body: Any = reply.body
        assert "other" in body, "an error in another version"
        return form.decode_error(replace(reply, body=body["other"]))

    made = replace(form, encode_error=encode, decode_error=decode)
    return replace(dialect, version="99.0", forms={**dialect.forms, kind: made})


#: A stream for a stalled reader has so many bytes more than may be held: a server that buffers holds them.
EXCESS_BYTES = 8 * KIB * KIB
EVENT_BYTES = 64 * KIB


class StreamContract(OpensBindings):
    """Streams."""

    @pytest.mark.parametrize("pausing", [False, True])
    async def test_a_stalled_reader_costs_bounded_memory(
        self, near: Service, probe: Probe, pausing: bool
    ) -> None:
        produced = 0
        events_sent = (self.stalled_bytes + EXCESS_BYTES) // EVENT_BYTES
        event = hub.StreamResponse(message=message_of(EVENT_BYTES).message)

        async def stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
            nonlocal produced
            for _number in range(events_sent):
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
        assert read == produced == events_sent

    async def test_a_fast_producer_does_not_starve_other_calls(self, near: Service, probe: Probe) -> None:
        stop = asyncio.Event()
        event = hub.StreamResponse(message=message_of(10).message)

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

    async def test_a_client_that_is_closed_ends_its_streams(self, probe: Probe) -> None:
        probe.on_stream = holding(full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with self.listen(probe) as there:
            async with self.dial(there.interface) as near:
                events = near.stream(call)
                await anext(events)
            await probe.wait_running(0)
            with pytest.raises((A2AError, StopAsyncIteration, asyncio.CancelledError)):
                await anext(events)
            await events.aclose()

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

    @pytest.mark.parametrize("before", [0, 1])
    async def test_a_gap_is_reported(self, near: Service, probe: Probe, before: int) -> None:
        snapshot = full(hub.Task)
        mark_gap(snapshot, "run_1-2", "run_1-8")
        update = full(hub.StreamResponse, "artifact_update")
        sent = [Event(update, "run_1-1")] * before
        sent += [Event(hub.StreamResponse(task=snapshot), "run_1-8", gap=True), Event(update, "run_1-9")]

        async def stream(_: Call[Any, Any]) -> Events:
            for event in sent:
                yield event

        probe.on_stream = stream
        call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
            got = [event async for event in events]
        assert [event.gap for event in got] == [event.gap for event in sent]
        assert [event.id for event in got] == [event.id if self.numbered else "" for event in sent]

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
            relay(there.host.address) as between,
            self.dial(self.interface(self.url(between.address, "")), DialOptions(idle_timeout=0.5)) as near,
        ):
            call = Call(ops.SUBSCRIBE_TO_TASK, full(hub.SubscribeToTaskRequest), CallContext())
            async with asyncio.timeout(PATIENCE), aclosing(near.stream(call)) as events:
                await anext(events)
                between.mute = True
                with pytest.raises(A2AError) as caught:
                    await anext(events)
            assert (caught.value.reason, caught.value.blame) == (Reason.UNAVAILABLE, Blame.PEER)

    @pytest.mark.parametrize(
        "operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE], ids=["send", "stream"]
    )
    async def test_a_connection_that_breaks_is_told_from_one_that_fails(
        self, probe: Probe, operation: Any
    ) -> None:
        """The agent has seen the message, so that it must not be sent again, nor to another interface."""
        probe.on_unary = waiting
        probe.on_stream = holding(full(hub.StreamResponse))
        async with (
            self.listen(probe) as there,
            relay(there.host.address) as between,
            self.dial(self.interface(self.url(between.address, ""))) as near,
        ):
            call = asyncio.create_task(failure(near, operation))
            await probe.wait_running(1)
            between.cut()
            error = await call
            await probe.wait_running(0)
        assert len(probe.calls) == 1
        assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.PEER)
        assert error.metadata.get("phase") != "connect"


class Relay:
    """A TCP relay. mute: True to read bytes and send none."""

    def __init__(self, target: ListenAddress) -> None:
        self.address = ListenAddress()
        self.mute = False
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Breaks the connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relays one connection."""
        there, to_there = await asyncio.open_connection(self._target.host, self._target.port)
        both_sides = {writer, to_there}
        self._writers |= both_sides
        pumps = asyncio.gather(
            self._pump(reader, to_there), self._pump(there, writer), return_exceptions=True
        )
        try:
            await pumps
        finally:
            self._writers -= both_sides
            for one in both_sides:
                one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(64 * KIB):
            if not self.mute:
                writer.write(piece)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def relay(target: ListenAddress) -> AsyncIterator[Relay]:
    """A relay to `target`."""
    made = Relay(target)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = ListenAddress(*server.sockets[0].getsockname()[:2])
    try:
        yield made
    finally:
        server.close()
