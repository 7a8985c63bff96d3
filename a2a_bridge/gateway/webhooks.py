"""Relays push notifications: the agent posts to the gateway, which posts to the caller in the caller's
version.

Without the relay a config goes to the agent unchanged, and the agent posts in its own version. Rules:
1. The agent gets a random address and a random token of the gateway, never the caller's token and
   credentials. The agent may send the token under any of the names in use, or as a Bearer token. A
   notification without the token is rejected.
2. Without a store the agent gets the receiver's answer: a notification is acknowledged only after the
   receiver has acknowledged it. With a store it is acknowledged once it is durable there.
3. A caller gets its own config back: the gateway's address and token in a response are replaced by the values
   that this caller sent, never by values of a caller with other credentials.
4. It is off by default. `check` decides which receivers are allowed.
5. An event that is not known here is passed on as it is. For a receiver whose version cannot express it, it
   is left out (see `unknown_events`) and acknowledged.
6. The configs count in the memory account. They are in use: while the account is full, a new one is rejected,
   and none is evicted, because its notifications would be lost.
"""

import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from sys import getsizeof
from typing import Any, cast

from a2a_bridge.bindings.binding import ReadBody
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.bindings.memory import ENTRY, MemoryAccount
from a2a_bridge.bindings.unknown_events import leave_out
from a2a_bridge.codec.unknown import unknown_names
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, ResponseParameters
from a2a_bridge.core.callers import Scope, ScopeOf
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.dialects import older_versions
from a2a_bridge.gateway.relay_store import Addresses, RelayedConfig, RelayStore
from a2a_bridge.gateway.tasks import visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import (
    TOKEN_HEADERS,
    Names,
    deliverable,
    find_named,
    form_of,
    notification,
    read,
    task_of,
)
from a2a_bridge.push.secrets import is_redacted, redact, unredact
from a2a_bridge.push.webhook import Webhook

logger = logging.getLogger(__name__)

#: path of the address for notifications, below the gateway's public URL
PATH = "/.a2a-bridge/push"
_INLINE = "configuration.taskPushNotificationConfig."
#: maximum size of a config, in bytes
LARGEST = 32 * 1024
#: maximum length of an address of the gateway, in characters
_LONGEST_ID = 64
#: seconds to get the task, for receivers that want whole tasks
_LOOK = 5.0


#: headers of the agent's trace, which a notification passed on at once still belongs to
_TRACE = ("traceparent", "tracestate")

#: the authentication scheme under which the agent gets the gateway's token
_SCHEME = "Bearer"

#: scope, task and config id under which the agent has a config
_Name = tuple[Scope, str, str]


@dataclass(slots=True, eq=False)
class _Relayed:
    """A config that a caller registered."""

    #: the config
    registration: RelayedConfig
    #: of the last call that registered it, to get the task as that caller; None for a config from a store
    context: CallContext | None = None
    #: the names under which the agent returned it last
    named: _Name | None = None
    #: bytes that count in the account
    counted: int = 0

    @property
    def size(self) -> int:
        """Its bytes: the config and all texts."""
        texts: list[str] = [*self.registration.scope]
        if self.context is not None:
            texts += chain.from_iterable(self.context.parameters.items())
        if self.named is not None:
            texts += (*self.named[0], *self.named[1:])
        return ENTRY + self.registration.config.ByteSize() + sum(map(getsizeof, texts))


#: the reason to reject a config; None if it is allowed
Check = Callable[[hub.TaskPushNotificationConfig], Awaitable[A2AError | None]]


#: a notification as its caller may see it; raises TASK_NOT_FOUND for a task of somebody else
Announced = Callable[[Scope, hub.StreamResponse], Awaitable[hub.StreamResponse]]


async def pass_unchanged(_scope: Scope, event: hub.StreamResponse) -> hub.StreamResponse:
    """A notification of an agent that knows its callers."""
    return event


async def _harmless(config: hub.TaskPushNotificationConfig) -> A2AError | None:
    return deliverable(config)


class Relay:
    """The relay of a gateway: a Service around the agent; `receive` takes the agent's posts below PATH.

    service: the agent. webhook: posts notifications that are not stored. public_url: where agents reach this
    gateway; may be set once it is known. check: which configs are rejected. store: keeps configs and
    notifications beyond this process; already open. most: configs that are remembered here; beyond that they
    are evicted in LRU order, and without a store a notification for an evicted config is answered with 404.
    at_once: maximum concurrent notifications; more are answered with 503. agent_version: returns the version
    of agents' posts, if the posts do not show it; it changes with the agent's card. names: renames tasks for
    versions in which callers name them. announced: makes a notification as its caller may see it. scoped: the
    scope of a call. memory: the account; None for an account without a limit.
    """

    def __init__(
        self,
        service: Service,
        webhook: Webhook,
        public_url: str,
        *,
        check: Check = _harmless,
        store: RelayStore | None = None,
        most: int = 10_000,
        at_once: int = 256,
        agent_version: Callable[[], str] = str,
        names: Names | None = None,
        announced: Announced = pass_unchanged,
        scoped: ScopeOf = visible_to,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._memory = memory or MemoryAccount()
        self._service = service
        self._webhook = webhook
        self._scoped = scoped
        self.public_url = public_url
        self._check = check
        self._store = store
        self._addresses = Addresses(secrets.token_bytes(32)) if store is None else store.addresses
        self._most = most
        self._free = at_once
        self._agent_version = agent_version
        self._names = names or {}
        self._announced = announced
        self._older = older_versions()
        self._relayed: OrderedDict[str, _Relayed] = OrderedDict()
        #: config names to addresses; bounded, because each remembered config has at most one name
        self._relay_ids: dict[_Name, str] = {}

    def __len__(self) -> int:
        return len(self._relayed)

    @property
    def _base(self) -> str:
        return self.public_url.rstrip("/") + PATH + "/"

    async def unary(self, call: Call[Req, Res], /) -> Res:
        operation = call.operation
        if operation is ops.SEND_MESSAGE:
            return await self._service.unary(await self._inline(call) if _has_config(call) else call)
        scope = self._scoped(call.request, call.context)
        gone = ""
        if operation is ops.CREATE_PUSH_CONFIG:
            original: Any = call.request
            request: Any = await self._restore_credentials(call, original, original.task_id)
            rejection = await self._rejection(request)
            if rejection is not None:
                raise rejection
            made = cast("Req", await self._relay_config(call, request))
            call = Call(operation, made, call.context)
        elif operation is ops.DELETE_PUSH_CONFIG:
            gone = await self._deletable(call)
        response: Any = await self._service.unary(call)
        if isinstance(response, hub.TaskPushNotificationConfig):
            await self._restore_callers_config(scope, response)
        elif isinstance(response, hub.ListTaskPushNotificationConfigsResponse):
            for config in response.configs:
                await self._restore_callers_config(scope, config)
        elif gone:
            await self._forget(gone)
        return cast("Res", response)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE or not _has_config(call):
            return self._service.stream(call)
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        return await open_stream(self._service.stream(await self._inline(call)))

    async def _inline(self, call: Call[Req, Res]) -> Call[Req, Res]:
        """The call with the config inside its message replaced by the gateway's. Raises INVALID_PARAMS."""
        original: Any = call.request
        config = original.configuration.task_push_notification_config
        try:
            config = await self._restore_credentials(call, config, original.message.task_id)
            rejection = await self._rejection(config)
        except A2AError as error:
            rejection = error
        if rejection is not None:
            if not rejection.violations:
                raise rejection
            wrong = rejection.violations[0]
            raise invalid_params((_INLINE + wrong.field).rstrip("."), wrong.description)
        request: Any = type(original)()
        request.CopyFrom(original)
        made = await self._relay_config(call, config)
        request.configuration.task_push_notification_config.CopyFrom(made)
        return Call(call.operation, request, call.context)

    # ------------------------------------------------------------------ calls of callers

    async def _rejection(self, config: hub.TaskPushNotificationConfig) -> A2AError | None:
        """Why a config is rejected: INVALID_PARAMS with the member at fault; None if it is allowed."""
        if config.ByteSize() > LARGEST:
            return invalid_params("", f"a push notification config may have {LARGEST} bytes")
        return await self._check(config)

    async def _relay_config(
        self, call: Call[Any, Any], config: hub.TaskPushNotificationConfig
    ) -> hub.TaskPushNotificationConfig:
        """The config for the agent in place of the config of a caller; a repeated config gets the same
        address again. Raises UNAVAILABLE if it cannot be stored, RESOURCE_EXHAUSTED for a new config while
        memory is short.
        """
        version = call.context.origin.version
        scope = self._scoped(call.request, call.context)
        own = hub.TaskPushNotificationConfig()
        own.CopyFrom(config)
        registration = RelayedConfig(scope, version if version in self._older else "", own)
        relay_id = self._addresses.address(registration)
        if relay_id not in self._relayed and (full := self._memory.rejection()) is not None:
            raise full
        if self._store is not None:
            # Each time: another gateway may have evicted it since.
            await self._store.keep(relay_id, registration)
        # Each time, because the newest credentials are valid for the longest time. A copy of the parameters;
        # otherwise the whole request would stay in memory.
        parameters = dict(call.context.parameters.items())
        context = call.context.replace(reply=ResponseParameters(), deadline=None, parameters=parameters)
        self._remember(relay_id, _Relayed(registration, context))
        made = hub.TaskPushNotificationConfig()
        made.CopyFrom(config)
        made.url = self._base + relay_id
        made.token = self._addresses.token(relay_id)
        made.authentication.scheme, made.authentication.credentials = _SCHEME, made.token
        return made

    async def _restore_callers_config(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> None:
        """Restores this caller's values in a config of the agent, in place; never those of another caller."""
        relayed = await self._of(config)
        if relayed is None or relayed.registration.scope != scope:
            return
        shown_config = redact(relayed.registration.config)
        self._name(config.url.removeprefix(self._base), (scope, config.task_id, config.id))
        config.url, config.token = shown_config.url, shown_config.token
        config.ClearField("authentication")
        if shown_config.HasField("authentication"):
            config.authentication.CopyFrom(shown_config.authentication)

    async def _restore_credentials(
        self, call: Call[Any, Any], config: hub.TaskPushNotificationConfig, task_id: str
    ) -> hub.TaskPushNotificationConfig:
        """A caller's config, with the credentials that a mask in it stands for. Raises INVALID_PARAMS."""
        if not is_redacted(config):
            return config
        _, known = await self._find_registered(call, task_id, config.id)
        made = hub.TaskPushNotificationConfig()
        made.CopyFrom(config)
        rejection = unredact(made, None if known is None else known.registration.config)
        if rejection is not None:
            raise rejection
        return made

    async def _deletable(self, call: Call[Any, Any]) -> str:
        """The address of the config that a caller is about to delete, if it is the gateway's; else empty. A
        config that came within a message does not count, because it may serve other tasks.
        """
        relay_id, known = await self._find_registered(call, call.request.task_id, call.request.id)
        return relay_id if known is not None and known.registration.config.task_id else ""

    async def _find_registered(
        self, call: Call[Any, Any], task_id: str, config_id: str
    ) -> tuple[str, _Relayed | None]:
        """The address and content of a config that the caller has registered; None if there is none."""
        scope = self._scoped(call.request, call.context)
        relay_id = self._relay_ids.get((scope, task_id, config_id), "")
        known = self._relayed.get(relay_id)
        if self._store is None or not task_id or not config_id:
            return relay_id, known
        # Another gateway on that store may have set it since it was returned here: the agent knows.
        request = hub.GetTaskPushNotificationConfigRequest(
            task_id=task_id, id=config_id, tenant=call.request.tenant
        )
        query = Call(ops.GET_PUSH_CONFIG, request, call.context.replace(reply=ResponseParameters()))
        try:
            config = await self._service.unary(query)
            found = await self._of(config)
        except A2AError as error:
            logger.debug("whether the config %s is relayed is unknown: %s", config_id, error)
            return relay_id, known
        if found is None or found.registration.scope != scope:
            return "", None
        return config.url.removeprefix(self._base), found

    async def _forget(self, relay_id: str) -> None:
        """Deletes a config and its pending notifications."""
        if relay_id in self._relayed:
            self._drop(relay_id)
        if self._store is not None:
            await self._store.forget(relay_id)

    async def _of(self, config: hub.TaskPushNotificationConfig) -> _Relayed | None:
        """The registered config for a config of the agent; None if it is not the gateway's."""
        relay_id = config.url.removeprefix(self._base)
        return None if relay_id == config.url else await self._recall(relay_id)

    async def _recall(self, relay_id: str) -> _Relayed | None:
        relayed = self._relayed.get(relay_id)
        if relayed is not None or self._store is None:
            return relayed
        registration = await self._store.recall(relay_id)
        registered = self._relayed.get(relay_id)
        if registered is not None or registration is None:
            return registered  # registered meanwhile by a call with more knowledge of it
        relayed = _Relayed(registration)
        self._remember(relay_id, relayed)
        return relayed

    def _name(self, relay_id: str, name: _Name) -> None:
        # The previous config of that name is kept: notifications that the agent posted before the change may
        # still arrive, and the same address may have other names. It is evicted in LRU order like others.
        before = self._relay_ids.get(name)
        if before is not None:
            self._relayed[before].named = None
            self._count(self._relayed[before])
        relayed = self._relayed[relay_id]
        if relayed.named is not None:
            self._relay_ids.pop(relayed.named, None)
        relayed.named = name
        self._count(relayed)
        self._relay_ids[name] = relay_id

    def _remember(self, relay_id: str, relayed: _Relayed) -> None:
        before = self._relayed.get(relay_id)
        if before is not None:
            relayed.named, relayed.counted = before.named, before.counted
        self._relayed[relay_id] = relayed
        self._relayed.move_to_end(relay_id)
        self._count(relayed)
        if len(self._relayed) > self._most:
            self._drop(next(iter(self._relayed)))

    def _count(self, relayed: _Relayed) -> None:
        size = relayed.size
        self._memory.add(size - relayed.counted)
        relayed.counted = size

    def _drop(self, relay_id: str) -> None:
        gone = self._relayed.pop(relay_id)
        self._memory.add(-gone.counted)
        if gone.named is not None:
            del self._relay_ids[gone.named]

    # ------------------------------------------------------------------ posts of agents

    async def receive(self, path: str, headers: Mapping[str, str], read_body: ReadBody) -> int:
        """Accepts a notification and passes it on; its body is read after the check of its token. Returns the
        HTTP status. Raises INVALID_PARAMS, UNAVAILABLE, and TASK_NOT_FOUND for a task that does not belong to
        the caller of the address.

        Each rejection is logged as a warning, because few agents report that their notifications are lost.
        """
        relay_id = path.strip("/")
        relayed = await self._recall(relay_id) if len(relay_id) <= _LONGEST_ID else None
        if relayed is None:
            return _reject(404, "no config has this address: it was deleted, evicted, or never registered")
        if not _carries(headers, self._addresses.token(relay_id)):
            names = ", ".join(TOKEN_HEADERS)
            return _reject(401, f"the token of its config is in none of {names}, Authorization")
        body = await read_body()
        if not self._free:
            return _reject(503, "too many notifications are being passed on")
        self._free -= 1
        try:
            event = read(body, self._agent_version())
            trace = {name: text for name in _TRACE if (text := headers.get(name))}
            taken = await self._pass_on(relay_id, relayed, event, trace)
        except A2AError as error:
            logger.warning("a notification of the agent was rejected: %s", error)
            raise
        finally:
            self._free += 1
        if relay_id in self._relayed:
            self._relayed.move_to_end(relay_id)
        return 200 if taken else 502

    async def _pass_on(
        self, relay_id: str, relayed: _Relayed, event: hub.StreamResponse, trace: Mapping[str, str]
    ) -> bool:
        registration = relayed.registration
        scope = registration.scope
        if event.WhichOneof("payload") is None and (
            form_of(registration.version).whole_tasks or not unknown_names(event)
        ):
            leave_out(event)
            return True
        event = await self._announced(scope, event)
        task = await self._task(relayed, event)
        if task is not None:
            task = (await self._announced(scope, hub.StreamResponse(task=task))).task
        named = find_named(self._names, registration.version, scope)
        if self._store is None:
            return await self._webhook.send(
                notification(registration.config, event, task, registration.version, named), trace
            )
        # The delivery worker knows neither the task nor its names.
        if task is not None:
            event = hub.StreamResponse(task=task)
        await self._store.post(relay_id, registration, event if named is None else named(event))
        return True

    async def _task(self, relayed: _Relayed, event: hub.StreamResponse) -> hub.Task | None:
        """The whole task, for receivers that want it and events without it."""
        which = event.WhichOneof("payload")
        if which in (None, "task", "message") or not form_of(relayed.registration.version).whole_tasks:
            return None
        if relayed.context is None:
            return task_of(event)
        update: Any = getattr(event, which)
        tenant = relayed.registration.scope.tenant
        begun = Call(ops.GET_TASK, hub.GetTaskRequest(tenant=tenant), relayed.context)
        try:
            task = await fetch_task(self._service, begun, update.task_id, seconds=_LOOK)
        except A2AError as error:
            logger.debug("task %s is pushed as far as its event tells: %s", update.task_id, error)
            return task_of(event)
        if isinstance(update, hub.TaskStatusUpdateEvent):
            task.status.CopyFrom(update.status)
            task.generation = update.generation
        return task


def _carries(headers: Mapping[str, str], token: str) -> bool:
    """True if a notification has the token, under any of the known header names. headers: in lower case."""
    tokens = [headers.get(name.lower()) or "" for name in TOKEN_HEADERS]
    scheme, _, credentials = (headers.get("authorization") or "").partition(" ")
    if scheme.lower() == _SCHEME.lower():
        tokens.append(credentials.strip())
    return any(hmac.compare_digest(one.encode("utf-8", "surrogateescape"), token.encode()) for one in tokens)


def _reject(status: int, reason: str) -> int:
    logger.warning("a notification of the agent was rejected with %d: %s", status, reason)
    return status


def _has_config(call: Call[Any, Any]) -> bool:
    return bool(call.request.configuration.HasField("task_push_notification_config"))
