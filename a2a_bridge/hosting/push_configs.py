"""The four operations on push notification configs. They store configs and send nothing.

Rules:
1. Every operation requires the agent's capability, then a task that the caller may see.
2. Repeating a config without an id does not create a second config.
3. A config keeps the version of the call that registered it: its receiver gets notifications in that version.
   Content that only this version has comes back to callers of older versions.
4. Answers show a mask instead of credentials; see a2a_bridge.push.secrets.
"""

from collections.abc import Awaitable, Callable

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.dialects import is_older
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.push import side_channel
from a2a_bridge.push.secrets import is_redacted, redact, redact_side_channel, unredact
from a2a_bridge.push.webhook import WebhookResolver
from a2a_bridge.stores.ports import PushConfigStore, Registered, Scope, scope_of

_INLINE = "configuration.taskPushNotificationConfig"


class PushConfigs:
    """The methods of an agent (`Operation.method`) for push notification configs.

    task: returns the task of an id within a scope, or raises TASK_NOT_FOUND. sender: checks that registered
    configs can receive notifications; None if nothing is ever sent.
    """

    def __init__(
        self,
        card: hub.AgentCard,
        configs: PushConfigStore,
        task: Callable[[Scope, str], Awaitable[object]],
        sender: WebhookResolver | None = None,
    ) -> None:
        self._card = card
        self._configs = configs
        self._task = task
        self._sender = sender

    def require(self) -> None:
        """Raises PUSH_NOTIFICATION_NOT_SUPPORTED when the card does not declare the capability."""
        if not self._card.capabilities.push_notifications:
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)

    async def check(self, config: hub.TaskPushNotificationConfig, path: str = "") -> None:
        """Raises INVALID_PARAMS for a config that cannot get notifications. path: of it in the request."""
        rejection = await self._sender.check(config) if self._sender is not None else None
        if rejection is not None:
            raise _below(path, rejection)

    async def accept(self, request: hub.SendMessageRequest) -> None:
        """Checks the config within a message. Raises the errors of the operations."""
        self.require()
        inline = request.configuration.task_push_notification_config
        if not inline.url:
            raise invalid_params(f"{_INLINE}.url", "is required")
        await self.check(inline, _INLINE)

    async def inline(
        self,
        scope: Scope,
        request: hub.SendMessageRequest,
        context: CallContext,
        task_id: str,
        *,
        new: bool = False,
    ) -> Registered | None:
        """The config to store for the one within a message, if there is one. Raises INVALID_PARAMS.

        new: True if the message begins the task, which has no configs. Then nothing is waited for: the id of
        the message may be reserved, and the lease of the task not be claimed yet.
        """
        if not request.configuration.HasField("task_push_notification_config"):
            return None
        requested = request.configuration.task_push_notification_config
        version = _version(context)
        unmapped = side_channel.content_within(request) if version else ""
        return await self._complete(scope, requested, task_id, version, unmapped, _INLINE, new=new)

    async def create_task_push_notification_config(
        self, request: hub.TaskPushNotificationConfig, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.7. A config without an id gets one: the id of the same config, if that is stored."""
        self.require()
        if not request.task_id:
            raise invalid_params("taskId", "is required")
        await self.check(request)
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        version = _version(context)
        unmapped = side_channel.content_of(context) if version else ""
        registered = await self._complete(scope, request, request.task_id, version, unmapped)
        await self._configs.put(scope, registered)
        return _for_caller(registered, context)

    async def get_task_push_notification_config(
        self, request: hub.GetTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.8. A missing config is TASK_NOT_FOUND."""
        self.require()
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        registered = await self._configs.get(scope, request.task_id, request.id)
        if registered is None:
            text = "the task has no push notification config of this id"
            metadata = {"taskId": request.task_id, "configId": request.id}
            raise A2AError(Reason.TASK_NOT_FOUND, text, metadata=metadata)
        return _for_caller(registered, context)

    async def list_task_push_notification_configs(
        self, request: hub.ListTaskPushNotificationConfigsRequest, context: CallContext, /
    ) -> hub.ListTaskPushNotificationConfigsResponse:
        """Spec 3.1.9. A page size of 0 means all; tokens are the id of the first config of the next page, so
        that callers may delete the configs of a page before they read on.
        """
        self.require()
        if request.page_size < 0:
            raise invalid_params("pageSize", "must not be negative")
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        found = await self._configs.list(scope, request.task_id)
        if request.page_token:
            places = [place for place, one in enumerate(found) if one.config.id == request.page_token]
            if not places:
                raise invalid_params("pageToken", "is not a token that this query has given")
            found = found[places[0] :]
        page = found[: request.page_size or None]
        token = found[len(page)].config.id if len(page) < len(found) else ""
        if _version(context):
            side_channel.restore(context, [redact_side_channel(one.side_channel) for one in page])
        configs = [redact(one.config) for one in page]
        return hub.ListTaskPushNotificationConfigsResponse(configs=configs, next_page_token=token)

    async def delete_task_push_notification_config(
        self, request: hub.DeleteTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> Empty:
        """Spec 3.1.10. Deleting an unknown config succeeds."""
        self.require()
        scope = scope_of(request, context)
        await self._task(scope, request.task_id)
        await self._configs.delete(scope, request.task_id, request.id)
        return Empty()

    async def _complete(
        self,
        scope: Scope,
        requested: hub.TaskPushNotificationConfig,
        task_id: str,
        version: str,
        unmapped: str,
        path: str = "",
        *,
        new: bool = False,
    ) -> Registered:
        """A copy of a config with a task, an id and its unredacted credentials."""
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(requested)
        config.task_id = task_id
        known: hub.TaskPushNotificationConfig | None = None
        if not config.id:
            for one in () if new else await self._configs.list(scope, task_id):
                config.id = one.config.id
                if config in (one.config, redact(one.config)):
                    known = one.config
                    break
            else:
                config.id = new_id()
        elif is_redacted(config) and not new:
            found = await self._configs.get(scope, task_id, config.id)
            known = None if found is None else found.config
        rejection = unredact(config, known)
        if rejection is not None:
            raise _below(path, rejection)
        return Registered(config, version, unmapped)


def _version(context: CallContext) -> str:
    """The protocol version of the receiver that a caller registers; empty for the newest."""
    version = context.origin.version
    return version if is_older(version) else ""


def _for_caller(registered: Registered, context: CallContext) -> hub.TaskPushNotificationConfig:
    """A config in the form for its caller, with the content beside it from an older version."""
    if _version(context):
        side_channel.restore(context, redact_side_channel(registered.side_channel))
    return redact(registered.config)


def _below(path: str, rejection: A2AError) -> A2AError:
    """A rejection of a config, with paths within the enclosing request."""
    if not path or not rejection.violations:
        return rejection
    wrong = rejection.violations[0]
    return invalid_params(f"{path}.{wrong.field}", wrong.description)
