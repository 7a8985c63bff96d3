"""Bounds what one caller can have running at once, and how large a message may be in parts. Not rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.pb import lf_a2a_v1 as hub


def limits(*, calls: int = 0, streams: int = 0, parts: int = 0) -> Middleware:
    """Middleware that raises RESOURCE_EXHAUSTED beyond `calls` or `streams` at once per principal, and
    INVALID_PARAMS for a message of more than `parts` parts. 0 sets no limit. Callers without a principal
    share one allowance.
    """

    def wrap(service: Service) -> Service:
        return _Limits(service, calls, streams, parts)

    return wrap


class _Limits:
    def __init__(self, service: Service, calls: int, streams: int, parts: int) -> None:
        self._service = service
        self._calls = _Allowance(calls, "calls")
        self._streams = _Allowance(streams, "streams")
        self._parts = parts

    async def unary(self, call: Call[Req, Res], /) -> Res:
        self._check_parts(call.request)
        with self._calls.taken(call):
            return await self._service.unary(call)

    async def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        self._check_parts(call.request)
        with self._streams.taken(call):
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    yield event

    def _check_parts(self, request: object) -> None:
        if self._parts and isinstance(request, hub.SendMessageRequest):
            count = len(request.message.parts)
            if count > self._parts:
                raise invalid_params("message.parts", f"{count} parts; at most {self._parts} are taken")


class _Allowance:
    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._running: Counter[str] = Counter()

    @contextmanager
    def taken(self, call: Call[Any, Any]) -> Iterator[None]:
        if not self._limit:
            yield
            return
        principal = call.context.principal
        name = principal.name if principal is not None else ""
        if self._running[name] >= self._limit:
            text = f"more than {self._limit} {self._what} at once"
            raise A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)
        self._running[name] += 1
        try:
            yield
        finally:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]
