"""An agent of 1.0 for callers of 0.1: it creates its own ids and rejects those of callers. No tests."""

import asyncio
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason, invalid_params, task_not_found
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from tests.patience import PATIENCE


class Agent:
    """Tasks T1, T2, … in the contexts that callers name, or K1, K2, … without such a name or if names are not
    allowed.

    events: the answer to a streaming message, for the task. gate: it waits for this before it answers.
    """

    def __init__(self, *, own_contexts: str = "", answers: str = "task") -> None:
        self.own_contexts, self.answers = own_contexts, answers
        self.tasks: dict[str, hub.Task] = {}
        self.configs: dict[tuple[str, str], hub.TaskPushNotificationConfig] = {}
        self.calls: list[Call[Any, Any]] = []
        self.called = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: A2AError | None = None
        self.events: Any = None
        self.closed = 0

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        self.called.set()
        await asyncio.wait_for(self.gate.wait(), PATIENCE)
        if self.failure is not None:
            raise self.failure
        request = call.request
        if call.operation is ops.SEND_MESSAGE:
            if self.answers == "message":
                said = hub.Message(role=hub.ROLE_AGENT, message_id="answer", parts=[hub.Part(text="hi")])
                return hub.SendMessageResponse(message=said)
            return hub.SendMessageResponse(task=self._task_for(request.message))
        if call.operation in (ops.GET_TASK, ops.CANCEL_TASK):
            return self._task(request.id)
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self._task(request.task_id)
            self.configs[request.task_id, request.id] = request
            return request
        if call.operation is ops.GET_PUSH_CONFIG:
            config = self.configs.get((request.task_id, request.id))
            if config is None:
                raise task_not_found(request.task_id)
            return config
        if call.operation is ops.LIST_PUSH_CONFIGS:
            self._task(request.task_id)
            found = [one for (task_id, _), one in self.configs.items() if task_id == request.task_id]
            return hub.ListTaskPushNotificationConfigsResponse(configs=found[: request.page_size or None])
        return Empty()

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        try:
            await asyncio.wait_for(self.gate.wait(), PATIENCE)
            if self.failure is not None:
                raise self.failure
            if call.operation is ops.SUBSCRIBE_TO_TASK:
                task = self._task(call.request.id)
            else:
                task = self._task_for(call.request.message)
            for event in self.events(task) if self.events is not None else [hub.StreamResponse(task=task)]:
                yield Event(event)
        finally:
            self.closed += 1

    def _task(self, task_id: str) -> hub.Task:
        if task_id not in self.tasks:
            raise task_not_found(task_id)
        return self.tasks[task_id]

    def _task_for(self, message: hub.Message) -> hub.Task:
        if message.task_id:
            task = self._task(message.task_id)
            if message.context_id not in ("", task.context_id):
                raise invalid_params("message.contextId", "is not the context of this task")
        else:
            if self.own_contexts == "rejects" and message.context_id and message.context_id[0] != "K":
                raise invalid_params("message.contextId", "is none of ours")
            number = len(self.tasks) + 1
            own = self.own_contexts == "replaces" or not message.context_id
            context = f"K{number}" if own and message.context_id[:1] != "K" else message.context_id
            task = hub.Task(id=f"T{number}", context_id=context)
            self.tasks[task.id] = task
        task.status.state = hub.TASK_STATE_INPUT_REQUIRED
        said = task.history.add()
        said.CopyFrom(message)
        said.task_id, said.context_id = task.id, task.context_id
        return task


def context(version: str = "0.1", tenant: str = "", owner: str = "", binding: str = "JSONRPC") -> CallContext:
    principal = Principal(owner) if owner else None
    return CallContext(tenant=tenant, principal=principal, origin=Origin(binding=binding, version=version))


def send(
    task_id: str = "c", session: str = "", *, message_id: str = "m", **circumstances: Any
) -> Call[Any, Any]:
    message = hub.Message(
        role=hub.ROLE_USER,
        message_id=message_id,
        task_id=task_id,
        context_id=session,
        parts=[hub.Part(text="hello")],
    )
    request = hub.SendMessageRequest(message=message)
    return Call(ops.SEND_MESSAGE, request, context(**circumstances))


def send_streaming(task_id: str = "c", session: str = "", **circumstances: Any) -> Call[Any, Any]:
    sent = send(task_id, session, **circumstances)
    return Call(ops.SEND_STREAMING_MESSAGE, sent.request, sent.context)


def get(task_id: str = "c", **circumstances: Any) -> Call[Any, Any]:
    return Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), context(**circumstances))


def cancel(task_id: str = "c", **circumstances: Any) -> Call[Any, Any]:
    return Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), context(**circumstances))


def subscribe(task_id: str = "c", **circumstances: Any) -> Call[Any, Any]:
    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), context(**circumstances))


def rejection(reason: Reason = Reason.INTERNAL_ERROR) -> A2AError:
    return A2AError(reason, "not now")
