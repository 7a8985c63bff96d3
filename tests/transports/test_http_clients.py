"""The client sides of JSON-RPC and HTTP+JSON against our own host."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import LIMITS
from tests.transports.http_peer import REQUEST, failure, send, subscribe
from tests.transports.http_scene import (
    BINDINGS,
    PATIENCE,
    Scripted,
    Unanswered,
    dialling,
    hosting,
    reply,
    said,
    update,
)

both = pytest.mark.parametrize("kind", list(BINDINGS))


@both
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", ["", "/weather"])
async def test_there_and_back(kind: str, path: str, slash: str) -> None:
    service = Scripted()
    async with hosting(service, path=path) as host:
        answer = await send(f"http://{host.address}{path}{slash}", kind)
    assert answer == reply()
    [call] = service.calls
    assert call.request == REQUEST


@both
async def test_parameters_both_ways(kind: str) -> None:
    async def echo(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = call.context.parameters["a2a-extensions"]
        call.context.reply["set-cookie"] = "no"
        return reply()

    service = Scripted(on_unary=echo)
    options = DialOptions(parameters={"authorization": "Bearer x"})
    async with hosting(service) as host, dialling(f"http://{host.address}", kind, options) as near:
        context = CallContext(parameters={"a2a-extensions": "a, b", "cookie": "c", "traceparent": "t"})
        await Client(near).send_message(REQUEST, context)
    assert context.reply == {"a2a-extensions": "a, b"}
    seen = service.calls[0].context.parameters
    assert {name: seen.get(name) for name in ("authorization", "traceparent", "cookie", "a2a-version")} == {
        "authorization": "Bearer x",
        "traceparent": "t",
        "cookie": None,
        "a2a-version": "1.0",
    }


@both
async def test_the_interfaces_tenant(kind: str) -> None:
    service = Scripted()
    async with hosting(service) as host, dialling(f"http://{host.address}", kind, tenant="ac/me") as near:
        client = Client(near)
        request = hub.GetTaskRequest(id="7")
        await client.get_task(request)
        await client.get_task(hub.GetTaskRequest(id="7", tenant="own"))
        assert request.tenant == ""
    assert [call.context.tenant for call in service.calls] == ["ac/me", "own"]


@both
@pytest.mark.parametrize("how", ["context", "options"])
async def test_deadlines_end_calls(kind: str, how: str) -> None:
    unanswered = Unanswered()
    async with hosting(Scripted(on_unary=unanswered)) as host:
        url = f"http://{host.address}"
        for seconds in LIMITS:
            if how == "context":
                error = await failure(send(url, kind, deadline=time.monotonic() + seconds))
            else:
                error = await failure(send(url, kind, DialOptions(timeout=seconds)))
            assert error.reason is Reason.DEADLINE_EXCEEDED
            if unanswered.entered.is_set():
                break
        async with asyncio.timeout(PATIENCE):
            await unanswered.gone.wait()


@both
async def test_a_deadline_that_has_passed_sends_nothing(kind: str) -> None:
    service = Scripted()
    async with hosting(service) as host:
        error = await failure(send(f"http://{host.address}", kind, deadline=time.monotonic() - 1))
    assert error.reason is Reason.DEADLINE_EXCEEDED
    assert not service.calls


@both
async def test_a_deadline_ends_a_stream(kind: str) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    service = Scripted(on_stream=script)
    async with hosting(service) as host:
        for seconds in LIMITS:
            *events, error = await subscribe(
                f"http://{host.address}", kind, deadline=time.monotonic() + seconds
            )
            assert error.reason is Reason.DEADLINE_EXCEEDED
            if events:
                break
        assert [said(event) for event in events] == ["one"]
        async with asyncio.timeout(PATIENCE):
            await service.closed.wait()


@both
async def test_silence_is_noticed_and_keep_alives_are_no_silence(kind: str) -> None:
    go = asyncio.Event()

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await go.wait()
        yield update("two")

    options = DialOptions(idle_timeout=0.2)
    service = Scripted(on_stream=script)
    async with hosting(service, options=HostOptions(keep_alive=0.05)) as host:
        asyncio.get_running_loop().call_later(0.6, go.set)
        events = await subscribe(f"http://{host.address}", kind, options)
        assert [said(event) for event in events] == ["one", "two"]
    go.clear()
    async with hosting(service, options=HostOptions(keep_alive=60)) as host:
        event, error = await subscribe(f"http://{host.address}", kind, options)
        assert (said(event), error.reason) == ("one", Reason.UNAVAILABLE)
        assert (error.metadata["phase"], error.blame) == ("stream", Blame.PEER)


@both
async def test_more_calls_at_once_than_a_pool_would_allow(kind: str) -> None:
    together = asyncio.Event()
    inside = 0

    async def meet(_: Call[Any, Any]) -> Any:
        nonlocal inside
        inside += 1
        if inside == 150:
            together.set()
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return reply()

    async with hosting(Scripted(on_unary=meet)) as host, dialling(f"http://{host.address}", kind) as near:
        client = Client(near)
        answers = await asyncio.gather(*(client.send_message(REQUEST) for _ in range(150)))
    assert len(answers) == 150
