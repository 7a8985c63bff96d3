"""One log line per call: where it came in, what it was, how it ended, how long it took. No content, ever."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import perf_counter
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service

_log = logging.getLogger("a2a_bridge.access")


def access_log(clock: Callable[[], float] = perf_counter) -> Middleware:
    """Middleware that logs to `a2a_bridge.access` at INFO. It costs one check while that level is off.

    clock: gives seconds and never goes back.
    """

    def wrap(service: Service) -> Service:
        return _AccessLog(service, clock)

    return wrap


class _AccessLog:
    def __init__(self, service: Service, clock: Callable[[], float]) -> None:
        self._service = service
        self._clock = clock

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if not _log.isEnabledFor(logging.INFO):
            return await self._service.unary(call)
        began = self._clock()
        outcome = "cancelled"
        try:
            response = await self._service.unary(call)
            outcome = "ok"
        except A2AError as error:
            outcome = error.name
            raise
        except Exception:
            outcome = "crash"
            raise
        finally:
            self._write(call, outcome, began)
        return response

    def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        if not _log.isEnabledFor(logging.INFO):
            return self._service.stream(call)
        return self._logged(call)

    async def _logged(self, call: Call[Req, Res]) -> AsyncGenerator[Res, None]:
        began = self._clock()
        outcome, count = "closed by the caller", 0
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    count += 1
                    yield event
            outcome = "ok"
        except A2AError as error:
            outcome = error.name
            raise
        finally:
            self._write(call, f"{outcome} after {count} events", began)

    def _write(self, call: Call[Any, Any], outcome: str, began: float) -> None:
        origin = call.context.origin
        cell = f"{origin.binding} {origin.version}".strip() or "in-process"
        milliseconds = (self._clock() - began) * 1000
        _log.info("%s %s %s %.1f ms", cell, call.operation.name, outcome, milliseconds)
