"""An interface whose packets are dropped: no call waits there for all of its time, and the next calls know."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from a2a_bridge import agent, interface, serve
from a2a_bridge.bindings.binding import MIB, DialOptions
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards import Candidate
from a2a_bridge.cli.gateway_setup import _settle
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway import destinations
from a2a_bridge.gateway.connections import Connections, UpstreamOptions
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.equivalence.stack import BINDINGS
from tests.gateway.test_gateway import agent as agent_of
from tests.patience import PATIENCE

#: seconds in which a call is left, or the agent counts as silent: less than the time limit for connecting
SHORT = 0.3
#: a limit for silence within which a busy machine answers. It is less than the second after which the system asks
#: again for a connection
LIMIT = 0.8


@contextmanager
def dropping() -> Iterator[socket.socket]:
    """A listener whose queue is full, so that the system drops what asks for a connection."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(64):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(address)
            except TimeoutError:
                break
        else:
            pytest.skip("this system queues any number of connections")
        yield listener


def place_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def forwarded(listener: socket.socket, place: str) -> AsyncIterator[None]:
    """Accepts the connections of a listener from now on, and makes each one to another place."""

    running: set[asyncio.Task[Any] | None] = set()
    writers: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())
        host, _, port = place.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writers.extend((writer, back))
        await asyncio.gather(copy(reader, back), copy(there, writer))

    # A copy, which the server closes: the listener is that of its block.
    async with await asyncio.start_server(forward, sock=listener.dup()):
        yield
        for writer in writers:
            writer.close()
        await asyncio.gather(*filter(None, running))


@agent
async def echo(text: str) -> str:
    return text


def candidate(binding: str, place: str) -> Candidate:
    return Candidate(interface(binding, place if binding == "GRPC" else f"http://{place}/"), V1_0)


@asynccontextmanager
async def connections(*candidates: Candidate, **options: Any) -> AsyncIterator[Connections]:
    made = Connections(
        DialOptions(timeout=None, **options),
        UpstreamOptions(),
        ReplayOptions(),
        dial=dial,
        memory=MemoryAccount(1 << 26),
        tasks=Tasks(),
    )
    await made.open(candidates, resumes=False)
    try:
        yield made
    finally:
        await made.aclose_streams()
        await made.aclose()


async def send(
    service: Service, *, seconds: float | None = None, stream: bool = False, text: str = "hi"
) -> str:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    deadline = None if seconds is None else time.monotonic() + seconds
    context = CallContext(deadline=deadline)
    request = hub.SendMessageRequest(message=message)
    if stream:
        events = service.stream(Call(ops.SEND_STREAMING_MESSAGE, request, context))
        return "".join([event.message.message.parts[0].text async for event in events])
    answer = await service.unary(Call(ops.SEND_MESSAGE, request, context))
    return str(answer.message.parts[0].text)


@asynccontextmanager
async def two(binding: str, **options: Any) -> AsyncIterator[Connections]:
    """Connections to an interface that drops what arrives, and to an agent."""
    with dropping() as listener:
        async with serve(echo, [interface(binding)]) as server:
            [there] = server.card.supported_interfaces
            first = candidate(binding, place_of(listener))
            async with connections(first, Candidate(there, V1_0), **options) as made:
                yield made


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_next_interface_gets_the_call_within_its_deadline(binding: str, stream: bool) -> None:
    async with two(binding) as service:
        for _ in range(3):
            assert await send(service, seconds=2.0, stream=stream) == "hi"


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_next_call_of_callers_that_leave_early_is_answered(
    binding: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with two(binding, connect_timeout=10 * PATIENCE) as service:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await send(service, stream=stream)
        async with asyncio.timeout(PATIENCE):
            assert await send(service, stream=stream) == "hi"
        assert service.failover.upstreams[0].health.reachable is False
    assert "an interface cannot be reached" in caplog.text


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_silence_of_an_agent_begins_with_its_connection(binding: str) -> None:
    async with two(binding, silence_timeout=SHORT) as service:
        assert [await send(service) for _ in range(3)] == ["hi"] * 3
    with dropping() as listener:
        options = {"silence_timeout": SHORT, "connect_timeout": 4 * SHORT}
        async with connections(candidate(binding, place_of(listener)), **options) as alone:
            begun = time.monotonic()
            error = await caught(send(alone))
            assert time.monotonic() - begun > 3 * SHORT
            assert isinstance(error, A2AError)
            assert error.reason is Reason.UNAVAILABLE
            assert "task" not in error.message
            assert alone.failover.is_gone


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_agent_that_accepts_its_connections_late_is_not_silent(binding: str, stream: bool) -> None:
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(dropping())
        server = await stack.enter_async_context(serve(echo, [interface(binding)]))
        there = str(server.http or server.grpc)
        service = await stack.enter_async_context(
            connections(candidate(binding, place_of(listener)), silence_timeout=LIMIT)
        )
        answer = asyncio.create_task(send(service, stream=stream))
        await asyncio.wait({answer}, timeout=1.1 * LIMIT)
        assert not answer.done()
        await stack.enter_async_context(forwarded(listener, there))
        async with asyncio.timeout(PATIENCE):
            assert await answer == "hi"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_request_that_nobody_reads_ends_with_the_silence(binding: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unread:
        options = {"silence_timeout": LIMIT, "connect_timeout": LIMIT}
        async with connections(candidate(binding, place_of(unread)), **options) as service:
            async with asyncio.timeout(PATIENCE):
                error = await caught(send(service, text="x" * (16 * MIB)))
    assert isinstance(error, A2AError)
    # gRPC has a connection only when the peer has answered with its settings.
    expected = Reason.UNAVAILABLE if binding == "GRPC" else Reason.DEADLINE_EXCEEDED
    assert error.reason is expected


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_large_request_may_take_longer_than_the_silence(binding: str) -> None:
    loop = asyncio.get_running_loop()
    never = loop.create_future()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads for twice the limit, a part at a time, and breaks the connection off."""
        begun = loop.time()
        while loop.time() < begun + 2 * LIMIT:
            await reader.read(1 << 16)
            await asyncio.wait({never}, timeout=0.01)
        writer.transport.abort()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16
    )  # the system keeps little of the request
    async with (
        await asyncio.start_server(read, sock=listener, limit=1 << 16),
        connections(candidate(binding, place_of(listener)), silence_timeout=LIMIT) as service,
    ):
        error = await caught(send(service, text="x" * (16 * MIB)))
    assert isinstance(error, A2AError)
    assert error.reason is Reason.UNAVAILABLE
    assert "broke" in error.message


async def test_a_gateway_starts_soon_before_interfaces_that_drop_packets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(destinations, "TRIAL", SHORT)
    with dropping() as first, dropping() as second:
        candidates = [candidate("JSONRPC", place_of(first)), candidate("GRPC", place_of(second))]
        options = DialOptions(connect_timeout=10 * PATIENCE)
        async with asyncio.timeout(60):  # the system gives up after two minutes
            found = await destinations.Destinations(options).check_and_connect(candidates)
    assert [one.silence for one in found] == ["no answer in time"] * 2


async def test_a_gateway_asks_all_interfaces_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    probe, both = Probe(), asyncio.Barrier(2)

    async def answer(call: Call[Any, Any], /) -> Any:
        await both.wait()
        raise A2AError(Reason.TASK_NOT_FOUND)

    probe.on_unary = answer
    async with agent_of(probe, "JSONRPC", "GRPC") as server:
        asked = [Candidate(one, V1_0) for one in server.card.supported_interfaces]
        assert await _settle(asked, DialOptions()) == asked
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_deadline_that_passes_before_a_connection_counts_as_none(binding: str) -> None:
    with dropping() as listener:
        async with connections(candidate(binding, place_of(listener))) as alone:
            error = await caught(send(alone, seconds=SHORT))
            assert isinstance(error, A2AError)
            assert error.reason in {Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED}
            assert alone.failover.is_gone


async def caught(answer: Any) -> Any:
    try:
        return await answer
    except A2AError as error:
        return error
