"""Calls to a gRPC server that allows 100 streams of a connection, as most servers and proxies do, or fewer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.bindings.binding import DialOptions, TlsFiles, find
from a2a_bridge.bindings.places import Place
from a2a_bridge.cards import interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports.grpc import client
from a2a_bridge_transports.grpc.stream_limit import MOST_CALLS, StreamLimit
from tests.patience import PATIENCE, until
from tests.rejections import rejected

PEM = Path(__file__).with_name("http_tls.pem")
WORKING = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
BEGUN = hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=WORKING)).SerializeToString()
#: seconds of a call that would wait behind streams
LIMIT = 30.0


@asynccontextmanager
async def agent(
    streams: int = 100, *, tls: bool = False, end: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """Streams that wait after their first event, for as long as it runs, or until `end`."""
    end = end or asyncio.Event()

    async def stream(_: bytes, __: Any) -> AsyncIterator[bytes]:
        yield BEGUN
        await end.wait()

    async def get(_: bytes, __: Any) -> bytes:
        return hub.Task(id="t").SerializeToString()

    handlers = {
        "SubscribeToTask": grpc.unary_stream_rpc_method_handler(stream),
        "GetTask": grpc.unary_unary_rpc_method_handler(get),
    }
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", streams)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers),))
    if tls:
        pair = (PEM.read_bytes(), PEM.read_bytes())
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
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


@pytest.mark.parametrize(("streams", "most"), [(1, 1), (10, 5), (30, 15), (99, 49), (1000, MOST_CALLS)])
async def test_a_connection_takes_half_of_the_streams_that_its_server_allows(streams: int, most: int) -> None:
    count = 2 * most + 1
    async with (
        agent(streams) as url,
        find("GRPC").dial(interface("GRPC", url), V1_0, DialOptions(timeout=LIMIT)) as service,
        streaming(service, count),
    ):
        assert (await get_task(service)).id == "t"
        assert [one._running for one in (service, *service._further)][:3] == [most, most, 1]


async def test_the_limit_is_read_over_tls() -> None:
    options = DialOptions(timeout=LIMIT, tls=TlsFiles(ca=str(PEM)))
    async with (
        agent(10, tls=True) as url,
        find("GRPC").dial(interface("GRPC", f"https://{url}"), V1_0, options) as service,
        streaming(service, 12),
    ):
        assert service._limit.calls == 5


async def test_no_probe_waits_for_the_only_stream_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look as if the agent were dead."""
    end, learn, looks = asyncio.Event(), StreamLimit.learn, list[StreamLimit]()

    async def looked(limit: StreamLimit) -> None:
        looks.append(limit)
        await learn(limit)

    monkeypatch.setattr(StreamLimit, "learn", looked)
    call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
    options = DialOptions(timeout=LIMIT, idle_timeout=0.2)
    async with (
        agent(1, end=end) as url,
        find("GRPC").dial(interface("GRPC", url), V1_0, options) as service,
        aclosing(service.stream(call)) as events,
        asyncio.timeout(PATIENCE),
    ):
        assert (await anext(events)).message.task.id == "t"
        await until(lambda: len(looks) >= 8)  # twice the time after which an agent is dead
        end.set()
        assert [one async for one in events] == []


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes((0, 0, 5, 4, 0, 0, 0, 0, 0)) + b"12345"]
)
async def test_a_server_that_does_not_say_it_has_the_usual_limit(answer: bytes) -> None:
    async def answered(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE):
        limit = StreamLimit(Place("127.0.0.1", server.sockets[0].getsockname()[1], secure=False), "", None)
        await asyncio.gather(limit.learn(), limit.learn())
        assert (limit.calls, limit.known, limit.single) == (MOST_CALLS, True, False)
        await limit.close()
