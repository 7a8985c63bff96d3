"""Keeps the tasks of callers apart, for an agent that cannot tell the callers of the gateway apart.

Rules:
1. A task belongs to the caller whose message began it. Others get TASK_NOT_FOUND, as for a task that does not
   exist, and the agent is not asked. The same for tasks that a message refers to.
2. A context belongs to the caller whose message began it. An id of a context that a caller chose has another
   name at the agent (`context_names`): two callers with the same id have two contexts.
3. A task without a known owner is one that does not exist, or with `unowned` the agent decides. Calls without
   a principal, which only middleware of the application lets in, reach such tasks.
4. ListTasks is answered from the tasks that the caller began (`task_lists`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params, task_not_found
from a2a_bridge.core.messages import context_id_of, read_task_id, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.gateway.context_names import may_be_made_here, name_for, with_context
from a2a_bridge.gateway.index import TaskIndex, visible_to
from a2a_bridge.gateway.owners import CONTEXT, TASK, Owned, Owners
from a2a_bridge.gateway.task_lists import TaskLists
from a2a_bridge.pb import lf_a2a_v1 as hub

M = TypeVar("M", bound=Message)


class Ownership:
    """See above. unowned: whether callers reach tasks without a known owner. remembered: how many tasks lists
    are answered from; 0: ListTasks is UNSUPPORTED_OPERATION. memory: the account of what is remembered.
    """

    def __init__(
        self,
        owners: Owners,
        *,
        unowned: bool = False,
        remembered: int = 0,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._owners = owners
        self._unowned = unowned
        self._index = TaskIndex(remembered, time.time_ns, memory) if remembered else None

    def wrap(self, service: Service) -> Service:
        """Middleware around an agent."""
        return _Owning(service, self, self._index)

    async def find_owned(self, call: Call[Any, Any], scope: Scope, task_id: str) -> Owned | None:
        """The record of a task that the caller may reach; None for one that belongs to nobody. Raises
        TASK_NOT_FOUND.
        """
        found = await self._owners.of(TASK, task_id, scope)
        if found is not None and found.scope == scope:
            return found
        if found is None and (self._unowned or call.context.principal is None):
            return None
        raise task_not_found(task_id)

    async def begun(self, scope: Scope, task_id: str, context_id: str) -> None:
        """Notes what a message of the caller has begun. Raises INVALID_PARAMS if it belongs to somebody
        else.
        """
        if task_id:
            found = await self._owners.claim(TASK, task_id, Owned(scope, context_id))
            if found.scope != scope:
                # An agent that answers a repeated message id with the first response.
                raise invalid_params("message.messageId", "has been used already")
        if context_id and not may_be_made_here(context_id):
            await self._owners.claim(CONTEXT, context_id, Owned(scope))

    async def at_agent(self, call: Call[Any, Any], scope: Scope, context_id: str) -> str:
        """The name of a caller's context at the agent."""
        found = await self._owners.of(CONTEXT, context_id, scope)
        if found is not None and found.scope == scope:
            return context_id
        if found is None and (self._unowned or call.context.principal is None):
            return context_id
        return name_for(scope, context_id)

    async def note_rename(self, scope: Scope, name: str, context_id: str) -> None:
        """Notes that a context has another name at the agent, before the agent can mention it."""
        await self._owners.claim(CONTEXT, name, Owned(scope, context_id))

    async def rename_notification(self, scope: Scope, message: M) -> M:
        """A notification of the agent for a caller, with the caller's name of its context. Raises
        TASK_NOT_FOUND for a task of somebody else.
        """
        name, task_id = context_id_of(message), task_id_of(message)
        if task_id and (await self._owners.claim(TASK, task_id, Owned(scope, name))).scope != scope:
            raise task_not_found(task_id)
        return await self.rename_for_caller(scope, message)

    async def rename_for_caller(self, scope: Scope, message: M) -> M:
        """A response or event with the caller's name of its context."""
        name = context_id_of(message)
        if not may_be_made_here(name):
            return message
        found = await self._owners.of(CONTEXT, name, scope)
        if found is None or found.scope != scope or not found.name:
            return message
        return with_context(message, name, found.name)

    async def recall(self, scope: Scope) -> None:
        """Adds the tasks of the store to the index."""
        if self._index is None:
            return
        known = {one.task_id for one in self._index.of(scope)}
        for one in await self._owners.tasks(scope):
            if one.task_id not in known:
                self._index.note(scope, one.task_id, one.context_id).time = one.time


class _Owning:
    def __init__(self, service: Service, ownership: Ownership, index: TaskIndex | None) -> None:
        self._service = service
        self._ownership = ownership
        self._index = index
        self._lists = None if index is None else TaskLists(service, index)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        scope = visible_to(call.request, call.context)
        if call.operation is ops.LIST_TASKS:
            return cast("Res", await self._list(call, scope))
        task_id, owned = await self._check(call, scope)
        if call.operation is ops.SEND_MESSAGE:
            call = await self._sent(call, scope, owned)
        answer: Any
        try:
            answer = await self._service.unary(call)
        except A2AError as error:
            raise _alike(error, task_id, owned) from None
        if call.operation is ops.SEND_MESSAGE:
            await self._note(scope, task_id, answer)
        elif isinstance(answer, hub.Task) and owned is not None and self._index is not None:
            self._index.note_task(scope, answer)
        return cast("Res", await self._ownership.rename_for_caller(scope, answer))

    def stream(self, call: Call[Any, Any], /) -> Events:
        return self._stream(call)

    async def _stream(self, call: Call[Any, Any]) -> AsyncGenerator[Event, None]:
        scope = visible_to(call.request, call.context)
        task_id, owned = await self._check(call, scope)
        sends = call.operation is ops.SEND_STREAMING_MESSAGE
        if sends:
            call = await self._sent(call, scope, owned)
        known = task_id
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    message = event.message
                    named = task_id_of(message)
                    if sends and (named != known or not known):
                        await self._note(scope, known, message)
                        known = named
                    elif self._index is not None and (sends or owned is not None):
                        self._index.note_event(scope, message)
                    shown = await self._ownership.rename_for_caller(scope, message)
                    yield event if shown is message else Event(shown, event.id, event.gap)
        except A2AError as error:
            raise _alike(error, task_id, owned) from None

    async def _check(self, call: Call[Any, Any], scope: Scope) -> tuple[str, Owned | None]:
        """The task in a request, and its record. Raises TASK_NOT_FOUND if the caller may not reach one of
        those that it names.
        """
        request = call.request
        task_id = read_task_id(request)
        others: list[str] = []
        if isinstance(request, hub.SendMessageRequest):
            others += request.message.reference_task_ids
            others.append(request.configuration.task_push_notification_config.task_id)
        owned = await self._ownership.find_owned(call, scope, task_id) if task_id else None
        for one in dict.fromkeys(others):
            if one and one != task_id:
                await self._ownership.find_owned(call, scope, one)
        return task_id, owned

    async def _sent(self, call: Call[Any, Any], scope: Scope, owned: Owned | None) -> Call[Any, Any]:
        """The message with the agent's name of its context."""
        context_id = call.request.message.context_id
        if not context_id or (owned is not None and owned.name == context_id):
            return call
        name = await self._ownership.at_agent(call, scope, context_id)
        if name == context_id:
            return call
        await self._ownership.note_rename(scope, name, context_id)
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        request.message.context_id = name
        return Call(call.operation, request, call.context)

    async def _note(self, scope: Scope, task_id: str, answer: Any) -> None:
        """Notes what a response to a message shows for the first time."""
        named = task_id_of(answer)
        await self._ownership.begun(scope, "" if named == task_id else named, context_id_of(answer))
        if self._index is not None:
            self._index.note_event(scope, answer)

    async def _list(self, call: Call[Any, Any], scope: Scope) -> hub.ListTasksResponse:
        if self._lists is None:
            raise A2AError(
                Reason.UNSUPPORTED_OPERATION,
                "this gateway keeps no tasks to list",
                metadata={"operation": call.operation.name},
                blame=Blame.SELF,
            )
        await self._ownership.recall(scope)
        request: hub.ListTasksRequest = call.request
        if request.context_id:
            made = hub.ListTasksRequest()
            made.CopyFrom(request)
            made.context_id = await self._ownership.at_agent(call, scope, request.context_id)
            call = Call(call.operation, made, call.context)
        page = await self._lists.answer(call)
        tasks = [await self._ownership.rename_for_caller(scope, one) for one in page.tasks]
        del page.tasks[:]
        page.tasks.extend(tasks)
        return page


def _alike(error: A2AError, task_id: str, owned: Owned | None) -> A2AError:
    """The error of an agent. For a task without an owner it says as much as ours for one of somebody else."""
    if error.reason is Reason.TASK_NOT_FOUND and task_id and owned is None:
        return task_not_found(task_id)
    return error
