"""Ends calls at their deadline, which callers and bindings set."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from time import monotonic
from typing import Any

from a2a_bridge.bindings.bounded import bound_result, bound_stream
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Middleware, Service


def deadline() -> Middleware:
    """Middleware that raises DEADLINE_EXCEEDED at `context.deadline` and stops the work below.

    The deadline of a stream is for the whole stream. A task of a hosted agent continues; only the call ends.
    """
    return _Deadline


class _Deadline:
    def __init__(self, service: Service) -> None:
        self._service = service

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        limit = call.context.deadline
        return self._service.unary(call) if limit is None else self._bound(call, limit)

    async def _bound(self, call: Call[Req, Res], limit: float) -> Res:
        bound = _until(limit)
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
