"""One log line per call: binding and version, operation, task, outcome, duration.

Never content: of callers and agents, only task ids are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from time import perf_counter
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.access")

#: characters of an id that are logged
_LONGEST_ID = 64


def access_log(clock: Callable[[], float] = perf_counter) -> Middleware:
    """Middleware that logs to `a2a_bridge.access` at INFO. Without that level it costs one check.

    clock: monotonic, in seconds.
    """

    def wrap(service: Service) -> Service:
        return _AccessLog(service, clock)

    return wrap


class _AccessLog:
    def __init__(self, service: Service, clock: Callable[[], float]) -> None:
        self._service = service
        self._clock = clock

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        return self._answered(call) if _log.isEnabledFor(logging.INFO) else self._service.unary(call)

    async def _answered(self, call: Call[Req, Res]) -> Res:
        line = _Line(call, self._clock)
        try:
            response = await self._service.unary(call)
            line.outcome = "ok"
            line.saw(response)
        except Exception as error:
            line.failed(error)
            raise
        finally:
            line.write()
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if not _log.isEnabledFor(logging.INFO):
            return self._service.stream(call)
        return self._logged(call)

    async def _logged(self, call: Call[Req, Res]) -> Events:
        line = _Line(call, self._clock)
        count = 0
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    count += 1
                    line.saw(event.message)
                    yield event
            line.outcome = "ok"
        except Exception as error:
            line.failed(error)
            raise
        finally:
            line.write(f" {count} events")


class _Line:
    """The outcome of a call so far. It is cancelled unless an answer or an error comes."""

    __slots__ = ("_began", "_call", "_clock", "_state", "_task_id", "outcome")

    def __init__(self, call: Call[Any, Any], clock: Callable[[], float]) -> None:
        self._call = call
        self._clock = clock
        self._began = clock()
        self._task_id = _asked_about(call.request)
        self._state = hub.TASK_STATE_UNSPECIFIED
        self.outcome = "cancelled"

    def failed(self, error: Exception) -> None:
        self.outcome = error.name if isinstance(error, A2AError) else "crash"

    def saw(self, response: object) -> None:
        """Notes the task of a response and its state."""
        if isinstance(response, (hub.SendMessageResponse, hub.StreamResponse)):
            which = response.WhichOneof("payload")
            response = getattr(response, which) if which is not None else None
        if isinstance(response, hub.Task):
            self._task_id, self._state = response.id, response.status.state
        elif isinstance(response, hub.TaskStatusUpdateEvent):
            self._task_id, self._state = response.task_id, response.status.state

    def write(self, more: str = "") -> None:
        origin = self._call.context.origin
        cell = f"{origin.binding} {origin.version}".strip() or "in-process"
        task = f" task={_printable(self._task_id)}" if self._task_id else ""
        state = f" state={_state_name(self._state)}" if self._state else ""
        milliseconds = (self._clock() - self._began) * 1000
        name = self._call.operation.name
        _log.info("%s %s%s%s %s%s %.1f ms", cell, name, task, state, self.outcome, more, milliseconds)


def _asked_about(request: Any) -> str:
    if isinstance(request, hub.SendMessageRequest):
        return request.message.task_id
    if isinstance(request, (hub.GetTaskRequest, hub.CancelTaskRequest, hub.SubscribeToTaskRequest)):
        return request.id
    return str(getattr(request, "task_id", ""))


def _printable(text: str) -> str:
    # Callers choose the ids: none may forge a line or a field of the log.
    if text.isascii() and text.isprintable() and " " not in text and len(text) <= _LONGEST_ID:
        return text
    return ascii(text[:_LONGEST_ID]).replace(" ", "\\x20")


def _state_name(state: int) -> str:
    return (
        hub.TaskState.Name(state).removeprefix("TASK_STATE_")
        if state in hub.TaskState.values()
        else str(state)
    )
