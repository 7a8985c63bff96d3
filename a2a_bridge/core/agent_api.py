"""The eleven operations as named methods, as agents implement them and callers use them.

Only this module holds both forms, and a test checks it against the descriptor. `service_of` converts eleven
methods to a `Service`, `Client` a `Service` to eleven methods. A method of an agent takes the request and the
`CallContext`, returns the response (or `Events` for a stream), and raises A2AError (spec 3.1).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.kinds import check_options
from a2a_bridge.core.operations import Operation, Req, Res
from a2a_bridge.core.service import Events, Service, messages_of, reject, reject_stream
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty


class _AgentService:
    """A `Service` that calls the methods of an agent."""

    def __init__(self, agent: object) -> None:
        self._methods: dict[Operation[Any, Any], Any] = {
            one: getattr(agent, one.method) for one in ops.ALL if hasattr(agent, one.method)
        }

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        method = self._methods.get(call.operation)
        if method is None:
            return reject(_unsupported_error(call))
        answer: Coroutine[Any, Any, Res] = method(call.request, call.context)
        return answer

    def stream(self, call: Call[Any, Any], /) -> Events:
        method = self._methods.get(call.operation)
        if method is None:
            return reject_stream(_unsupported_error(call))
        events: Events = method(call.request, call.context)
        return events


def _unsupported_error(call: Call[Any, Any]) -> A2AError:
    return A2AError(Reason.UNSUPPORTED_OPERATION, metadata={"operation": call.operation.name})


def service_of(agent: object) -> Service:
    """The service of an agent whose methods have the names `Operation.method`. Calls of methods that it lacks
    are rejected with UNSUPPORTED_OPERATION.
    """
    return _AgentService(agent)


def _call(operation: Operation[Req, Res], request: Req, context: CallContext | None) -> Call[Req, Res]:
    """Raises TypeError for anything but the request class of the operation."""
    given: Any = request
    if not isinstance(given, operation.request):
        needed = operation.request.__name__
        fields: Any = operation.request.DESCRIPTOR.fields_by_name
        member = 'id="…"' if isinstance(given, str) and "id" in fields else "…"
        raise TypeError(
            f"{operation.name} takes a {needed}, not {type(given).__name__}:"
            f" write hub.{needed}({member}), with `hub` of a2a_bridge.ext"
        )
    check_options(context, CallContext, "context")
    return Call(operation, request, context or CallContext())


class Client:
    """A service as eleven methods, for callers. Without a context, a fresh one is used. Streams yield
    messages; `service.stream` yields the events with their ids.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    async def send_message(
        self, request: hub.SendMessageRequest, context: CallContext | None = None, /
    ) -> hub.SendMessageResponse:
        """Sends a message; returns the direct response, or the task once it has ended or waits for the caller
        (spec 3.1.1). Raises A2AError.
        """
        return await self.service.unary(_call(ops.SEND_MESSAGE, request, context))

    def send_streaming_message(
        self, request: hub.SendMessageRequest, context: CallContext | None = None, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Sends a message and yields the response as it comes: one message, or the task and its events (spec
        3.1.2). Raises A2AError when iterated.
        """
        return messages_of(self.service.stream(_call(ops.SEND_STREAMING_MESSAGE, request, context)))

    async def get_task(self, request: hub.GetTaskRequest, context: CallContext | None = None, /) -> hub.Task:
        """The task with an id (spec 3.1.3). Raises A2AError: TASK_NOT_FOUND also for a task that the caller
        may not see.
        """
        return await self.service.unary(_call(ops.GET_TASK, request, context))

    async def list_tasks(
        self, request: hub.ListTasksRequest, context: CallContext | None = None, /
    ) -> hub.ListTasksResponse:
        """One page of the caller's tasks, the newest first (spec 3.1.4). Raises A2AError."""
        return await self.service.unary(_call(ops.LIST_TASKS, request, context))

    async def cancel_task(
        self, request: hub.CancelTaskRequest, context: CallContext | None = None, /
    ) -> hub.Task:
        """Cancels a task and returns it as it is then (spec 3.1.5). Raises A2AError, TASK_NOT_CANCELABLE if
        it has ended or the agent rejects.
        """
        return await self.service.unary(_call(ops.CANCEL_TASK, request, context))

    def subscribe_to_task(
        self, request: hub.SubscribeToTaskRequest, context: CallContext | None = None, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Yields a snapshot of a task and its further events (spec 3.1.6). Raises A2AError when iterated."""
        return messages_of(self.service.stream(_call(ops.SUBSCRIBE_TO_TASK, request, context)))

    async def create_task_push_notification_config(
        self, request: hub.TaskPushNotificationConfig, context: CallContext | None = None, /
    ) -> hub.TaskPushNotificationConfig:
        """Registers a webhook for a task's events; returns it with its id (spec 3.1.7). Raises A2AError."""
        return await self.service.unary(_call(ops.CREATE_PUSH_CONFIG, request, context))

    async def get_task_push_notification_config(
        self, request: hub.GetTaskPushNotificationConfigRequest, context: CallContext | None = None, /
    ) -> hub.TaskPushNotificationConfig:
        """A registered webhook of a task (spec 3.1.8). Raises A2AError."""
        return await self.service.unary(_call(ops.GET_PUSH_CONFIG, request, context))

    async def list_task_push_notification_configs(
        self, request: hub.ListTaskPushNotificationConfigsRequest, context: CallContext | None = None, /
    ) -> hub.ListTaskPushNotificationConfigsResponse:
        """The registered webhooks of a task, a page of them (spec 3.1.9). Raises A2AError."""
        return await self.service.unary(_call(ops.LIST_PUSH_CONFIGS, request, context))

    async def get_extended_agent_card(
        self, request: hub.GetExtendedAgentCardRequest | None = None, context: CallContext | None = None, /
    ) -> hub.AgentCard:
        """The card that the agent shows to this caller (spec 3.1.11). Raises A2AError,
        EXTENDED_AGENT_CARD_NOT_CONFIGURED or UNSUPPORTED_OPERATION if there is none.
        """
        message = request or hub.GetExtendedAgentCardRequest()
        return await self.service.unary(_call(ops.GET_EXTENDED_AGENT_CARD, message, context))

    async def delete_task_push_notification_config(
        self, request: hub.DeleteTaskPushNotificationConfigRequest, context: CallContext | None = None, /
    ) -> Empty:
        """Removes a registered webhook of a task (spec 3.1.10). Raises A2AError."""
        return await self.service.unary(_call(ops.DELETE_PUSH_CONFIG, request, context))
