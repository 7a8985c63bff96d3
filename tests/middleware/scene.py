"""The fixtures of the tests of middleware: a probe behind a middleware, and calls."""

import asyncio
from contextlib import aclosing
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE

TASK = hub.Task(id="t-1", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))


def send(context: CallContext | None = None, *, parts: int = 1) -> Call[Any, Any]:
    """A complete SendMessage."""
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")] * parts)
    return Call(ops.SEND_MESSAGE, hub.SendMessageRequest(message=message), context or CallContext())


def get(context: CallContext | None = None, task_id: str = "t-1") -> Call[Any, Any]:
    return Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), context or CallContext())


def subscribe(context: CallContext | None = None, task_id: str = "t-1") -> Call[Any, Any]:
    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), context or CallContext())


async def ask(service: Service, call: Call[Any, Any]) -> Any:
    """Makes a call of either sort: returns the answer, or the list of messages of the events."""
    async with asyncio.timeout(PATIENCE):
        if not isinstance(call.operation, ops.Streaming):
            return await service.unary(call)
        async with aclosing(service.stream(call)) as events:
            return [event.message async for event in events]


def rejection(error: Any) -> tuple[Any, list[str]]:
    return error.reason, [one.field for one in error.violations]
