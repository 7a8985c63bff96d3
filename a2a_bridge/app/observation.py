"""What is watched of a server: its middleware for metrics and traces, and that of its client sides.

Rules:
1. What is not asked for is not in the way: without metrics and traces there is no middleware for them.
2. Client sides are watched where they reach the network, so that each attempt counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate
from a2a_bridge.core.service import Middleware, Service, compose
from a2a_bridge.gateway import Dial
from a2a_bridge.middleware.metrics import Metrics
from a2a_bridge.middleware.tracing import TRACE_PARAMETERS, Tracing, client_spans, server_spans, tracer_of


def add_metrics(options: ServeOptions) -> ServeOptions:
    """Options with the metrics that their `admin` asks for."""
    if options.admin is None or options.metrics is not None:
        return options
    return replace(options, metrics=Metrics())


def server_middleware(options: ServeOptions, agent: str) -> tuple[Middleware, ...]:
    """The middleware around all other of a served agent. agent: its name."""
    tracer = tracer_of(options.tracing)
    found = () if tracer is None else (server_spans(tracer),)
    return found if options.metrics is None else (*found, options.metrics.server_middleware(agent))


def observe_dial(dial: Dial, tracing: Tracing, metrics: Metrics | None = None, agent: str = "") -> Dial:
    """Dials like `dial`, with metrics and traces of each call. agent: the name of the dialled agent."""
    tracer = tracer_of(tracing)
    if tracer is None and metrics is None:
        return dial

    @asynccontextmanager
    async def dial_observed(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        binding, version = candidate.interface.protocol_binding, candidate.dialect.version
        around: list[Middleware] = []
        if tracer is not None:
            # Also where an application forwards nothing of its callers: the span is not theirs.
            options = replace(options, forward=options.forward | TRACE_PARAMETERS)
            around.append(client_spans(tracer, binding, version, candidate.interface.url))
        if metrics is not None:
            around.append(metrics.client_middleware(agent, binding, version))
        async with dial(candidate, options) as service:
            yield compose(service, *around)

    return dial_observed
