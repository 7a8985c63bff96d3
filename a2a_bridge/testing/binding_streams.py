"""The part of BindingContract about streams: back-pressure, fairness, ids, gaps, silence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.resume import mark_gap
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.binding_opening import KIB, OpensBindings, message_of
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.service_contract import PATIENCE, failure, invoke

#: far more than sockets buffer, and still affordable
STREAM_BYTES = 64 * KIB * KIB
EVENT_BYTES = 64 * KIB


class StreamContract(OpensBindings):
    """Streams."""

    @pytest.mark.parametrize("pausing", [False, True])
    async def test_a_stalled_reader_costs_bounded_memory(
        self, near: Service, probe: Probe, pausing: bool
    ) -> None:
        produced = 0
        event = hub.StreamResponse(message=message_of(EVENT_BYTES).message)

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
