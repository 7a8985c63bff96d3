"""access_log(): one line per call, without content of messages."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import access_log
from a2a_bridge.middleware.logging import FIELDS
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.middleware.scene import TASK, ask, get, send, subscribe

LOGGER = "a2a_bridge.access"


def ticking(step: float = 0.0125) -> Callable[[], float]:
    """A clock that advances by `step` seconds with each read."""
    ticks = iter(range(1000))
    return lambda: next(ticks) * step


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, LOGGER)
    return lambda: [record.getMessage() for record in caplog.records if record.name == LOGGER]


def working(state: hub.TaskState = hub.TASK_STATE_WORKING) -> hub.StreamResponse:
    return hub.StreamResponse(
        status_update=hub.TaskStatusUpdateEvent(task_id="t-1", status=hub.TaskStatus(state=state))
    )


ANSWERS = [
    (get(), TASK, "in-process GetTask task=t-1 state=WORKING OK 12.5 ms"),
    (send(), hub.SendMessageResponse(task=TASK), "in-process SendMessage task=t-1 state=WORKING OK 12.5 ms"),
    (send(), hub.SendMessageResponse(message=hub.Message()), "in-process SendMessage OK 12.5 ms"),
    (get(), A2AError(Reason.TASK_NOT_FOUND), "in-process GetTask task=t-1 TASK_NOT_FOUND 12.5 ms"),
    (get(), RuntimeError("a secret"), "in-process GetTask task=t-1 INTERNAL_ERROR 12.5 ms"),
    (
        Call(
            ops.GET_PUSH_CONFIG,
            hub.GetTaskPushNotificationConfigRequest(task_id="t-1", id="p"),
            CallContext(origin=Origin("JSONRPC", "1.0", "127.0.0.1")),
        ),
        hub.TaskPushNotificationConfig(url="https://secret.example/"),
        "JSONRPC 1.0 GetTaskPushNotificationConfig task=t-1 OK 12.5 ms peer=127.0.0.1",
    ),
]


@pytest.mark.parametrize(("call", "answer", "line"), ANSWERS)
async def test_a_call_is_a_line(call: Any, answer: Any, line: str, lines: Callable[[], list[str]]) -> None:
    probe = Probe()
    probe.on_unary = answering(answer)
    asked = ask(access_log(ticking())(probe), call)
    if isinstance(answer, Exception):
        with pytest.raises(type(answer)):
            await asked
    else:
        assert await asked == answer
    assert lines() == [line]


STREAMS = [
    ([working(), working(hub.TASK_STATE_COMPLETED)], "task=t-1 state=COMPLETED OK 2 events"),
    ([], "task=t-1 OK 0 events"),
    ([working(), A2AError(Reason.UNAVAILABLE)], "task=t-1 state=WORKING UNAVAILABLE 1 events"),
    ([RuntimeError("a secret")], "task=t-1 INTERNAL_ERROR 0 events"),
]


@pytest.mark.parametrize(("events", "rest"), STREAMS)
async def test_a_stream_is_a_line(events: list[Any], rest: str, lines: Callable[[], list[str]]) -> None:
    probe = Probe()
    probe.on_stream = yielding(*events)
    asked = ask(access_log(ticking())(probe), subscribe())
    if events and isinstance(events[-1], Exception):
        with pytest.raises(type(events[-1])):
            await asked
    else:
        assert await asked == events
    assert lines() == [f"in-process SubscribeToTask {rest} 12.5 ms"]


async def test_abandoned_calls_count_as_cancelled(lines: Callable[[], list[str]]) -> None:
    probe = Probe()
    probe.on_unary, probe.on_stream = waiting, holding(working())
    service = access_log(ticking())(probe)
    running = asyncio.create_task(ask(service, get()))
    await probe.wait_running(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    events = service.stream(subscribe())
    await anext(events)
    await events.aclose()
    assert lines() == [
        "in-process GetTask task=t-1 CANCELLED 12.5 ms",
        "in-process SubscribeToTask task=t-1 state=WORKING CANCELLED 1 events 12.5 ms",
    ]


@pytest.mark.parametrize("task_id", ["a\nb", "a b", "é", "x" * 500, "\x00", "task=1 state=OK"])
async def test_ids_cannot_forge_lines(task_id: str, lines: Callable[[], list[str]]) -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    with pytest.raises(A2AError):
        await ask(access_log(ticking())(probe), get(task_id=task_id))
    (line,) = lines()
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 200
    assert len(line.split(" ")) == 6


async def test_nothing_is_written_and_no_clock_read_while_it_is_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    probe = Probe()
    probe.on_unary, probe.on_stream = answering(TASK), yielding(working())

    def clock() -> float:
        raise AssertionError("nobody should look")

    service = access_log(clock)(probe)
    assert await ask(service, get()) == TASK
    assert await ask(service, subscribe()) == [working()]
    assert caplog.records == []


async def test_a_line_names_caller_and_agent_and_has_the_values_as_attributes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    probe = Probe()
    probe.on_stream = yielding(working(hub.TASK_STATE_COMPLETED))
    context = CallContext(
        origin=Origin("GRPC", "1.0", "ipv4:10.0.0.1:99"), principal=Principal("ann\nb", {"token": "a secret"})
    )
    await ask(access_log(ticking(), agent="My agent")(probe), subscribe(context))
    (record,) = [one for one in caplog.records if one.name == LOGGER]
    assert record.getMessage() == (
        "GRPC 1.0 SubscribeToTask task=t-1 state=COMPLETED OK 1 events 12.5 ms"
        r" caller='ann\nb' peer=ipv4:10.0.0.1:99 agent='My\x20agent'"
    )
    found = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
    assert found == {
        "agent": "My agent",
        "binding": "GRPC",
        "version": "1.0",
        "operation": "SubscribeToTask",
        "task": "t-1",
        "state": "COMPLETED",
        "code": "OK",
        "duration_ms": 12.5,
        "events": 1,
        "caller": "ann\nb",
        "peer": "ipv4:10.0.0.1:99",
    }
