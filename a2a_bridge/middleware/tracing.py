"""Whether calls are traced, and the provider of the tracer. Only the API of OpenTelemetry is used, and it is
loaded only where something is traced. Without a provider there is no middleware. The spans are in `spans`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from a2a_bridge.core.extras import DISTRIBUTION, load
from a2a_bridge.core.service import Middleware

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

    #: "auto": with the provider that the application has configured, if any; "off"; or a provider
    Tracing = Literal["auto", "off"] | TracerProvider
else:
    Tracing = Any

#: the parameters of the W3C context
TRACE_PARAMETERS = frozenset({"traceparent", "tracestate"})


def tracer_of(tracing: Tracing) -> Tracer | None:
    """The tracer of a setting; None: no traces. Raises MissingExtraError without OpenTelemetry's API."""
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
    from a2a_bridge.middleware.spans import Traced  # loads OpenTelemetry

    return lambda service: Traced(service, tracer)


def delivery_spans(tracing: Tracing) -> Callable[[str, str], AbstractContextManager[Mapping[str, str]]]:
    """A CLIENT span for each attempt to deliver a push notification; see `DeliveryWorker`."""
    tracer = tracer_of(tracing)
    if tracer is None:
        return lambda _target, _task_id: nullcontext({})
    from a2a_bridge.middleware.spans import delivery  # loads OpenTelemetry

    return partial(delivery, tracer)


def client_spans(tracer: Tracer, binding: str, version: str, url: str) -> Middleware:
    """Middleware for a client side; its binding sends `traceparent` and `tracestate`. url: of the agent;
    spans have only its host and port.
    """
    from a2a_bridge.middleware.spans import Traced, client_attributes  # loads OpenTelemetry

    attributes = client_attributes(binding, version, url)
    return lambda service: Traced(service, tracer, attributes)
