"""limits(): how much one caller may have at once, and how large its messages may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import Limits, limits
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.middleware.scene import TASK, ask, get, rejection, send, subscribe

ALICE, BOB = (CallContext(principal=Principal(name)) for name in ("alice", "bob"))


async def rejected(service: Any, call: Call[Any, Any]) -> None:
    with pytest.raises(A2AError) as caught:
        await ask(service, call)
    assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
    assert caught.value.retry_after


@pytest.mark.parametrize("call", [get, subscribe])
async def test_one_caller_has_so_many_at_once(call: Any) -> None:
    probe = Probe()
    probe.on_unary = waiting
    probe.on_stream = holding(TASK)
    service = limits(calls=2, streams=2)(probe)
    running = [asyncio.create_task(ask(service, call(ALICE))) for _ in range(2)]
    await probe.wait_running(2)
    await rejected(service, call(ALICE))
    running.append(asyncio.create_task(ask(service, call(BOB))))
    await probe.wait_running(3)
    # Calls and streams are counted apart.
    probe.on_unary, probe.on_stream = answering(TASK), yielding(TASK)
    await ask(service, (subscribe if call is get else get)(ALICE))
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await probe.wait_running(0)
    await ask(service, call(ALICE))


async def test_callers_without_a_name_share() -> None:
    probe = Probe()
    probe.on_unary = waiting
    service = limits(calls=1)(probe)
    running = asyncio.create_task(ask(service, get()))
    await probe.wait_running(1)
    await rejected(service, get())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_call_that_fails_gives_its_place_back() -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    probe.on_stream = yielding(A2AError(Reason.TASK_NOT_FOUND))
    service = limits(calls=1, streams=1)(probe)
    for _ in range(3):
        for call in (get(), subscribe()):
            with pytest.raises(A2AError) as caught:
                await ask(service, call)
            assert caught.value.reason is Reason.TASK_NOT_FOUND


async def test_a_stream_that_is_left_gives_its_place_back() -> None:
    probe = Probe()
    probe.on_stream = holding(TASK)
    service = limits(streams=1)(probe)
    for _ in range(3):
        events = service.stream(subscribe())
        await anext(events)
        await events.aclose()


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
async def test_a_message_has_so_many_parts(operation: Any) -> None:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK)
    service = limits(parts=3)(probe)
    await ask(service, Call(operation, send(parts=3).request, CallContext()))
    with pytest.raises(A2AError) as caught:
        await ask(service, Call(operation, send(parts=4).request, CallContext()))
    assert rejection(caught.value) == (Reason.INVALID_PARAMS, ["message.parts"])
    assert len(probe.calls) == 1


async def test_zero_is_no_limit() -> None:
    probe = Probe()
    probe.on_unary = answering(TASK)
    service = limits()(probe)
    await asyncio.gather(*(ask(service, send(parts=50)) for _ in range(50)))
    assert len(probe.calls) == 50


@pytest.mark.parametrize("call", [get, subscribe])
async def test_limits_change_while_calls_run_and_count(call: Any) -> None:
    probe = Probe()
    probe.on_unary = waiting
    probe.on_stream = holding(TASK)
    live = LiveLimits(Limits(calls=1, streams=1))
    service = live.wrap(probe)
    running = [asyncio.create_task(ask(service, call(ALICE)))]
    await probe.wait_running(1)
    await rejected(service, call(ALICE))
    live.change(Limits(calls=2, streams=2, parts=1))
    running.append(asyncio.create_task(ask(service, call(ALICE))))
    await probe.wait_running(2)
    live.change(Limits(calls=1, streams=1))
    await rejected(service, call(ALICE))
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert len(probe.calls) == 2
    other = live.wrap(probe)
    running = [asyncio.create_task(ask(other, call(ALICE)))]
    await probe.wait_running(1)
    await rejected(other, call(ALICE))
    running[0].cancel()
    await asyncio.gather(*running, return_exceptions=True)
