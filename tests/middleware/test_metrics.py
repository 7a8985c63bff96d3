"""Metrics: counted by outcome, in bounded labels, on both sides of the waist."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Unary
from a2a_bridge.middleware.metrics import Gather, Metrics, merge
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.middleware.scene import TASK, ask, get, send, subscribe
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
        operation = Unary(f"Extension{number}", hub.GetTaskRequest, hub.Task)
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


def test_metrics_of_one_name_become_one() -> None:
    first = GaugeMetricFamily("a", "A.", labels=("agent",))
    first.add_metric(("x",), 1)
    second = GaugeMetricFamily("a", "A.", labels=("agent",))
    second.add_metric(("y",), 2)
    (found,) = merge([first, second])
    assert [(one.labels, one.value) for one in found.samples] == [({"agent": "x"}, 1), ({"agent": "y"}, 2)]
