"""Relays push notifications: the agent posts to the gateway, and the gateway to whoever registered, in its version.

Without it a config goes to the agent as it is, and the agent posts in its own version. Rules:
1. The agent is given an address of ours and a token of ours, both random; it never sees the caller's token and
   credentials. A notification without that token is refused.
2. The answer to the agent is the receiver's: acknowledged only when the receiver has acknowledged. Nothing is kept.
3. Callers see their own configs: what is ours in an answer is replaced by what they said, and never by what a
   caller with other credentials said, whatever the agent answers.
4. It is off unless asked for. It posts wherever callers say (http and https only), also inside the own network.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.scope import Scope
from a2a_bridge.core.service import Service, refused_stream
from a2a_bridge.dialects import older_versions
from a2a_bridge.gateway.index import visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.masking import masked
from a2a_bridge.push.notification import (
    TOKEN_HEADER,
    Names,
    deliverable,
    form_of,
    named_in,
    notification,
    read,
    task_of,
)
from a2a_bridge.push.webhook import Webhook

logger = logging.getLogger(__name__)

#: where the gateway takes notifications, below its public URL
PATH = "/.a2a-bridge/push"
_INLINE = "configuration.taskPushNotificationConfig."
#: seconds to learn what a task looks like, for receivers that want whole tasks
_LOOK = 5.0


@dataclass(slots=True, eq=False)
class _Relayed:
    """What a caller registered. token: ours. service, context: to ask for the task as that caller."""

    key: tuple[Scope, str, bytes]
    config: hub.TaskPushNotificationConfig
    version: str
    token: str
    service: Service
    context: CallContext
    named: tuple[str, str] = ("", "")


class Relay:
    """The relay of a gateway: `wrap` is its middleware, `receive` takes what agents post below PATH.

    public_url: where agents reach this gateway; may be set when that is known. most: how many configs are remembered; beyond that the one that
    was used longest ago is forgotten, and what comes for it is answered with 404. at_once: how many notifications
    may be on their way; more are answered with 503. agent_version: in which agents post, where that cannot be told
    from what they post. names: how versions in which callers name their tasks know them.
    """

    def __init__(
        self,
        webhook: Webhook,
        public_url: str,
        *,
        most: int = 10_000,
        at_once: int = 256,
        agent_version: str = "",
        names: Names | None = None,
    ) -> None:
        self._webhook = webhook
        self.public_url = public_url
        self._most = most
        self._free = at_once
        self._agent_version = agent_version
        self._names = names or {}
        self._older = older_versions()
        self._relayed: OrderedDict[str, _Relayed] = OrderedDict()
        self._ids: dict[tuple[Scope, str, bytes], str] = {}

    def __len__(self) -> int:
        return len(self._relayed)

    @property
    def _base(self) -> str:
        return self.public_url.rstrip("/") + PATH + "/"

    def wrap(self, service: Service) -> Service:
        """Middleware for what lies before the agents."""
        return _Relaying(service, self)

    # ------------------------------------------------------------------ what callers say

    def ours(
        self, call: Call[Any, Any], config: hub.TaskPushNotificationConfig, service: Service
    ) -> hub.TaskPushNotificationConfig:
        """What the agent is told instead of a caller's config. Who repeats a config gets the same one again."""
        version = call.context.origin.version
        key = visible_to(call.request, call.context), version, config.SerializeToString(deterministic=True)
        relay_id = self._ids.get(key)
        if relay_id is None:
            relay_id = self._ids[key] = secrets.token_urlsafe(24)
            kept = hub.TaskPushNotificationConfig()
            kept.CopyFrom(config)
            # A copy of the parameters, or the whole request would be kept with them.
            context = call.context.replace(
                reply={}, deadline=None, parameters=dict(call.context.parameters.items())
            )
            self._relayed[relay_id] = _Relayed(
                key,
                kept,
                version if version in self._older else "",
                secrets.token_urlsafe(24),
                service,
                context,
            )
            if len(self._relayed) > self._most:
                self._forget(next(iter(self._relayed)))
        self._relayed.move_to_end(relay_id)
        made = hub.TaskPushNotificationConfig()
        made.CopyFrom(config)
        made.url = self._base + relay_id
        made.token = self._relayed[relay_id].token
        made.ClearField("authentication")
        return made

    def theirs(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> None:
        """Puts what a caller said back into a config of the agent's, in place; not what others said."""
        relay_id = config.url.removeprefix(self._base)
        relayed = self._relayed.get(relay_id) if relay_id != config.url else None
        if relayed is None or relayed.key[0] != scope:
            return
        relayed.named = config.task_id, config.id
        config.url, config.token = relayed.config.url, relayed.config.token
        config.ClearField("authentication")
        if relayed.config.HasField("authentication"):
            config.authentication.CopyFrom(masked(relayed.config).authentication)

    def deleted(self, scope: Scope, task_id: str, config_id: str) -> None:
        """Forgets a config. One that came within a message may serve other tasks, and stays."""
        for relay_id, relayed in self._relayed.items():
            if relayed.named == (task_id, config_id) and relayed.key[0] == scope:
                if relayed.config.task_id:
                    self._forget(relay_id)
                return

    def _forget(self, relay_id: str) -> None:
        del self._ids[self._relayed.pop(relay_id).key]

    # ------------------------------------------------------------------ what agents post

    async def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Takes a notification and passes it on; the HTTP status to answer with. Raises INVALID_PARAMS."""
        relay_id = path.strip("/")
        relayed = self._relayed.get(relay_id)
        if relayed is None:
            return 404
        token = headers.get(TOKEN_HEADER.lower()) or ""
        if not hmac.compare_digest(token.encode("utf-8", "surrogateescape"), relayed.token.encode()):
            return 401
        if not self._free:
            return 503
        event = read(body, self._agent_version)
        self._free -= 1
        try:
            task = await self._task(relayed, event)
            named = named_in(self._names, relayed.version, relayed.key[0])
            made = notification(relayed.config, event, task, relayed.version, named)
            taken = await self._webhook.send(made)
        finally:
            self._free += 1
        if relay_id in self._relayed:
            self._relayed.move_to_end(relay_id)
        return 200 if taken else 502

    async def _task(self, relayed: _Relayed, event: hub.StreamResponse) -> hub.Task | None:
        """The whole task, for receivers that want it and events that do not have it."""
        which = event.WhichOneof("payload")
        if which in ("task", "message") or not form_of(relayed.version).whole_tasks:
            return None
        update: Any = getattr(event, which or "")
        request = hub.GetTaskRequest(id=update.task_id, tenant=relayed.key[0].tenant)
        try:
            async with asyncio.timeout(_LOOK):
                task = await relayed.service.unary(Call(ops.GET_TASK, request, relayed.context))
        except (A2AError, TimeoutError) as error:
            logger.debug("task %s is pushed as far as its event tells: %s", update.task_id, error)
            return task_of(event)
        if isinstance(update, hub.TaskStatusUpdateEvent):
            task.status.CopyFrom(update.status)
        return task


class _Relaying:
    def __init__(self, service: Service, relay: Relay) -> None:
        self._service = service
        self._relay = relay

    async def unary(self, call: Call[Req, Res], /) -> Res:
        operation = call.operation
        if operation is ops.SEND_MESSAGE:
            return await self._service.unary(self._inline(call))
        if operation is ops.CREATE_PUSH_CONFIG:
            request: Any = call.request
            refusal = deliverable(request)
            if refusal is not None:
                raise refusal
            made = cast("Req", self._relay.ours(call, request, self._service))
            call = Call(operation, made, call.context)
        response: Any = await self._service.unary(call)
        scope = visible_to(call.request, call.context)
        if isinstance(response, hub.TaskPushNotificationConfig):
            self._relay.theirs(scope, response)
        elif isinstance(response, hub.ListTaskPushNotificationConfigsResponse):
            for config in response.configs:
                self._relay.theirs(scope, config)
        elif operation is ops.DELETE_PUSH_CONFIG:
            deleted: Any = call.request
            self._relay.deleted(scope, deleted.task_id, deleted.id)
        return cast("Res", response)

    def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return self._service.stream(call)
        try:
            return self._service.stream(self._inline(call))
        except A2AError as error:
            return refused_stream(error)

    def _inline(self, call: Call[Req, Res]) -> Call[Req, Res]:
        """The call with a config inside its message that is ours. Raises INVALID_PARAMS."""
        given: Any = call.request
        if not given.configuration.HasField("task_push_notification_config"):
            return call
        config = given.configuration.task_push_notification_config
        refusal = deliverable(config)
        if refusal is not None:
            wrong = refusal.violations[0]
            raise invalid_params(_INLINE + wrong.field, wrong.description)
        request: Any = type(given)()
        request.CopyFrom(given)
        made = self._relay.ours(call, config, self._service)
        request.configuration.task_push_notification_config.CopyFrom(made)
        return Call(call.operation, request, call.context)
