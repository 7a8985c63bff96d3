"""Spans of calls: one SERVER span for each call that is answered, one CLIENT span for each call that is made.

Rules:
1. This module needs the API of OpenTelemetry; `tracing` loads it where something is traced.
2. The parent is the W3C context (`traceparent`, `tracestate`) in the parameters of the call, else in the
   metadata of its message, else the current span. The parameters that go on name the new span.
3. A span ends once: with the response, with the error, or when the reader of the stream closes it.
4. A push notification is delivered after the call that caused it, perhaps by another process: its span has a
   trace of its own, which names the last message to the task that this process has taken.
5. Spans have codes and names, and the id of the task: no content, no text of an error, no principal, no path.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from cachetools import LRUCache
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from a2a_bridge.bindings.places import place_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.messages import read_task_id
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.middleware.logging import LONGEST, OK, code_of, find_task
from a2a_bridge.pb import lf_a2a_v1 as hub

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
SERVICE = "lf.a2a.v1.A2AService"
#: the spans of the last messages to tasks, without the state of the trace; by task, if its id is not too long
_messages: LRUCache[str, SpanContext] = LRUCache(10_000)
_LONGEST_ID = 1024
_PROPAGATOR = TraceContextTextMapPropagator()
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


def client_attributes(binding: str, version: str, url: str) -> dict[str, Any]:
    """The attributes of all spans of a client side."""
    attributes = _attributes(binding, version)
    place = place_of(url)
    if place is not None:
        attributes |= {"server.address": place.host, "server.port": place.port}
    return attributes


def _attributes(binding: str, version: str) -> dict[str, Any]:
    return {
        "a2a.binding": binding,
        "a2a.version": version,
        "rpc.system": _SYSTEMS.get(binding, "a2a"),
        "rpc.service": SERVICE,
    }


class Traced:
    """A service with spans. client: the attributes of a client side; None for a server."""

    def __init__(self, service: Service, tracer: Tracer, client: Mapping[str, Any] | None = None) -> None:
        self._service = service
        self._tracer = tracer
        self._client = client

    async def unary(self, call: Call[Req, Res], /) -> Res:
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
        operation, origin = call.operation.name, call.context.origin
        if client is None:
            attributes = _attributes(origin.binding or "in-process", origin.version)
        else:
            attributes = dict(client)
        attributes["rpc.method"] = operation
        task_id = read_task_id(call.request)
        if task_id:
            attributes["a2a.task_id"] = task_id[:LONGEST]
        parent = _parent(call, is_server=client is None)
        kind = SpanKind.SERVER if client is None else SpanKind.CLIENT
        self._is_server = client is None
        self._sends = self._is_server and isinstance(call.request, hub.SendMessageRequest)
        self._span = tracer.start_span(f"{SERVICE}/{operation}", parent, kind, attributes)
        self.context = set_span_in_context(self._span, parent)
        parameters = dict(call.context.parameters)
        parameters.pop(TRACESTATE, None)
        _PROPAGATOR.inject(parameters, self.context)
        self.call = Call(call.operation, call.request, call.context.replace(parameters=parameters))

    def saw(self, response: object) -> None:
        """Notes the task of a response."""
        found = find_task(response)
        if found is not None and found[0] and self._span.is_recording():
            self._span.set_attribute("a2a.task_id", found[0][:LONGEST])
            if self._sends and len(found[0]) <= _LONGEST_ID:
                own = self._span.get_span_context()
                _messages[found[0]] = SpanContext(own.trace_id, own.span_id, own.is_remote, own.trace_flags)

    def end(self, code: str, events: int | None = None) -> None:
        """Ends the span. events: of a stream."""
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


@contextmanager
def delivery(tracer: Tracer, target: str, task_id: str) -> Iterator[Mapping[str, str]]:
    """The span of one attempt to deliver a notification, and the headers that name it. target: `https://host:port`."""
    parts = urlsplit(target)
    attributes: dict[str, Any] = {"a2a.task_id": task_id[:LONGEST], "server.address": parts.hostname or ""}
    if parts.port:
        attributes["server.port"] = parts.port
    caused = _messages.get(task_id)
    links = () if caused is None else (Link(caused),)
    span = tracer.start_span("push notification", Context(), SpanKind.CLIENT, attributes, links)
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, set_span_in_context(span, Context()))
    try:
        yield headers
    except BaseException as error:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(StatusCode.ERROR)
        raise
    finally:
        span.end()


def _parent(call: Call[Any, Any], *, is_server: bool) -> Context:
    """The context in which the span of a call begins."""
    here = get_current()
    span = get_current_span()
    current = span.get_span_context()
    # A server may have begun in a span that has ended since. A span that is not sampled never records.
    is_own = not is_server or not call.context.origin.binding
    is_open = current.is_valid and (is_own or span.is_recording() or not current.trace_flags.sampled)
    given = _extract(call)
    if given is None:
        return here if is_open else Context()
    # The caller's trace has come here already, in an instrumented ASGI server or in an agent that calls on.
    same = current.trace_id == get_current_span(given).get_span_context().trace_id
    return here if is_open and same else given


def _extract(call: Call[Any, Any]) -> Context | None:
    """The context that came with a call; None without a valid context."""
    for carrier in (call.context.parameters, _metadata(call.request)):
        if carrier and carrier.get(TRACEPARENT):
            found = _PROPAGATOR.extract(
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
