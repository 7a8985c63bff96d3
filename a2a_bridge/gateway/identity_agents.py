"""Adapts agents of 0.1 to 1.0: they require ids from their callers and omit some. For the client side only.

Rules:
1. A message without a task begins one: its task id and session id are generated here. They cannot be guessed,
   so they are valid for all callers and need no translation.
2. A message for a task that is not remembered is sent only if the agent knows the task, because an agent of
   0.1 would begin a new task.
3. Events and some tasks contain no session. It is remembered by task (`tasks.py`); for a forgotten task the
   agent is asked once; if it does not tell the session, the task id is used.
4. A push notification config has no id in 0.1 and keeps the caller's.
"""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope, scope_of
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import payload_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import Dial
from a2a_bridge.pb import lf_a2a_v1 as hub

VERSION = "0.1"


def agents(dial: Dial, tasks: Callable[[], Tasks]) -> Dial:
    """How to dial so that agents of 0.1 get the ids that they require. tasks: the table of an interface."""

    @asynccontextmanager
    async def dial_legacy(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        async with dial(candidate, options) as service:
            yield LegacyAgent(service, tasks()) if candidate.dialect.version == VERSION else service

    return dial_legacy


def _new_id() -> str:
    return uuid.uuid4().hex


class LegacyAgent:
    """The client side of an agent of 0.1. Implements Service."""

    def __init__(self, service: Service, tasks: Tasks, *, new_id: Callable[[], str] = _new_id) -> None:
        self._service = service
        self._new_id = new_id
        self._tasks = tasks

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is ops.SEND_MESSAGE:
            call = await self._address(call)
        response = await self._service.unary(call)
        scope = scope_of(call.request, call.context)
        if isinstance(response, hub.SendMessageResponse):
            if response.HasField("task"):
                self._complete_task(scope, response.task)
        elif isinstance(response, hub.Task):
            self._complete_task(scope, response)
        elif isinstance(response, hub.TaskPushNotificationConfig):
            response.id = cast("Any", call.request).id or response.id
        return response

    async def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            call = await self._address(call)
        scope = scope_of(call.request, call.context)
        async with aclosing(self._service.stream(call)) as events:
            async for event in events:
                await self._complete_event(scope, call, event.message)
                yield event

    async def _address(self, call: Call[Any, Any]) -> Call[Any, Any]:
        """The call with ids of its task and session."""
        scope = scope_of(call.request, call.context)
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        message = request.message
        if not message.task_id:
            message.task_id = self._new_id()
            message.context_id = message.context_id or self._new_id()
        else:
            known = self._tasks.context_of(scope, message.task_id)
            if not known:
                # Raises TASK_NOT_FOUND.
                known = (await self._fetch_task(scope, call, message.task_id)).context_id
            message.context_id = message.context_id or known
        if message.context_id:
            self._tasks.keep_context(scope, message.task_id, message.context_id)
        return Call(call.operation, request, call.context)

    async def _fetch_task(self, scope: Scope, call: Call[Any, Any], task_id: str) -> hub.Task:
        task = await fetch_task(self._service, call, task_id, seconds=None, history_length=0)
        self._complete_task(scope, task)
        return task

    def _complete_task(self, scope: Scope, task: hub.Task) -> None:
        if task.context_id:
            self._tasks.keep_context(scope, task.id, task.context_id)
        else:
            task.context_id = self._tasks.context_of(scope, task.id) or task.id

    async def _complete_event(self, scope: Scope, call: Call[Any, Any], event: hub.StreamResponse) -> None:
        payload = payload_of(event)
        if isinstance(payload, hub.Task):
            self._complete_task(scope, payload)
        elif isinstance(payload, (hub.TaskStatusUpdateEvent, hub.TaskArtifactUpdateEvent)):
            if payload.context_id:
                self._tasks.keep_context(scope, payload.task_id, payload.context_id)
                return
            known = self._tasks.context_of(scope, payload.task_id)
            payload.context_id = known or await self._context(scope, call, payload.task_id)

    async def _context(self, scope: Scope, call: Call[Any, Any], task_id: str) -> str:
        try:
            context_id = (await self._fetch_task(scope, call, task_id)).context_id
        except A2AError as error:
            if error.reason.kind.is_silence:
                raise
            context_id = task_id
        self._tasks.keep_context(scope, task_id, context_id)
        return context_id
