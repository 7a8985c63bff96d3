"""Limits the concurrent calls and streams of one principal, the parts of a message, and the time of a call.
No rates, no bytes.

Rules:
1. Too many calls are RESOURCE_EXHAUSTED with a retry time; too many parts are INVALID_PARAMS
   naming the member.
2. Callers are counted by principal, in this process. Callers without a principal share one allowance:
   addresses are unreliable behind proxies, and a caller with many addresses would have many allowances.
3. A call ends at its deadline, which callers and bindings set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from time import monotonic
from typing import Any

from a2a_bridge.bindings.bounded import bound_result, bound_stream
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.option_classes import Limits
from a2a_bridge.core.service import Events, HandedOver, Middleware, Service, innermost, reject_stream
from a2a_bridge.pb import lf_a2a_v1 as hub

#: retry time in seconds; the end of the running calls is not known
RETRY_AFTER = 1.0


class LiveLimits:
    """Limits that can change while a server runs. Running calls and streams go on, and count."""

    def __init__(self, current: Limits) -> None:
        self._current = current
        self._services: list[_Limits] = []

    def change(self, new: Limits) -> None:
        self._current = new
        for service in self._services:
            service.set(new)

    def wrap(self, service: Service) -> Service:
        """A service with these limits; a middleware."""
        made = _Limits(service, self._current)
        self._services.append(made)
        return made


def limits(*, calls: int = 0, streams: int = 0, parts: int = 0) -> Middleware:
    """Middleware with these limits. It belongs inside of the middleware that authenticates the principal."""
    return LiveLimits(Limits(calls, streams, parts)).wrap


class _Limits:
    def __init__(self, service: Service, limits: Limits) -> None:
        self._service = service
        self._calls = _Allowance("calls")
        self._streams = _Allowance("streams")
        self.set(limits)

    def set(self, limits: Limits) -> None:
        self._calls.limit, self._streams.limit, self._parts = limits.calls, limits.streams, limits.parts

    async def unary(self, call: Call[Req, Res], /) -> Res:
        request: Any = call.request
        if type(request) is hub.SendMessageRequest and len(request.message.parts) > self._parts > 0:
            self._check(request)
        calls = self._calls
        name = calls.take(call)
        try:
            return await self._service.unary(call)
        finally:
            calls.give_back(name)

    def stream(self, call: Call[Req, Res], /) -> Events:
        try:
            self._check(call.request)
            name = self._streams.take(call)
        except A2AError as error:
            return reject_stream(error)
        return _Counted(self._service.stream(call), self._streams, name)

    def _check(self, request: object) -> None:
        if self._parts and isinstance(request, hub.SendMessageRequest):
            count = len(request.message.parts)
            if count > self._parts:
                raise invalid_params("message.parts", f"{count} parts; at most {self._parts} are taken")


class _Allowance:
    """The running calls of each principal, up to a limit."""

    __slots__ = ("_running", "_what", "limit")

    def __init__(self, what: str) -> None:
        #: 0: none
        self.limit = 0
        self._what = what
        self._running: dict[str, int] = {}

    def take(self, call: Call[Any, Any]) -> str:
        """Counts a call and returns the name for `give_back`. Raises RESOURCE_EXHAUSTED."""
        principal = call.context.principal
        name = principal.name if principal is not None else ""
        running = self._running.get(name, 0)
        if running >= self.limit > 0:
            text = f"more than {self.limit} {self._what} at once"
            raise A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=RETRY_AFTER)
        self._running[name] = running + 1
        return name

    def give_back(self, name: str) -> None:
        left = self._running[name] - 1
        if left:
            self._running[name] = left
        else:
            del self._running[name]


class _Counted(Events):
    """A stream that is counted until it is closed. It passes events without a frame of its own."""

    def __init__(self, events: Events, allowance: _Allowance, name: str) -> None:
        self._events = events
        self._allowance: _Allowance | None = allowance
        self._name = name

    def __anext__(self) -> Any:
        events = self._events
        if type(events) is HandedOver:
            events = self._events = innermost(events)
        return events.__anext__()

    def asend(self, value: None, /) -> Any:
        return self._events.asend(value)

    def athrow(self, *arguments: Any) -> Any:
        return self._events.athrow(*arguments)

    async def aclose(self) -> None:
        try:
            await self._events.aclose()
        finally:
            self._give_back()

    def __del__(self) -> None:
        # A reader closes its stream; a stream that was never read may be dropped without that.
        self._give_back()

    def _give_back(self) -> None:
        allowance, self._allowance = self._allowance, None
        if allowance is not None:
            allowance.give_back(self._name)


def deadline() -> Middleware:
    """Middleware that raises DEADLINE_EXCEEDED at `context.deadline`, for a whole stream, and stops the work
    below. A task of a hosted agent continues; only the call ends.
    """
    return _Deadline


class _Deadline:
    def __init__(self, service: Service) -> None:
        self._service = service

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        limit = call.context.deadline
        return self._service.unary(call) if limit is None else self._bound(call, limit)

    async def _bound(self, call: Call[Req, Res], limit: float) -> Res:
        bound = _until(limit)  # before the call begins
        return await bound_result(self._service.unary(call), bound, _exceeded_error)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.context.deadline is None:
            return self._service.stream(call)
        return bound_stream(
            self._service.stream(call), partial(_until, call.context.deadline), _exceeded_error
        )


def _until(limit: float) -> asyncio.Timeout:
    """A timeout at the deadline. Raises DEADLINE_EXCEEDED after it, so that no work starts in vain."""
    left = limit - monotonic()
    if left <= 0:
        raise _exceeded_error()
    return asyncio.timeout(left)


def _exceeded_error(_: BaseException | None = None) -> A2AError:
    return A2AError(Reason.DEADLINE_EXCEEDED)
