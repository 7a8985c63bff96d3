"""Metrics: counted by outcome, in bounded labels, on both sides of the waist."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import Limits, Usage, limits, usage
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.middleware.metrics import Gather, Metrics, merge
from a2a_bridge.middleware.usage import OTHERS, counts_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.middleware.scene import TASK, ask, get, rejection, send, subscribe
from tests.middleware.test_access_log import working

CELL = {"agent": "Weather", "binding": "JSONRPC", "version": "0.3"}
CONTEXT = CallContext(origin=Origin("JSONRPC", "0.3", "10.0.0.1"))


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"a2a_bridge_{name}", labels)


def counted(metrics: Metrics, operation: str, code: str) -> float | None:
    return value(metrics, "requests_total", **CELL, operation=operation, code=code)


OUTCOMES: list[tuple[Any, str]] = [
    (TASK, "OK"),
    (A2AError(Reason.TASK_NOT_FOUND), "TASK_NOT_FOUND"),
    (A2AError(Reason.INTERNAL_ERROR, name="CHOSEN_BY_A_PEER_123"), "INTERNAL_ERROR"),
    (RuntimeError("a defect"), "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("answer", "code"), OUTCOMES)
async def test_calls_are_counted_by_outcome(answer: Any, code: str) -> None:
    metrics, probe = Metrics(), Probe()
    probe.on_unary = answering(answer)
    service = metrics.server_middleware("Weather")(probe)
    for _ in range(2):
        if isinstance(answer, Exception):
            with pytest.raises(type(answer)):
                await ask(service, get(CONTEXT))
        else:
            assert await ask(service, get(CONTEXT)) == answer
    assert counted(metrics, "GetTask", code) == 2
    assert value(metrics, "request_duration_seconds_count", **CELL, operation="GetTask") == 2


async def test_streams_have_times_and_are_open_until_they_are_closed() -> None:
    metrics, probe = Metrics(), Probe()
    service = metrics.server_middleware("Weather")(probe)
    cell = {**CELL, "operation": "SubscribeToTask"}
    probe.on_stream = yielding(working(), working(), working())
    assert len(await ask(service, subscribe(CONTEXT))) == 3
    assert value(metrics, "stream_first_event_seconds_count", **cell) == 1
    assert value(metrics, "stream_event_interval_seconds_count", **cell) == 2
    assert counted(metrics, "SubscribeToTask", "OK") == 1
    probe.on_stream = holding(working())
    async with aclosing(service.stream(subscribe(CONTEXT))) as events:
        await anext(events)
        assert value(metrics, "streams_open", **cell) == 1
    assert value(metrics, "streams_open", **cell) == 0
    assert counted(metrics, "SubscribeToTask", "CANCELLED") == 1


async def test_a_reader_that_leaves_after_the_end_of_the_task_has_everything() -> None:
    metrics, probe = Metrics(), Probe()
    probe.on_stream = holding(working(hub.TASK_STATE_COMPLETED))
    async with aclosing(metrics.server_middleware("Weather")(probe).stream(subscribe(CONTEXT))) as events:
        await anext(events)
    assert counted(metrics, "SubscribeToTask", "OK") == 1


async def test_a_cancelled_call_is_counted_once() -> None:
    metrics, probe = Metrics(), Probe()
    probe.on_unary = waiting
    running = asyncio.create_task(ask(metrics.server_middleware("Weather")(probe), get(CONTEXT)))
    await probe.wait_running(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert counted(metrics, "GetTask", "CANCELLED") == 1


async def test_client_sides_have_metrics_of_their_own() -> None:
    metrics, probe = Metrics(), Probe()
    probe.on_unary = answering(TASK)
    await ask(metrics.client_middleware("Weather", "GRPC", "1.0")(probe), get(CONTEXT))
    cell = {"agent": "Weather", "binding": "GRPC", "version": "1.0", "operation": "GetTask", "code": "OK"}
    assert value(metrics, "upstream_requests_total", **cell) == 1
    assert counted(metrics, "GetTask", "OK") is None


async def test_labels_are_bounded() -> None:
    """Nothing that a caller chooses makes a series: no id, no principal, no name of an operation."""
    metrics, probe = Metrics(), Probe()
    probe.on_unary = answering(TASK)
    service = metrics.server_middleware("W" * 500 + "\n")(probe)
    for number in range(50):
        context = replace(CONTEXT, principal=Principal(f"caller-{number}"), tenant=f"t-{number}")
        await ask(service, get(context, task_id=f"task-{number}"))
        operation = replace(ops.GET_TASK, name=f"Extension{number}")
        await ask(service, Call(operation, hub.GetTaskRequest(id="x"), context))
    _, text = await metrics.exposition()
    series = [line for line in text.decode().splitlines() if line.startswith("a2a_bridge_requests_total{")]
    assert len(series) == 2
    assert {part for line in series for part in ("GetTask", "other") if f'operation="{part}"' in line} == {
        "GetTask",
        "other",
    }
    assert "W" * 65 not in text.decode()


async def test_every_operation_has_a_label_of_its_own() -> None:
    metrics, probe = Metrics(), Probe()
    service = metrics.server_middleware("Weather")(probe)
    for operation in ops.ALL:
        await ask(service, Call(operation, operation.request(), CONTEXT))
        assert counted(metrics, operation.name, "OK") == 1


async def test_gauges_are_read_at_each_scrape_and_a_broken_one_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    level = 1.0

    async def read() -> list[Metric]:
        return [GaugeMetricFamily("a2a_bridge_level", "A level.", value=level)]

    async def broken() -> list[Metric]:
        raise OSError("the database of a secret host is gone")

    metrics.watch(broken)
    stop = metrics.watch(read)
    for level in (1.0, 2.0):
        _, text = await metrics.exposition()
        assert f"a2a_bridge_level {level}" in text.decode()
    assert "some gauges cannot be read" in caplog.text
    stop()
    _, text = await metrics.exposition()
    assert "a2a_bridge_level" not in text.decode()


async def test_an_agent_and_its_successor_have_one_sample_together() -> None:
    metrics = Metrics()

    def reading(value: float) -> Gather:
        async def read() -> list[Metric]:
            found = GaugeMetricFamily("a2a_bridge_level", "A level.", labels=("agent",))
            found.add_metric(("Weather",), value)
            return [found]

        return read

    metrics.watch(reading(1.0))
    metrics.watch(reading(2.0))
    _, text = await metrics.exposition()
    samples = [line for line in text.decode().splitlines() if line.startswith("a2a_bridge_level")]
    assert samples == ['a2a_bridge_level{agent="Weather"} 2.0']


async def test_a_registry_of_the_application_is_used_and_scrapers_choose_the_format() -> None:
    registry = CollectorRegistry()
    metrics, probe = Metrics(registry), Probe()
    probe.on_unary = answering(TASK)
    await ask(metrics.server_middleware("Weather")(probe), send(CONTEXT))
    assert registry.get_sample_value(
        "a2a_bridge_requests_total", {**CELL, "operation": "SendMessage", "code": "OK"}
    )
    kind, text = await metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


async def test_a_scrape_of_many_agents_does_not_hold_the_loop() -> None:
    turns = 0
    read_in: list[int] = []
    rendered_by: set[int] = set()

    class Collector:
        def collect(self) -> Iterable[Metric]:
            rendered_by.add(threading.get_ident())
            return []

    async def source() -> list[Metric]:
        read_in.append(turns)
        return []

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    metrics = Metrics(CollectorRegistry())
    metrics.registry.register(Collector())
    rendered_by.clear()
    for _ in range(500):
        metrics.watch(source)
    turning = asyncio.create_task(turn())
    await metrics.exposition()
    turning.cancel()
    assert len(read_in) == 500
    # The turn that begins a batch may see the end of the one before.
    assert max(Counter(read_in).values()) <= 2 * 50
    assert rendered_by
    assert threading.get_ident() not in rendered_by


def test_metrics_of_one_name_become_one() -> None:
    first = GaugeMetricFamily("a", "A.", labels=("agent",))
    first.add_metric(("x",), 1)
    second = GaugeMetricFamily("a", "A.", labels=("agent",))
    second.add_metric(("y",), 2)
    (found,) = merge([first, second])
    assert [(one.labels, one.value) for one in found.samples] == [({"agent": "x"}, 1), ({"agent": "y"}, 2)]


# --- usage(): counts by caller and operation, with the last time; bounded, and safe to print ---

OLD = Origin("JSONRPC", "0.3")
NEW = Origin("GRPC", "1.0")
#: a count in documents that were written before there were profiles
ROW: dict[str, Any] = {
    "client": "a",
    "principal": "",
    "binding": "JSONRPC",
    "version": "0.3",
    "operation": "GetTask",
    "calls": 1,
    "errors": 0,
    "first": 1.0,
    "last": 2.0,
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def probe() -> Probe:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK, TASK)
    return probe


def caller(agent: str, origin: Origin = OLD, principal: str = "") -> CallContext:
    return CallContext(
        parameters={"user-agent": agent} if agent else {},
        origin=origin,
        principal=Principal(principal) if principal else None,
    )


def rows(table: Usage) -> set[tuple[Any, ...]]:
    return {(*one.key, one.calls, one.errors) for one in table}


async def test_calls_are_counted_by_caller_cell_and_operation(probe: Probe) -> None:
    table = Usage(clock=Clock())
    service = usage(table)(probe)
    for context in (
        caller("a/1"),
        caller("a/1"),
        caller("a/1", NEW),
        caller("a/1", principal="ann"),
        caller(""),
    ):
        await ask(service, get(context))
    await ask(service, subscribe(caller("a/1")))
    assert rows(table) == {
        ("a/1", "", "JSONRPC", "0.3", "GetTask", "", 2, 0),
        ("a/1", "", "GRPC", "1.0", "GetTask", "", 1, 0),
        ("a/1", "ann", "JSONRPC", "0.3", "GetTask", "", 1, 0),
        ("", "", "JSONRPC", "0.3", "GetTask", "", 1, 0),
        ("a/1", "", "JSONRPC", "0.3", "SubscribeToTask", "", 1, 0),
    }
    first = next(one for one in table if one.calls == 2)
    assert (first.first, first.last) == (1001.0, 1002.0)


async def test_callers_are_counted_by_their_peer_profile(probe: Probe) -> None:
    table = Usage()
    service = usage(table)(probe)
    for agent in ("grpc-go/1.70.0", "grpc-go/1.71.0", "Java-http-client/21", "something/1"):
        await ask(service, get(caller(agent)))
    assert {(one.profile, one.client) for one in table} == {
        ("a2a-go-0.3", "grpc-go/1.70.0"),
        ("a2a-go-0.3", "grpc-go/1.71.0"),
        ("a2a-java-0.3", "Java-http-client/21"),
        ("", "something/1"),
    }
    again = Usage()
    again.restore(loads(dumps(table.document())))  # type: ignore[arg-type]
    assert {one.key for one in again} == {one.key for one in table}


async def test_failures_are_counted_and_passed_on(probe: Probe) -> None:
    async def fail(_call: Any) -> Any:
        raise A2AError(Reason.TASK_NOT_FOUND)

    async def fail_late(_call: Any) -> Any:
        yield TASK
        raise A2AError(Reason.INTERNAL_ERROR)

    probe.on_unary, probe.on_stream = fail, fail_late
    table = Usage()
    service = usage(table)(probe)
    for call in (get(caller("a")), subscribe(caller("a"))):
        with pytest.raises(A2AError):
            await ask(service, call)
    assert ({one.errors for one in table}, len(list(table))) == ({1}, 2)


async def test_a_caller_that_hangs_up_on_a_stream_has_not_failed(probe: Probe) -> None:
    table = Usage()
    async with aclosing(usage(table)(probe).stream(subscribe(caller("a")))) as events:
        assert (await anext(events)).message == TASK
    assert [(one.calls, one.errors) for one in table] == [(1, 0)]


async def test_neither_has_one_that_hangs_up_while_it_waits_for_an_event(probe: Probe) -> None:
    probe.on_stream = holding(TASK)
    table = Usage()
    async with aclosing(usage(table)(probe).stream(subscribe(caller("a")))) as events:
        await anext(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # so that it waits
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [(one.calls, one.errors) for one in table] == [(1, 0)]


async def test_names_beyond_the_limit_are_counted_together(probe: Probe) -> None:
    table = Usage(limit=3)
    service = usage(table)(probe)
    for number in range(50):
        await ask(service, get(caller(f"agent-{number}")))
    assert {one.client: one.calls for one in table} == {"agent-0": 1, "agent-1": 1, "agent-2": 1, OTHERS: 47}


async def test_names_are_cut_and_made_printable(probe: Probe) -> None:
    table = Usage()
    service = usage(table)(probe)
    await ask(service, get(caller("x" * 500)))
    await ask(service, get(caller("evil\x1b[2J\n")))
    names = {one.client for one in table}
    assert all(name.isprintable() and len(name) <= 121 for name in names)
    assert any(name.startswith("evil") for name in names)


async def test_counts_survive_as_a_document(probe: Probe) -> None:
    clock = Clock()
    before = Usage(clock=clock)
    await ask(usage(before)(probe), get(caller("a")))
    document = loads(dumps(before.document()))
    after = Usage(clock=clock)
    await ask(usage(after)(probe), get(caller("a")))
    assert isinstance(document, dict)
    after.restore(document)
    assert [(one.calls, one.first, one.last) for one in after] == [(2, 1001.0, 1003.0)]


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "format"),
        ([], "format"),
        ({"format": 1, "usage": {}}, "usage"),
        ({"format": 1, "usage": [{"client": 7}]}, r"usage\[0\].client"),
        ({"format": 1, "usage": [7]}, r"usage\[0\].client"),
        ({"format": 1, "usage": [{**ROW, "profile": 7}]}, r"usage\[0\].profile"),
    ],
)
def test_an_invalid_usage_document_is_rejected(document: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        counts_of(document)


def test_a_document_cannot_write_on_a_terminal_either() -> None:
    table = Usage()
    row = {**ROW, "client": "a\x1b[2J\nb", "binding": "\x1b"}
    table.restore({"format": 1, "now": 3.0, "usage": [row]})
    [count] = table
    assert (count.client, count.binding) == ("a�[2J�b", "�")


# --- limits(): how much one caller may have at once, and how large its messages may be ---

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
