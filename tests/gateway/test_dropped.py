"""An interface whose packets are dropped: no call waits there for all of its time, and the next calls know."""

from __future__ import annotations

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
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.connections import Connections
from a2a_bridge.gateway.options import UpstreamOptions
from a2a_bridge.gateway.replay_log import ReplayOptions
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.stack import BINDINGS
from tests.patience import PATIENCE

#: seconds in which a call is left, or the agent counts as silent: less than the time limit for connecting
SHORT = 0.3


@contextmanager
def dropping() -> Iterator[str]:
    """host:port of a listener whose queue is full, so that the system drops what asks for a connection."""
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
        yield f"127.0.0.1:{address[1]}"


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
    )
    await made.open(candidates, resumes=False)
    try:
        yield made
    finally:
        await made.aclose_streams()
        await made.aclose()


async def send(service: Service, *, seconds: float | None = None, stream: bool = False) -> str:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
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
    with dropping() as place:
        async with serve(echo, [interface(binding)]) as server:
            [there] = server.card.supported_interfaces
            async with connections(candidate(binding, place), Candidate(there, V1_0), **options) as made:
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
async def test_silence_of_an_agent_begins_with_its_connection(binding: str) -> None:
    async with two(binding, silence_timeout=SHORT) as service:
        answers = [await caught(send(service)) for _ in range(3)]
    assert answers[1:] == ["hi", "hi"]
    with dropping() as place:
        async with connections(candidate(binding, place), silence_timeout=SHORT) as alone:
            error = await caught(send(alone))
            assert isinstance(error, A2AError)
            assert error.reason is Reason.UNAVAILABLE
            assert "task" not in error.message
            assert alone.failover.is_gone


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_deadline_that_passes_before_a_connection_counts_as_none(binding: str) -> None:
    with dropping() as place:
        async with connections(candidate(binding, place)) as alone:
            error = await caught(send(alone, seconds=SHORT))
            assert isinstance(error, A2AError)
            assert error.reason in {Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED}
            assert alone.failover.is_gone


async def caught(answer: Any) -> Any:
    try:
        return await answer
    except A2AError as error:
        return error
