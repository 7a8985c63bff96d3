"""Properties of a gateway beyond conversations: every error, its card, deadlines, disconnects, lost agents."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from a2a_bridge.app.runtime import Server, serve_gateway, serve_service
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import every_error, full, samples
from a2a_bridge.testing.service_contract import assert_same_error, invoke
from tests.equivalence.agent import card
from tests.matrix.cells import BINDINGS, of
from tests.patience import LIMITS, PATIENCE
from tests.rejections import rejected

CELLS = [
    pytest.param(front, upstream, id=f"{front}-{upstream}") for front, upstream in product(BINDINGS, BINDINGS)
]
cells = pytest.mark.parametrize(("front", "upstream"), CELLS)


@dataclass(frozen=True)
class Chain:
    """A probe as the agent, a gateway before it, and a client of that."""

    probe: Probe
    agent: Server
    gateway: Server
    near: Service


@asynccontextmanager
async def chain(front: str, upstream: str) -> AsyncIterator[Chain]:
    probe = Probe()
    async with serve_service(probe, card()) as agent:
        candidate = Candidate(of(agent.card, upstream), V1_0)
        async with serve_gateway(agent.card, [candidate]) as gateway:
            interface = of(gateway.card, front)
            async with find(front).dial(interface, V1_0, DialOptions(timeout=PATIENCE)) as near:
                yield Chain(probe, agent, gateway, near)


@cells
async def test_every_error_passes(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        for sent in every_error():
            links.probe.on_unary = answering(sent)
            links.probe.on_stream = yielding(sent)
            for operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
                with pytest.raises(A2AError) as caught:
                    await invoke(links.near, operation, full(hub.SendMessageRequest))
                assert_same_error(caught.value, sent)
            events = samples(hub.StreamResponse)
            links.probe.on_stream = yielding(*events, sent)
            got: list[Any] = []
            with pytest.raises(A2AError) as caught:
                await invoke(links.near, ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), got=got)
            assert got == events
            assert_same_error(caught.value, sent)


@cells
async def test_every_operation_passes(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        for operation in ops.ALL:
            if operation is ops.GET_EXTENDED_AGENT_CARD:
                continue  # its answer is rewritten, see below
            request = full(operation.request)
            if isinstance(operation, ops.Streaming):
                links.probe.on_stream = yielding(*samples(hub.StreamResponse))
                assert await invoke(links.near, operation, request) == samples(hub.StreamResponse)
            else:
                answer = full(operation.response)
                if operation is ops.LIST_TASKS:
                    answer.page_size = len(answer.tasks)  # a gateway counts them
                links.probe.on_unary = answering(answer)
                assert await invoke(links.near, operation, request) == answer
            assert links.probe.last.operation is operation
            assert links.probe.last.request == request


@cells
async def test_cards_name_the_gateway_and_nothing_else(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        own = links.gateway.card.supported_interfaces
        found = {(one.protocol_version, one.protocol_binding) for one in own}
        assert found == set(product(("1.0", "0.3", "0.2.5"), BINDINGS))
        theirs = {one.url for one in links.agent.card.supported_interfaces}
        assert theirs.isdisjoint(one.url for one in own)
        extended = full(hub.AgentCard)
        links.probe.on_unary = answering(extended)
        got = await invoke(links.near, ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest())
        assert list(got.supported_interfaces) == list(own)
        assert not got.signatures
        assert got.skills == extended.skills


@cells
async def test_deadlines_pass_and_end_the_work(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        links.probe.on_unary = waiting
        for seconds in LIMITS:
            deadline = time.monotonic() + seconds
            request, context = hub.GetTaskRequest(id="t"), CallContext(deadline=deadline)
            with rejected(Reason.DEADLINE_EXCEEDED):
                await invoke(links.near, ops.GET_TASK, request, context)
            if links.probe.calls:
                break
        arrived = links.probe.last.context.deadline
        assert arrived is not None
        assert abs(arrived - deadline) < 0.3
        await links.probe.wait_running(0)


@cells
async def test_who_hangs_up_ends_the_work(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        links.probe.on_stream = holding(full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(links.near.stream(call)) as events:
            await anext(events)
            await links.probe.wait_running(1)
        await links.probe.wait_running(0)
        links.probe.on_unary = waiting
        asked = asyncio.create_task(invoke(links.near, ops.GET_TASK, hub.GetTaskRequest(id="t")))
        await links.probe.wait_running(1)
        asked.cancel()
        await asyncio.wait({asked})
        await links.probe.wait_running(0)


@cells
async def test_parameters_and_tenant_pass(front: str, upstream: str) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = "https://e.example/1"
        return full(hub.Task)

    async with chain(front, upstream) as links:
        links.probe.on_unary = unary
        context = CallContext(
            parameters={
                "a2a-extensions": "https://e.example/1,https://e.example/2",
                "authorization": "Bearer x",
                "traceparent": "00-a-b-01",
                "x-private": "y",
            }
        )
        await invoke(links.near, ops.GET_TASK, hub.GetTaskRequest(id="t", tenant="acme"), context)
        seen = links.probe.last.context
        assert seen.tenant == "acme"
        assert seen.extensions == ("https://e.example/1", "https://e.example/2")
        assert seen.parameters.get("authorization") == "Bearer x"
        assert seen.parameters.get("traceparent") == "00-a-b-01"
        assert seen.parameters.get("x-private") is None
        assert context.reply == {"a2a-extensions": "https://e.example/1"}


@cells
async def test_an_agent_that_is_gone(front: str, upstream: str) -> None:
    async with chain(front, upstream) as links:
        links.probe.on_stream = holding(full(hub.StreamResponse))
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
        async with asyncio.timeout(PATIENCE), aclosing(links.near.stream(call)) as events:
            await anext(events)
            await links.agent.drain(0)
            with pytest.raises(A2AError) as caught:
                await anext(events)
        assert caught.value.reason is Reason.UNAVAILABLE
        with rejected(Reason.UNAVAILABLE):
            await invoke(links.near, ops.GET_TASK, hub.GetTaskRequest(id="t"))


@pytest.mark.parametrize(
    ("front", "upstream"), [("JSONRPC", "GRPC"), ("HTTP+JSON", "JSONRPC"), ("GRPC", "HTTP+JSON")]
)
async def test_a_reader_that_stalls_stalls_the_agent(front: str, upstream: str) -> None:
    # The agent goes on to the end of its total, unless it is told to end earlier.
    produced, total = 0, 1500
    part = hub.Part(text="x" * 65_536)
    event = hub.StreamResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[part]))

    async def stream(_: Call[Any, Any]) -> AsyncIterator[Any]:
        nonlocal produced
        while produced < total:
            produced += 1
            yield event

    async with chain(front, upstream) as links:
        links.probe.on_stream = stream
        links.probe.on_unary = answering(full(hub.Task))
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
        async with asyncio.timeout(4 * PATIENCE), aclosing(links.near.stream(call)) as events:
            await anext(events)
            for _ in range(200):
                await invoke(links.near, ops.GET_TASK, hub.GetTaskRequest(id="t"))
            # Two hops of sockets and windows hold some data; a gateway that buffers would hold all.
            assert produced < total // 2
            # All of that arrives, and more: the agent goes on.
            stalled, total = produced, produced + 50
            read = 1
            async for _event in events:
                read += 1
        assert read == produced == total > stalled
