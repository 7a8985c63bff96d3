"""The four operations on push notification configs. Storing them, not sending anything to them.

Rules:
1. Every operation needs the agent's capability and a task that the caller may see, in this order.
2. Who repeats a config without an id gets no second one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params, task_not_found
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.ports import PushConfigStore, PushSender, Scope, scope_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty


class PushConfigs:
    """The part of A2AService that is about push notification configs.

    task: gives the task of an id within a scope, or raises TASK_NOT_FOUND. sender: has to be able to send to
    what is registered; None when nothing is ever sent.
    """

    def __init__(
        self,
        card: hub.AgentCard,
        configs: PushConfigStore,
        task: Callable[[Scope, str], Awaitable[hub.Task]],
        sender: PushSender | None = None,
    ) -> None:
        self._card = card
        self._configs = configs
        self._task = task
        self._sender = sender

    def require(self) -> None:
        """Raises PUSH_NOTIFICATION_NOT_SUPPORTED when the card does not declare the capability."""
        if not self._card.capabilities.push_notifications:
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)

    def check(self, config: hub.TaskPushNotificationConfig, path: str = "") -> None:
        """Raises INVALID_PARAMS for a config nothing can be sent to. path: of the config within the request."""
        refusal = self._sender.check(config) if self._sender is not None else None
        if refusal is None:
            return
        if not path or not refusal.violations:
            raise refusal
        wrong = refusal.violations[0]
        raise invalid_params(f"{path}.{wrong.field}", wrong.description)

    async def create_task_push_notification_config(
        self, request: hub.TaskPushNotificationConfig, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.7. A config without an id is given one: its old one, if the same is there already."""
        self.require()
        if not request.task_id:
            raise invalid_params("taskId", "is required")
        self.check(request)
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        config = await self.named(scope, request, request.task_id)
        await self._configs.put(scope, config)
        return config

    async def named(
        self, scope: Scope, given: hub.TaskPushNotificationConfig, task_id: str
    ) -> hub.TaskPushNotificationConfig:
        """A copy of a config with a task and an id. Who repeats a config without an id gets no second one."""
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(given)
        config.task_id = task_id
        if config.id:
            return config
        for known in await self._configs.list(scope, task_id):
            config.id = known.id
            if config == known:
                return config
        config.id = new_id()
        return config

    async def get_task_push_notification_config(
        self, request: hub.GetTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.8. A missing config is TASK_NOT_FOUND."""
        self.require()
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        config = await self._configs.get(scope, request.task_id, request.id)
        if config is None:
            error = task_not_found(request.task_id)
            error.metadata["configId"] = request.id
            raise error
        return config

    async def list_task_push_notification_configs(
        self, request: hub.ListTaskPushNotificationConfigsRequest, context: CallContext, /
    ) -> hub.ListTaskPushNotificationConfigsResponse:
        """Spec 3.1.9. A page size of 0 means all; tokens are the id of the last config given."""
        self.require()
        if request.page_size < 0:
            raise invalid_params("pageSize", "must not be negative")
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        configs = await self._configs.list(scope, request.task_id)
        if request.page_token:
            places = [place for place, one in enumerate(configs) if one.id == request.page_token]
            if not places:
                raise invalid_params("pageToken", "is not a token that this query has given")
            configs = configs[places[0] + 1 :]
        page = configs[: request.page_size or None]
        token = page[-1].id if len(page) < len(configs) else ""
        return hub.ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=token)

    async def delete_task_push_notification_config(
        self, request: hub.DeleteTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> Empty:
        """Spec 3.1.10. Deleting what is not there succeeds."""
        self.require()
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        await self._configs.delete(scope, request.task_id, request.id)
        return Empty()
