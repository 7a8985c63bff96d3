"""The types of a2a-sdk 1.x: the hub's messages, in the SDK's descriptor pool. They pass as bytes."""

from collections.abc import Mapping
from typing import Any

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as sdk
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP
from a2a.utils.errors import A2AError as SdkError

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.hosting.agent_content import ExecutorError
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.sdk.conversion import call_members, own, protocol_error
from a2a_bridge.pb import lf_a2a_v1 as hub

_TYPES: Mapping[type, type[Event]] = {
    sdk.Message: hub.Message,
    sdk.Task: hub.Task,
    sdk.TaskStatusUpdateEvent: hub.TaskStatusUpdateEvent,
    sdk.TaskArtifactUpdateEvent: hub.TaskArtifactUpdateEvent,
}


class TypesV1:
    """See `SdkTypes`."""

    queue = EventQueue
    message_is_end = False

    def request_context(self, run: Run, related: list[hub.Task]) -> Any:
        request = None
        if isinstance(run.request, hub.SendMessageRequest):
            request = sdk.SendMessageRequest.FromString(run.request.SerializeToString())
        tenant = run.context.tenant or run.request.tenant
        return RequestContext(
            ServerCallContext(tenant=tenant, **call_members(run.context)),
            request,
            run.task_id,
            run.context_id,
            None if run.task is None else _before_message(run.task, run),
            [sdk.Task.FromString(one.SerializeToString()) for one in related],
        )

    def event(self, event: Any, run: Run) -> Event | None:
        kind = _TYPES.get(type(event))
        if kind is None:
            raise ExecutorError(f"{type(event).__name__} is no event of the a2a-sdk 1.x")
        if kind is hub.Task and run.task is not None and _brings_nothing(event, run.task, run):
            return None
        return own(kind.FromString(event.SerializeToString()), run)

    def error(self, raised: BaseException) -> A2AError | None:
        if not isinstance(raised, SdkError):
            return None
        codes = (JSON_RPC_ERROR_CODE_MAP.get(base) for base in type(raised).__mro__)
        return protocol_error(next((code for code in codes if code), -32603), raised.message, raised.data)

    def activated(self, _context: Any) -> None:
        return None


def _brings_nothing(event: sdk.Task, task: hub.Task, run: Run) -> bool:
    """Whether a task in a later turn is the one that the executor was given, or a new one: many executors
    enqueue one of these in each turn, and the SDK's server ignores them, too.
    """
    is_new = event.status.state in (sdk.TASK_STATE_UNSPECIFIED, sdk.TASK_STATE_SUBMITTED)
    return is_new or event == _before_message(task, run)


def _before_message(task: hub.Task, run: Run) -> sdk.Task:
    """A task as the SDK's server shows it: without the message that began the run, and with the question that
    the message answers as the status. A task that was at work keeps its message, as after a restart.
    """
    made = sdk.Task.FromString(task.SerializeToString())
    history, message_id = made.history, run.message.message_id
    if task.status.state in INTERRUPTED and history and history[-1].message_id == message_id:
        del history[-1]
        if history and history[-1].role == sdk.ROLE_AGENT and not made.status.HasField("message"):
            made.status.message.CopyFrom(history[-1])
            del history[-1]
    return made
