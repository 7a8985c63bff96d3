"""Traces with OpenTelemetry: a SERVER span for each call that is answered, a CLIENT span for each made.

Rules:
1. Only the API of OpenTelemetry is used. Without a configured provider there is no middleware at all.
2. The parent is the W3C context (`traceparent`, `tracestate`) in the parameters of the call, else in the
   metadata of its message, else the current span. The parameters that go on name the new span.
3. A span ends once: with the answer, with the error, or when the reader of the stream closes it.
4. Spans have codes and names, and the id of the task: no content, no text of an error, no principal, no path.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.extras import DISTRIBUTION, load
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.middleware.outcome import LONGEST, OK, asked_task, code_of, seen_task
from a2a_bridge.pb import lf_a2a_v1 as hub

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    #: "auto": with the provider that the application has configured, if any; "off"; or a provider
    Tracing = Literal["auto", "off"] | TracerProvider
else:
    Tracing = Any

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
SERVICE = "lf.a2a.v1.A2AService"
#: values of rpc.system by binding; all others are "a2a"
_SYSTEMS = {"GRPC": "grpc", "JSONRPC": "jsonrpc"}
#: codes that are no fault of the caller
_FAULTS = frozenset(
    reason.name
    for reason in (
        Reason.DATA_LOSS,
        Reason.DEADLINE_EXCEEDED,
        Reason.INTERNAL_ERROR,
        Reason.INVALID_AGENT_RESPONSE,
        Reason.UNAVAILABLE,
    )
)


def tracer_of(tracing: Tracing) -> Tracer | None:
    """The tracer of a setting; None if nothing is traced. Raises MissingExtraError for a provider without the
    API of OpenTelemetry.
    """
    if tracing == "off":
        return None
    provider: Any = tracing
    if tracing == "auto":
        # Without the API in this process nobody has configured a provider.
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None:
            return None
        provider = trace.get_tracer_provider()
        if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
            return None
    else:
        load("opentelemetry.trace", "tracing")
    tracer: Tracer = provider.get_tracer("a2a_bridge", version(DISTRIBUTION))
    return tracer


def server_spans(tracer: Tracer) -> Middleware:
    """Middleware for the service of a server, outside of all other middleware."""

    def wrap(service: Service) -> Service:
        return _Traced(service, tracer, None)

    return wrap


def client_spans(tracer: Tracer, binding: str, version: str, url: str) -> Middleware:
    """Middleware for a client side, whose binding sends the parameters `traceparent` and `tracestate`.

    url: of the agent; spans have only its host and port.
    """
    parts = urlsplit(url if "://" in url else f"//{url}")
    attributes: dict[str, Any] = {"a2a.binding": binding, "a2a.version": version}
    if parts.hostname:
        attributes["server.address"] = parts.hostname
    if parts.port:
        attributes["server.port"] = parts.port

    def wrap(service: Service) -> Service:
        return _Traced(service, tracer, attributes)

    return wrap


class _Traced:
    """client: the attributes of a client side; None for a server."""

    def __init__(self, service: Service, tracer: Tracer, client: Mapping[str, Any] | None) -> None:
        self._service = service
        self._tracer = tracer
        self._client = client

    async def unary(self, call: Call[Req, Res], /) -> Res:
        from opentelemetry.context import attach, detach

        span = _Span(self._tracer, call, self._client)
        error: BaseException | None = None
        token = attach(span.context)
        try:
            response: Res = await self._service.unary(span.call)
            span.saw(response)
        except BaseException as raised:
            error = raised
            raise
        finally:
            detach(token)
            span.end(code_of(error))
        return response

    async def stream(self, call: Call[Req, Res], /) -> Events:
        from opentelemetry.context import attach, detach

        span = _Span(self._tracer, call, self._client)
        error: BaseException | None = None
        last: Event | None = None
        count = 0
        events = self._service.stream(span.call)
        try:
            # The span is current while the service works, and not while the reader does.
            while True:
                token = attach(span.context)
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    break
                finally:
                    detach(token)
                last = event
                if not count:
                    span.saw(event.message)
                count += 1
                yield event
        except BaseException as raised:
            error = raised
            raise
        finally:
            token = attach(span.context)
            try:
                await events.aclose()
            finally:
                detach(token)
                span.end(code_of(error, last), count)


class _Span:
    """The span of one call. call: with the context of the span in its parameters."""

    def __init__(self, tracer: Tracer, call: Call[Any, Any], client: Mapping[str, Any] | None) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        operation, origin = call.operation.name, call.context.origin
        if client is None:
            attributes: dict[str, Any] = {
                "a2a.binding": origin.binding or "in-process",
                "a2a.version": origin.version,
            }
        else:
            attributes = dict(client)
        attributes["rpc.system"] = _SYSTEMS.get(attributes["a2a.binding"], "a2a")
        attributes["rpc.service"] = SERVICE
        attributes["rpc.method"] = operation
        task_id = asked_task(call.request)
        if task_id:
            attributes["a2a.task_id"] = task_id[:LONGEST]
        parent = _parent(call, is_server=client is None)
        kind = SpanKind.SERVER if client is None else SpanKind.CLIENT
        self._is_server = client is None
        self._span: Span = tracer.start_span(f"{SERVICE}/{operation}", parent, kind, attributes)
        self.context: Context = set_span_in_context(self._span, parent)
        parameters = dict(call.context.parameters)
        parameters.pop(TRACESTATE, None)
        TraceContextTextMapPropagator().inject(parameters, self.context)
        self.call = Call(call.operation, call.request, call.context.replace(parameters=parameters))

    def saw(self, response: object) -> None:
        """Notes the task of a response."""
        found = seen_task(response)
        if found is not None and found[0] and self._span.is_recording():
            self._span.set_attribute("a2a.task_id", found[0][:LONGEST])

    def end(self, code: str, events: int | None = None) -> None:
        """Ends the span. events: of a stream."""
        from opentelemetry.trace import StatusCode

        span = self._span
        if span.is_recording():
            span.set_attribute("a2a.code", code)
            if events is not None:
                span.set_attribute("a2a.events", events)
            if code != OK:
                span.set_attribute("error.type", code)
                if code in _FAULTS or not (self._is_server or code == Reason.CANCELLED.name):
                    span.set_status(StatusCode.ERROR)
        span.end()


def _parent(call: Call[Any, Any], *, is_server: bool) -> Context:
    """The context in which the span of a call begins."""
    from opentelemetry.context import get_current
    from opentelemetry.trace import get_current_span

    here = get_current()
    span = get_current_span()
    current = span.get_span_context()
    # A server may have been started inside of a span, which has ended since. One that is not sampled never
    # records.
    is_own = not is_server or not call.context.origin.binding
    is_open = current.is_valid and (is_own or span.is_recording() or not current.trace_flags.sampled)
    given = _given(call)
    if given is None:
        return here if is_open else type(here)()
    # The caller's trace has come here already, in an instrumented ASGI server or in an agent that calls on.
    same = current.trace_id == get_current_span(given).get_span_context().trace_id
    return here if is_open and same else given


def _given(call: Call[Any, Any]) -> Context | None:
    """The context that came with a call; None without a valid one."""
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    for carrier in (call.context.parameters, _metadata(call.request)):
        if carrier and carrier.get(TRACEPARENT):
            found = TraceContextTextMapPropagator().extract(
                {name: text for name in (TRACEPARENT, TRACESTATE) if (text := carrier.get(name))}, Context()
            )
            if get_current_span(found).get_span_context().is_valid:
                return found
    return None


def _metadata(request: object) -> Mapping[str, str]:
    """The trace context in the metadata of a message."""
    if not isinstance(request, hub.SendMessageRequest) or not request.message.HasField("metadata"):
        return {}
    fields = request.message.metadata.fields
    return {name: fields[name].string_value for name in (TRACEPARENT, TRACESTATE) if name in fields}
