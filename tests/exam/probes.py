"""The questions of the exam: each operation with a name in it that can be another tenant's. Data only."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.operations import Operation
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True)
class Names:
    """What a question names. page: a token of another caller's list. event: an id of its stream."""

    task: str
    context: str
    hook: str
    tenant: str = ""
    event: str = "1"


def absent(like: Names) -> Names:
    """Names that nobody has, of the same lengths."""

    def other(name: str) -> str:
        return str(uuid.uuid4()) if len(name) == 36 else uuid.uuid4().hex[: len(name)]

    return Names(other(like.task), other(like.context), other(like.hook), like.tenant, like.event)


@dataclass(frozen=True)
class Probe:
    """A question. finds: whether the name has to be rejected as one that nobody has, where it is a task's."""

    name: str
    operation: Operation[Any, Any]
    request: Callable[[Names], Any]
    finds: bool = True
    headers: Callable[[Names], Mapping[str, str]] = field(default=lambda _: {})


def _send(task_id: str = "", context_id: str = "", tenant: str = "") -> hub.SendMessageRequest:
    message = hub.Message(
        message_id="one and the same",
        role=hub.ROLE_USER,
        parts=[hub.Part(text="x")],
        task_id=task_id,
        context_id=context_id,
    )
    return hub.SendMessageRequest(message=message, tenant=tenant)


#: an address that the scene allows, so that only the task can be wrong; nothing listens there
HOOK = "http://127.0.0.1:9/hook"

PROBES = (
    Probe("get", ops.GET_TASK, lambda one: hub.GetTaskRequest(id=one.task, tenant=one.tenant)),
    Probe(
        "get with history",
        ops.GET_TASK,
        lambda one: hub.GetTaskRequest(id=one.task, tenant=one.tenant, history_length=3),
    ),
    Probe("cancel", ops.CANCEL_TASK, lambda one: hub.CancelTaskRequest(id=one.task, tenant=one.tenant)),
    Probe(
        "subscribe",
        ops.SUBSCRIBE_TO_TASK,
        lambda one: hub.SubscribeToTaskRequest(id=one.task, tenant=one.tenant),
    ),
    Probe(
        "resume",
        ops.SUBSCRIBE_TO_TASK,
        lambda one: hub.SubscribeToTaskRequest(id=one.task, tenant=one.tenant),
        headers=lambda one: {"Last-Event-ID": one.event},
    ),
    Probe(
        "create a hook",
        ops.CREATE_PUSH_CONFIG,
        lambda one: hub.TaskPushNotificationConfig(
            task_id=one.task, id=one.hook, url=HOOK, tenant=one.tenant
        ),
    ),
    Probe(
        "get a hook",
        ops.GET_PUSH_CONFIG,
        lambda one: hub.GetTaskPushNotificationConfigRequest(
            task_id=one.task, id=one.hook, tenant=one.tenant
        ),
    ),
    Probe(
        "list hooks",
        ops.LIST_PUSH_CONFIGS,
        lambda one: hub.ListTaskPushNotificationConfigsRequest(task_id=one.task, tenant=one.tenant),
    ),
    Probe(
        "delete a hook",
        ops.DELETE_PUSH_CONFIG,
        lambda one: hub.DeleteTaskPushNotificationConfigRequest(
            task_id=one.task, id=one.hook, tenant=one.tenant
        ),
    ),
    Probe(
        "list tasks of a context",
        ops.LIST_TASKS,
        lambda one: hub.ListTasksRequest(context_id=one.context, tenant=one.tenant),
        finds=False,
    ),
    Probe(
        "extended card",
        ops.GET_EXTENDED_AGENT_CARD,
        lambda one: hub.GetExtendedAgentCardRequest(tenant=one.tenant),
        finds=False,
    ),
    Probe("send", ops.SEND_MESSAGE, lambda one: _send(one.task, tenant=one.tenant)),
    Probe("stream", ops.SEND_STREAMING_MESSAGE, lambda one: _send(one.task, tenant=one.tenant)),
    Probe(
        "send into a context",
        ops.SEND_MESSAGE,
        lambda one: _send(context_id=one.context, tenant=one.tenant),
        finds=False,
    ),
    Probe(
        "stream into a context",
        ops.SEND_STREAMING_MESSAGE,
        lambda one: _send(context_id=one.context, tenant=one.tenant),
        finds=False,
    ),
)
