"""The outcome of a call, as one name of a small set for logs, metrics and traces; and one log line per call.

Never content: of callers and agents, only names, addresses and task ids are logged. The
same values are attributes of the record, for formatters (`FIELDS`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from time import perf_counter
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import state_name
from a2a_bridge.core.messages import TERMINAL, payload_of, read_task_id
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, Middleware, Service
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.access")

#: attributes of a record: names, and duration_ms as a number
FIELDS = (
    "agent",
    "binding",
    "version",
    "operation",
    "task",
    "state",
    "code",
    "duration_ms",
    "events",
    "caller",
    "peer",
)


def access_log(clock: Callable[[], float] = perf_counter, *, agent: str = "") -> Middleware:
    """Middleware that logs to `a2a_bridge.access` at INFO. Without that level it costs one check. clock:
    monotonic, in seconds. agent: its name.
    """
    return lambda service: _AccessLog(service, agent, clock)


class _AccessLog:
    def __init__(self, service: Service, agent: str, clock: Callable[[], float]) -> None:
        self._service = service
        self._agent = agent
        self._clock = clock

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        return self._log_call(call) if _log.isEnabledFor(logging.INFO) else self._service.unary(call)

    async def _log_call(self, call: Call[Req, Res]) -> Res:
        line = _Line(call, self._agent, self._clock)
        try:
            response = await self._service.unary(call)
            line.saw(response)
        except BaseException as error:
            line.write(error)
            raise
        line.write()
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if not _log.isEnabledFor(logging.INFO):
            return self._service.stream(call)
        return self._log_stream(call)

    async def _log_stream(self, call: Call[Req, Res]) -> Events:
        line = _Line(call, self._agent, self._clock)
        line.events = 0
        last: Event | None = None
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    line.events += 1
                    last = event
                    line.saw(event.message)
                    yield event
        except BaseException as error:
            line.write(error, last)
            raise
        line.write()


class _Line:
    """The known facts of a call so far. events: of a stream; None for a unary call."""

    __slots__ = ("_agent", "_began", "_call", "_clock", "_state", "_task_id", "events")

    def __init__(self, call: Call[Any, Any], agent: str, clock: Callable[[], float]) -> None:
        self._call = call
        self._agent = agent
        self._clock = clock
        self._began = clock()
        self._task_id = read_task_id(call.request)
        self._state = 0
        self.events: int | None = None

    def saw(self, response: object) -> None:
        """Notes the task of a response and its state."""
        found = find_task(response)
        if found is not None:
            self._task_id, self._state = found

    def write(self, error: BaseException | None = None, last: Event | None = None) -> None:
        """Writes the line. error, last: see `code_of`."""
        context = self._call.context
        origin = context.origin
        fields: dict[str, Any] = {
            "agent": _short(self._agent),
            "binding": origin.binding or "in-process",
            "version": origin.version,
            "operation": self._call.operation.name,
            "task": _short(self._task_id),
            "state": state_name(self._state) if self._state else "",
            "code": code_of(error, last),
            "duration_ms": round((self._clock() - self._began) * 1000, 3),
            "events": self.events,
            "caller": _short(context.principal.name) if context.principal is not None else "",
            "peer": _short(origin.peer),
        }
        _log.info(
            _text(fields), extra={name: value for name, value in fields.items() if value not in ("", None)}
        )


def _text(fields: Mapping[str, Any]) -> str:
    parts = [f"{fields['binding']} {fields['version']}".strip(), fields["operation"]]
    parts += [f"{name}={_printable(fields[name])}" for name in ("task", "state") if fields[name]]
    parts.append(fields["code"])
    if fields["events"] is not None:
        parts.append(f"{fields['events']} events")
    parts.append(f"{fields['duration_ms']:.1f} ms")
    parts += [f"{name}={_printable(fields[name])}" for name in ("caller", "peer", "agent") if fields[name]]
    return " ".join(parts)


def _printable(text: str) -> str:
    # Callers choose the ids: none may forge a line or a field of the log.
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    return ascii(text).replace(" ", "\\x20")


def _short(text: str) -> str:
    return text[:LONGEST]


OK = "OK"
#: characters of an id or a name that are kept
LONGEST = 64


def code_of(error: BaseException | None, last: Event | None = None) -> str:
    """OK, or the name of a `Reason`. Anything but an A2AError or the end of the caller is a defect. error:
    None for a response. last: the last event of a stream. A caller that leaves a stream after the end of its
    task has got everything.
    """
    if error is None:
        return OK
    if isinstance(error, A2AError):
        return error.reason.name  # a peer may have chosen its `name`
    if isinstance(error, Exception):
        return Reason.INTERNAL_ERROR.name
    return OK if last is not None and _ends(last.message) else Reason.CANCELLED.name


def find_task(response: object) -> tuple[str, hub.TaskState] | None:
    """The id and the state of the task in a response or an event; None if it has none."""
    found = payload_of(response)
    if isinstance(found, hub.Task):
        return found.id, found.status.state
    return (found.task_id, found.status.state) if isinstance(found, hub.TaskStatusUpdateEvent) else None


def _ends(message: hub.StreamResponse) -> bool:
    """Whether no further event of a task can follow."""
    if message.HasField("message"):
        return True
    found = find_task(message)
    return found is not None and found[1] in TERMINAL
