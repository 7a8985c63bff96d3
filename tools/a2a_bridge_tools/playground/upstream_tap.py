"""The traffic of a gateway to its agent that belongs to calls of the playground.

Rules:
1. A call is recognised by the trace id that the page's call began with (W3C Trace Context): every binding
   carries it, and a gateway passes it on. Calls of other callers are not looked at further.
2. Frames have no call. The one that a task reads is in a context variable, set only while the client side
   runs.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, Frame
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge_tools.playground.exchange import Hop
from a2a_bridge_tools.playground.results import Result

#: W3C Trace Context: version, trace id, parent id and flags
TRACE_PARAMETER = "traceparent"
_hop: ContextVar[Hop | None] = ContextVar("hop", default=None)


@dataclass(slots=True)
class Seen:
    """What one call of the page caused at the agent behind the gateway."""

    hop: Hop
    #: the last call
    result: Result | None = None


@dataclass(slots=True)
class UpstreamTap:
    """Listens at the client sides of a gateway."""

    _open: dict[str, Seen] = field(default_factory=dict)

    def tap(self, options: DialOptions) -> DialOptions:
        """The options of a client side that is listened to."""
        return replace(options, frame_observer=_observe, middleware=(*options.middleware, self._around))

    @contextmanager
    def collect(self, trace: str, hop: Hop) -> Iterator[Seen]:
        """Collects the calls with a trace id while the context is open."""
        seen = self._open[trace] = Seen(hop)
        try:
            yield seen
        finally:
            del self._open[trace]

    def _around(self, service: Service) -> Service:
        return _Tapped(service, self._open)


def _observe(frame: Frame) -> None:
    hop = _hop.get()
    if hop is not None:
        hop.frame(frame)


class _Tapped:
    """A client side whose calls are recorded if they belong to the page."""

    def __init__(self, service: Service, seen: dict[str, Seen]) -> None:
        self._service = service
        self._seen = seen

    def _of(self, call: Call[Any, Any]) -> Seen | None:
        if not self._seen:
            return None
        parts = call.context.parameters.get(TRACE_PARAMETER, "").split("-")
        return self._seen.get(parts[1]) if len(parts) > 1 else None

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        seen = self._of(call)
        return self._service.unary(call) if seen is None else self._unary(call, seen)

    async def _unary(self, call: Call[Req, Res], seen: Seen) -> Res:
        result = seen.result = Result(call.operation)
        started, token = monotonic(), _hop.set(seen.hop)
        try:
            response = await self._service.unary(call)
        except A2AError as error:
            result.error = error
            raise
        else:
            result.take(response)
            seen.hop.event(result.events[-1])
            return response
        finally:
            _hop.reset(token)
            seen.hop.end(monotonic() - started, result.state, result.failure)

    def stream(self, call: Call[Req, Res], /) -> Events:
        seen = self._of(call)
        return self._service.stream(call) if seen is None else self._stream(call, seen)

    async def _stream(self, call: Call[Any, Any], seen: Seen) -> Events:
        result = seen.result = Result(call.operation)
        started = monotonic()
        try:
            async with aclosing(self._service.stream(call)) as events:
                while True:
                    token = _hop.set(seen.hop)
                    try:
                        event = await anext(events)
                    except StopAsyncIteration:
                        return
                    finally:
                        _hop.reset(token)
                    result.take(event.message)
                    seen.hop.event(result.events[-1], event)
                    yield event
        except A2AError as error:
            result.error = error
            raise
        finally:
            seen.hop.end(monotonic() - started, result.state, result.failure)
