"""Spans: one per call and side, in the trace of the caller, ended once whatever happens."""

import asyncio
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from a2a_bridge.core.call import Call, CallContext, Origin
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service, compose
from a2a_bridge.middleware import deadline
from a2a_bridge.middleware.tracing import client_spans, delivery_spans, server_spans, tracer_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from tests.architecture.repository import ROOT
from tests.middleware.observed import BOTH, observing
from tests.middleware.scene import TASK, ask, get, send, subscribe
from tests.middleware.test_access_log import working
from tests.patience import PATIENCE

CONTEXT = CallContext(origin=Origin("JSONRPC", "0.3", "10.0.0.1"))
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Counted(SpanProcessor):
    """Counts what begins and ends: an exporter would not show a span that never ends."""

    def __init__(self) -> None:
        self.started = self.ended = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class Traces:
    """A provider, with what it has exported."""

    def __init__(self) -> None:
        self.exporter, self.count = InMemorySpanExporter(), Counted()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.count)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        tracer = tracer_of(self.provider)
        assert tracer is not None
        self.tracer = tracer

    def serving(self, service: Service) -> Service:
        return server_spans(self.tracer)(service)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """All spans. Fails when one has not ended, or has ended twice."""
        found = self.exporter.get_finished_spans()
        assert self.count.started == self.count.ended == len(found)
        return found

    @property
    def only(self) -> ReadableSpan:
        (span,) = self.spans
        return span


@pytest.fixture
def traces() -> Traces:
    return Traces()


def code(span: ReadableSpan) -> Any:
    return (span.attributes or {})["a2a.code"]


OUTCOMES: list[tuple[Any, str, StatusCode, StatusCode]] = [
    (TASK, "OK", StatusCode.UNSET, StatusCode.UNSET),
    (A2AError(Reason.TASK_NOT_FOUND), "TASK_NOT_FOUND", StatusCode.UNSET, StatusCode.ERROR),
    (A2AError(Reason.UNAVAILABLE), "UNAVAILABLE", StatusCode.ERROR, StatusCode.ERROR),
    (RuntimeError("a secret"), "INTERNAL_ERROR", StatusCode.ERROR, StatusCode.ERROR),
]


@pytest.mark.parametrize(("answer", "ending", "served", "called"), OUTCOMES)
async def test_a_call_is_a_span(
    traces: Traces, answer: Any, ending: str, served: StatusCode, called: StatusCode
) -> None:
    probe = Probe()
    probe.on_unary = answering(answer)
    client = client_spans(
        traces.tracer, "GRPC", "1.0", "grpc://user:secret@agent.example:50051/path?key=secret"
    )
    for service in (traces.serving(probe), client(probe)):
        await asyncio.gather(ask(service, get(CONTEXT)), return_exceptions=True)
    server_span, client_span = traces.spans
    assert (server_span.kind, client_span.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert (code(server_span), code(client_span)) == (ending, ending)
    assert (server_span.status.status_code, client_span.status.status_code) == (served, called)
    assert server_span.name == "lf.a2a.v1.A2AService/GetTask"
    common = {
        "rpc.service": "lf.a2a.v1.A2AService",
        "rpc.method": "GetTask",
        "a2a.task_id": "t-1",
        "a2a.code": ending,
    } | ({"error.type": ending} if ending != "OK" else {})
    assert server_span.attributes == {
        **common,
        "rpc.system": "jsonrpc",
        "a2a.binding": "JSONRPC",
        "a2a.version": "0.3",
    }
    assert client_span.attributes == {
        **common,
        "rpc.system": "grpc",
        "a2a.binding": "GRPC",
        "a2a.version": "1.0",
        "server.address": "agent.example",
        "server.port": 50051,
    }
    assert "secret" not in "".join(span.to_json() for span in traces.spans)


def called_with(parameters: dict[str, str], metadata: dict[str, str] | None = None) -> Call[Any, Any]:
    call = send(replace(CONTEXT, parameters=parameters))
    for name, text in (metadata or {}).items():
        call.request.message.metadata.fields[name].string_value = text
    return call


GIVEN = [
    ({"traceparent": TRACEPARENT}, None),
    ({}, {"traceparent": TRACEPARENT}),
    ({"traceparent": "no such thing"}, {"traceparent": TRACEPARENT}),
    ({"traceparent": TRACEPARENT}, {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}),
]


@pytest.mark.parametrize(("parameters", "metadata"), GIVEN)
async def test_the_trace_of_the_caller_goes_on(
    traces: Traces, parameters: dict[str, str], metadata: dict[str, str] | None
) -> None:
    probe = Probe()
    service = traces.serving(client_spans(traces.tracer, "GRPC", "1.0", "agent.example:1")(probe))
    state = (
        {"tracestate": "vendor=1"}
        if "traceparent" in parameters and "no" not in parameters["traceparent"]
        else {}
    )
    await ask(service, called_with({**parameters, **state, "authorization": "x"}, metadata))
    inner, outer = traces.spans
    assert outer.parent is not None
    assert (f"{outer.context.trace_id:032x}", f"{outer.parent.span_id:016x}") == (TRACE, PARENT)
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id
    # The next side sees the span of this one.
    sent = probe.last.context.parameters
    assert sent["traceparent"] == f"00-{TRACE}-{inner.context.span_id:016x}-01"
    assert (sent.get("tracestate"), sent["authorization"]) == (state.get("tracestate"), "x")


@pytest.mark.parametrize("given", ["", "00-zz-1-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 5000])
async def test_a_trace_context_that_is_none_begins_a_trace(traces: Traces, given: str) -> None:
    await ask(traces.serving(Probe()), called_with({"traceparent": given}, {"traceparent": given}))
    assert traces.only.parent is None


async def test_a_span_of_the_process_is_the_parent(traces: Traces) -> None:
    """An instrumented ASGI server has continued the trace of the caller already; or there is no caller."""
    probe = Probe()
    for parameters in ({}, {"traceparent": TRACEPARENT}):
        traces.exporter.clear()
        traces.count.started = traces.count.ended = 0
        outer = trace.set_span_in_context(
            trace.NonRecordingSpan(
                trace.SpanContext(int(TRACE, 16), int(PARENT, 16), True, trace.TraceFlags(1))
            )
        )
        with traces.tracer.start_as_current_span("http", outer):
            await ask(traces.serving(probe), called_with(parameters))
        ours, http = traces.spans
        assert ours.parent is not None
        assert ours.parent.span_id == http.context.span_id


async def test_what_is_not_sampled_stays_so_and_a_span_that_has_ended_is_no_parent(traces: Traces) -> None:
    probe = Probe()
    unsampled = trace.SpanContext(int(TRACE, 16), int(PARENT, 16), False, trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(unsampled)):
        for service in (traces.serving(probe), client_spans(traces.tracer, "GRPC", "1.0", "a:1")(probe)):
            await ask(service, called_with({}))
            assert probe.last.context.parameters["traceparent"].startswith(f"00-{TRACE}-")
            assert probe.last.context.parameters["traceparent"].endswith("-00")
    assert traces.spans == ()
    with traces.tracer.start_as_current_span("start of the server", end_on_exit=False) as start:
        start.end()
        await ask(traces.serving(probe), called_with({}))
        await ask(traces.serving(probe), Call(get().operation, get().request, CallContext()))
    _, alone, inside = traces.spans
    assert alone.parent is None
    assert inside.parent is not None


async def test_the_span_is_current_for_the_agent_and_not_for_the_reader(traces: Traces) -> None:
    probe = Probe()
    seen: list[int] = []

    async def note(_call: Any) -> Any:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return TASK

    async def noted(_call: Any) -> Any:
        for _ in range(2):
            await note(_call)
            yield working()

    probe.on_unary, probe.on_stream = note, noted
    service = traces.serving(probe)
    await ask(service, get(CONTEXT))
    async with aclosing(service.stream(subscribe(CONTEXT))) as events:
        async for _ in events:
            assert not trace.get_current_span().get_span_context().is_valid
    unary, stream = traces.spans
    assert seen == [unary.context.span_id, stream.context.span_id, stream.context.span_id]


async def test_every_end_of_a_call_ends_its_span_once(traces: Traces) -> None:
    probe = Probe()
    service = traces.serving(compose(probe, deadline()))
    # Cancelled.
    probe.on_unary, probe.on_stream = waiting, holding(working())
    for call in (get(CONTEXT), subscribe(CONTEXT)):
        running = asyncio.create_task(ask(service, call))
        await probe.wait_running(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # Left by its reader: early, and after the end of the task.
    for state in (hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED):
        probe.on_stream = holding(working(state))
        events = service.stream(subscribe(CONTEXT))
        await anext(events)
        await events.aclose()
        await events.aclose()
    # Never read.
    await service.stream(subscribe(CONTEXT)).aclose()
    # Timed out.
    late = replace(CONTEXT, deadline=0.0)
    for call in (get(late), subscribe(late)):
        with pytest.raises(A2AError):
            await ask(service, call)
    # Rejected, and broken in the middle.
    for failure in ([A2AError(Reason.TASK_NOT_FOUND)], [working(), A2AError(Reason.UNAVAILABLE)]):
        probe.on_stream = yielding(*failure)
        with pytest.raises(A2AError):
            await ask(service, subscribe(CONTEXT))
    # Resumed: a call of its own.
    probe.on_stream = yielding(working(hub.TASK_STATE_COMPLETED))
    resumed = replace(CONTEXT, parameters={"last-event-id": "3", "traceparent": TRACEPARENT})
    await ask(service, subscribe(resumed))
    assert [code(span) for span in traces.spans] == [
        "CANCELLED",
        "CANCELLED",
        "CANCELLED",
        "OK",
        "DEADLINE_EXCEEDED",
        "DEADLINE_EXCEEDED",
        "TASK_NOT_FOUND",
        "UNAVAILABLE",
        "OK",
    ]
    assert f"{traces.spans[-1].context.trace_id:032x}" == TRACE


@pytest.mark.process
def test_what_is_off_is_not_there() -> None:
    """In a process of its own: other tests load OpenTelemetry and prometheus-client."""
    code_ = (
        "import sys\n"
        "from a2a_bridge.app import runtime\n"
        "from tests.middleware.observed import BOTH, observing\n"
        "assert observing('auto') == []\n"
        "loaded = [name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))]\n"
        "assert not loaded, loaded\n"
        "import opentelemetry.trace\n"
        "assert observing('auto') == []\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "opentelemetry.trace.set_tracer_provider(TracerProvider())\n"
        "assert observing('auto') == BOTH\n"
        "assert observing('off') == []\n"
    )
    subprocess.run([sys.executable, "-c", code_], cwd=ROOT, check=True, timeout=PATIENCE)


def test_a_provider_in_the_options_is_used(traces: Traces) -> None:
    assert observing(traces.provider) == BOTH


async def test_a_delivery_names_the_message_that_caused_it(traces: Traces) -> None:
    probe = Probe()
    task = hub.Task(id="of this message", context_id="c")
    probe.on_unary = answering(hub.SendMessageResponse(task=task))
    await ask(traces.serving(probe), send(CONTEXT))
    deliver = delivery_spans(traces.provider)
    with deliver("https://hook.example:8443", task.id) as headers:
        pass
    with pytest.raises(A2AError), deliver("https://hook.example", "unknown") as others:
        raise A2AError(Reason.UNAVAILABLE)
    sent, delivered, failed = traces.spans
    assert delivered.kind is SpanKind.CLIENT
    assert [link.context.span_id for link in delivered.links] == [sent.context.span_id]
    assert delivered.parent is None
    _, trace_id, span_id, _ = headers["traceparent"].split("-")
    assert (int(trace_id, 16), int(span_id, 16)) == (delivered.context.trace_id, delivered.context.span_id)
    assert delivered.attributes is not None
    assert delivered.attributes["server.address"] == "hook.example"
    assert not failed.links
    assert failed.status.status_code is StatusCode.ERROR
    assert others["traceparent"] != headers["traceparent"]
    assert delivery_spans("off")("https://hook.example", task.id).__enter__() == {}
