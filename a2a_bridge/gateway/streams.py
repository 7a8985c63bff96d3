"""Streams of a 0.x agent in the shape of 1.0: the task comes first, and `final` is the end. It keeps no
state.

Subscriptions of 0.x callers get the task first, too, because the events before would be lost otherwise.

Rules:
1. If the first event is an update, a generated snapshot with a mark (`dialects.annotation`) comes before it:
   the task as GetTask returns it, without the content of later events; or, without a response, the content of
   the update.
2. A stream ends after a final event, whatever its state is. A closing event that a bridge generated is
   dropped.
3. Nothing else changes: several tasks or messages in a row pass unchanged.
4. A subscription to a task that has ended is UNSUPPORTED_OPERATION for callers of 1.0 (spec 3.1.6). This
   costs one GetTask. Callers of 0.x get the agent's own answer.
5. A stream that the agent resumes after an event gets no snapshot.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Any

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import is_terminal
from a2a_bridge.core.resume import event_id, number_of, resume_id
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects.annotation import CLOSING, SNAPSHOT, Finality, synthesise, synthetic_kind
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

_UPDATES = ("status_update", "artifact_update")


async def begun_by_a_task(
    service: Service, call: Call[Any, Any], is_final: Finality, *, rejects_ended: bool
) -> Events:
    """The stream of a call in the form of 1.0, from a `service` that answers like 0.x. rejects_ended: see
    rule 4.
    """
    subscribes = call.operation is ops.SUBSCRIBE_TO_TASK
    resumes = subscribes and bool(resume_id(call.context))
    if subscribes and not resumes and rejects_ended:
        await _check_running(service, call)
    begun = False
    async with aclosing(service.stream(call)) as events:
        async for event in events:
            message = event.message
            which = message.WhichOneof("payload")
            if which == "status_update" and synthetic_kind(message.status_update) == CLOSING:
                return
            # An agent with ids has resumed after the requested event.
            if not begun and which in _UPDATES and not (resumes and event.id):
                task = await task_before(service, call, message, SNAPSHOT)
                yield Event(hub.StreamResponse(task=task), _before(event.id))
            begun = True
            yield event
            if which == "status_update" and is_final(message.status_update):
                return
    if resumes and not begun and rejects_ended:
        # An agent that cannot resume ends the stream of a finished task, which does not mean that no event is
        # missing.
        await _check_running(service, call)


def _before(id_: str) -> str:
    """The id of a snapshot that contains all events before this one; empty if that is unknown."""
    if not id_:
        return ""
    epoch, _, _ = id_.rpartition("-")
    number = number_of(id_, epoch)
    return event_id(number - 1, epoch) if number else ""


async def _check_running(service: Service, call: Call[Any, Any]) -> None:
    """Raises UNSUPPORTED_OPERATION for a finished task, TASK_NOT_FOUND for an unknown one."""
    try:
        task = await _get(service, call, call.request.id)
    except A2AError as error:
        if error.reason is Reason.TASK_NOT_FOUND:
            raise
        logger.debug("the state of task %s is unknown: %s", call.request.id, error)
        return
    if is_terminal(task.status.state):
        text = "the task has ended; there is nothing to subscribe to"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": call.request.id})


async def task_before(
    service: Service, call: Call[Any, Any], first: hub.StreamResponse, mark: str
) -> hub.Task:
    """The task before the first event of a stream, an update, as far as it is known. Costs a GetTask.

    mark: see `dialects.annotation`.
    """
    update: Any = getattr(first, first.WhichOneof("payload") or "")
    try:
        task = await _get(service, call, update.task_id)
    except A2AError as error:
        logger.debug("the snapshot of task %s is made of its first event: %s", update.task_id, error)
        task = hub.Task(id=update.task_id, context_id=update.context_id)
    else:
        _remove_announced(task, call, update)
        task.ClearField("generation")  # it counts the events that are still to come
    if isinstance(update, hub.TaskStatusUpdateEvent):
        # The agent's current status may be ahead of its events.
        task.status.CopyFrom(update.status)
    elif task.status.state == hub.TASK_STATE_UNSPECIFIED or is_terminal(task.status.state):
        task.status.Clear()
        task.status.state = hub.TASK_STATE_WORKING
    synthesise(task, mark)
    return task


def _remove_announced(task: hub.Task, call: Call[Any, Any], update: Any) -> None:
    """Removes the content of later events from a task; a reader that adds them up would have it twice."""
    if isinstance(call.request, hub.SendMessageRequest) and not call.request.message.task_id:
        del task.artifacts[:]  # a new task: all its artifacts are still to come
        return
    if not isinstance(update, hub.TaskArtifactUpdateEvent):
        return
    for place, artifact in enumerate(task.artifacts):
        if artifact.artifact_id != update.artifact.artifact_id:
            continue
        count = len(update.artifact.parts)
        if not update.append:
            del task.artifacts[place]
        elif count and list(artifact.parts[-count:]) == list(update.artifact.parts):
            del artifact.parts[-count:]
        return


async def _get(service: Service, call: Call[Any, Any], task_id: str) -> hub.Task:
    members: dict[str, int] = {}
    configuration = getattr(call.request, "configuration", None)
    if configuration is not None and configuration.HasField("history_length"):
        members["history_length"] = configuration.history_length
    return await fetch_task(service, call, task_id, **members)
