"""Resumes broken streams, over any service. It does not retry calls: no message is sent twice.

Rules:
1. A broken stream is resumed with SubscribeToTask and the id of the last seen event. Without ids the agent's
   snapshot comes first, and for a task that has ended meanwhile the task itself.
2. A stream that ends although its task is not at rest counts as broken, unless resuming it brings no event:
   without an id its task is looked at then, and the error of the break before is raised.
3. Attempts without a new event are limited in number, with exponential backoff and jitter between them.
4. Only errors of an outage lead to an attempt. A stream that fails before its task is known is not resumed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, ResponseParameters
from a2a_bridge.core.errors import A2AError, Blame, Kind, Reason
from a2a_bridge.core.messages import AT_REST, TERMINAL
from a2a_bridge.core.resume import resume_id
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Following:
    """The attempts to resume a broken stream.

    attempts: most attempts in a row without a new event. first: seconds before the first one; each further
    one waits twice as long, up to `most`, and as long as the agent requests within that. Each wait is
    shortened at random, by half of it at most. on_break: is called with the error of a stream when it breaks,
    before the first attempt; None for one that ended.
    """

    attempts: int = 8
    first: float = 0.1
    most: float = 10.0
    on_break: Callable[[A2AError | None], None] | None = None

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds before an attempt, counted from 1. retry_after: the seconds that the agent requested."""
        seconds = min(self.most, self.first * 2.0 ** min(attempt - 1, 64))
        return max(seconds * random.uniform(0.5, 1.0), min(retry_after or 0.0, self.most))  # noqa: S311  no secret


async def follow_stream(
    service: Service, call: Call[Any, Any], following: Following, *, resumes: bool = True
) -> Events:
    """The events of a streaming call, over as many streams as necessary. Raises the error of the last one.
    resumes: whether the agent can resume after its ids; some agents only number the events of a
    connection.
    """
    seen = _Seen(call, resumes)
    reply = call.context.reply
    attempts = 0
    following_up = False
    current = call
    broken: A2AError | None = None
    while True:
        failure: A2AError | None = None
        news = False
        try:
            async with aclosing(service.stream(current)) as events:
                async for event in events:
                    news = seen.note(event) or news
                    if news:
                        attempts = 0
                    if following_up:
                        reply.merge(current.context.reply)
                    yield event
        except A2AError as error:
            if seen.state in TERMINAL:
                return  # it broke after the last event
            if not seen.task_id or not _is_temporary(error, begun=following_up):
                if following_up and (last := await _fetch_ended(service, seen, call)) is not None:
                    yield last
                    return
                raise
            failure = broken = error
        else:
            looked = following_up or call.operation is ops.SUBSCRIBE_TO_TASK
            if not seen.task_id or seen.state in AT_REST:
                return
            if looked and not news:
                # Nothing after an id means that the task has ended.
                if not following_up or resume_id(current.context):
                    return
                if (last := await _fetch_ended(service, seen, call)) is not None:
                    yield last
                elif broken is not None:
                    raise broken
                return
        if following.on_break is not None and not attempts:
            following.on_break(failure)
        attempts += 1
        if attempts > following.attempts:
            raise failure or A2AError(Reason.UNAVAILABLE, "the stream keeps ending early", blame=Blame.PEER)
        await asyncio.sleep(following.wait(attempts, failure.retry_after if failure is not None else None))
        following_up = True
        current = seen.subscription(call)


class _Seen:
    """The position in a stream."""

    def __init__(self, call: Call[Any, Any], resumes: bool) -> None:
        self._resumes = resumes
        self.state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
        self.task_id = ""
        self._last = ""
        self._first = True
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            self.task_id = call.request.id
            self._last = resume_id(call.context)

    def note(self, event: Event) -> bool:
        """Remembers an event. Returns whether it is new: a snapshot at the beginning is not."""
        first, self._first = self._first, False
        message = event.message
        which = message.WhichOneof("payload")
        if which == "task":
            self.task_id, self.state = message.task.id, message.task.status.state
        elif which == "status_update":
            self.task_id, self.state = message.status_update.task_id, message.status_update.status.state
        elif which == "artifact_update":
            self.task_id = message.artifact_update.task_id
        id_ = event.id if self._resumes else ""
        news = id_ != self._last if id_ else not (first and which == "task")
        self._last = id_ or self._last  # an event without an id was generated on the way
        return news

    def subscription(self, call: Call[Any, Any]) -> Call[Any, Any]:
        """The call that resumes here."""
        self._first = True
        parameters = {**call.context.parameters, LAST_EVENT_PARAMETER: self._last}
        if not self._last:
            del parameters[LAST_EVENT_PARAMETER]
        request = hub.SubscribeToTaskRequest(id=self.task_id, tenant=call.request.tenant)
        return Call(
            ops.SUBSCRIBE_TO_TASK,
            request,
            call.context.replace(parameters=parameters, reply=ResponseParameters()),
        )


def _is_temporary(error: A2AError, *, begun: bool) -> bool:
    """Whether an error can be temporary. begun: the agent has the task, so RESOURCE_EXHAUSTED counts, too."""
    kind = error.reason.kind
    return (kind.retry if begun else kind is Kind.UNREACHED) and error.blame is Blame.PEER


async def _fetch_ended(service: Service, seen: _Seen, call: Call[Any, Any]) -> Event | None:
    """The task if it has ended: agents without ids reject to subscribe to it then."""
    try:
        task = await fetch_task(service, call, seen.task_id, seconds=None)
    except A2AError:
        return None  # the first error is more precise
    return Event(hub.StreamResponse(task=task)) if task.status.state in TERMINAL else None
