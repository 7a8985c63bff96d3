"""Calls to a gRPC server that allows 100 streams of a connection, as most servers and proxies do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports.grpc import client
from a2a_bridge_transports.grpc.client import MOST_CALLS
from tests.patience import PATIENCE, until
from tests.rejections import rejected

WORKING = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
BEGUN = hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=WORKING)).SerializeToString()
#: seconds of a call that would wait behind streams
LIMIT = 30.0


@asynccontextmanager
async def agent() -> AsyncIterator[str]:
    """Streams that wait after their first event, for as long as it runs."""
    end = asyncio.Event()

    async def stream(_: bytes, __: Any) -> AsyncIterator[bytes]:
        yield BEGUN
        await end.wait()

    async def get(_: bytes, __: Any) -> bytes:
        return hub.Task(id="t").SerializeToString()

    handlers = {
        "SubscribeToTask": grpc.unary_stream_rpc_method_handler(stream),
        "GetTask": grpc.unary_unary_rpc_method_handler(get),
    }
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 100)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        end.set()
        await server.stop(0)


async def get_task(service: Service) -> hub.Task:
    return await service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))


@asynccontextmanager
async def streaming(service: Service, count: int) -> AsyncIterator[None]:
    """That many streams, open at the same time."""
    call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        opened = [await stack.enter_async_context(aclosing(service.stream(call))) for _ in range(count)]
        first = await asyncio.gather(*(anext(one) for one in opened))
        assert all(event.message.task.id == "t" for event in first)
        yield


async def test_calls_do_not_wait_behind_streams() -> None:
    async with (
        agent() as url,
        find("GRPC").dial(interface("GRPC", url), V1_0, DialOptions(timeout=LIMIT)) as service,
    ):
        async with streaming(service, 3 * MOST_CALLS + 10):
            assert (await get_task(service)).id == "t"
        # The places of ended calls are used again.
        async with streaming(service, 3 * MOST_CALLS):
            assert (await get_task(service)).id == "t"


async def test_further_connections_that_are_idle_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "IDLE", 0.05)
    async with (
        agent() as url,
        find("GRPC").dial(interface("GRPC", url), V1_0, DialOptions(timeout=LIMIT)) as service,
    ):
        further: list[Any] = service._further
        async with streaming(service, 3 * MOST_CALLS):
            kept = list(further)
            assert len(kept) == 2
        await until(lambda: not further)
        closed = grpc.ChannelConnectivity.SHUTDOWN
        await until(lambda: all(one._channel.get_state() is closed for one in kept))
        # More are made again when they are needed, and stay for as long as they have calls.
        async with streaming(service, 2 * MOST_CALLS):
            assert (await get_task(service)).id == "t"
            await until(lambda: len(further) == 1)
            assert further[0]._running == MOST_CALLS


async def test_beyond_the_limit_a_call_is_rejected_at_once() -> None:
    options = DialOptions(timeout=LIMIT, max_upstream_connections=2)
    async with agent() as url, find("GRPC").dial(interface("GRPC", url), V1_0, options) as service:
        async with streaming(service, 2 * MOST_CALLS - 1):
            assert (await get_task(service)).id == "t"
        async with streaming(service, 2 * MOST_CALLS):
            with rejected(Reason.RESOURCE_EXHAUSTED):
                await get_task(service)
        assert (await get_task(service)).id == "t"
