"""Adds the context id to messages that have a task id only. Implements Service around a remote agent.

A follow-up may leave out the context id (A2A 1.0, 3.4.3), and servers made with a2a-sdk fail on it. Rules:
1. The context id of a task that has not ended is remembered by caller and task when the gateway first sees
   it (`tasks.py`).
2. For an unknown task the agent is asked with the caller's credentials. Without a response the message is
   sent unchanged.
3. A message that has a context id, or no task id, passes by reference.
4. A page of ListTasks is corrected to what was requested: some agents always include artifacts (a2a-server-lf
   0.5.3 never reads includeArtifacts), and agents disagree about `pageSize`, which is the number of tasks in
   this page.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import ScopeOf
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import TERMINAL, context_id_of, state_of, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.gateway.tasks import Tasks, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)


class Contexts:
    """See above. scoped: the scope of a call."""

    def __init__(self, service: Service, tasks: Tasks, scoped: ScopeOf = visible_to) -> None:
        self._service = service
        self._scoped = scoped
        self._tasks = tasks

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is not ops.SEND_MESSAGE:
            answer = await self._service.unary(call)
            if call.operation is ops.LIST_TASKS:
                _settle(call.request, answer)
            return answer
        request: Any = call.request
        completed: Call[Req, Res] = await self._complete(call) if request.message.task_id else call
        response = await self._service.unary(completed)
        sent: Any = response
        task: hub.Task = sent.task
        if task.id and task.status.state not in TERMINAL:
            self._note(call, task.id, task.context_id)
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return self._service.stream(call)
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        stream = await open_stream(self._service.stream(await self._complete(call)))
        if stream is not None:
            self._note_event(call, stream[0].message)
        return stream

    async def _complete(self, call: Call[Any, Any]) -> Call[Any, Any]:
        """The call with the context id of its message's task, if it lacks one and the id can be found."""
        message = call.request.message
        if not message.task_id or message.context_id:
            return call
        context_id = await self._context_of(call, message.task_id)
        if not context_id:
            return call
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        request.message.context_id = context_id
        return Call(call.operation, request, call.context)

    async def _context_of(self, call: Call[Any, Any], task_id: str) -> str:
        known = self._tasks.context_of(self._scoped(call.request, call.context), task_id)
        if known:
            return known
        try:
            task = await fetch_task(self._service, call, task_id, history_length=0)
        except A2AError as error:
            logger.debug("the context of task %s is not known: %s", task_id, error)
            return ""
        self._note(call, task_id, task.context_id)
        return task.context_id

    def _note_event(self, call: Call[Any, Any], event: hub.StreamResponse) -> None:
        if not event.HasField("message") and not (event.HasField("task") and state_of(event) in TERMINAL):
            self._note(call, task_id_of(event), context_id_of(event))

    def _note(self, call: Call[Any, Any], task_id: str, context_id: str) -> None:
        if not context_id or call.request.message.context_id:
            return
        self._tasks.keep_context(self._scoped(call.request, call.context), task_id, context_id)


def _settle(request: Any, page: Any) -> None:
    page.page_size = len(page.tasks)
    if not request.include_artifacts:
        for task in page.tasks:
            task.ClearField("artifacts")
