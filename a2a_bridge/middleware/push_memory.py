"""Remembers what older callers said of push configs that 1.0 cannot hold, for agents that keep no configs of ours.

It changes no config and sends nothing; hosted agents keep it with the configs themselves, and need none of this. What was
said beside a config comes back to older callers; see a2a_bridge.push.asides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.scope import Scope, scope_of
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.dialects import KNOWN, Dialect, older_versions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations, asides

_PUSH = (ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG, ops.LIST_PUSH_CONFIGS, ops.DELETE_PUSH_CONFIG)


def push_memory(registrations: Registrations, dialects: Iterable[Dialect] = KNOWN) -> Middleware:
    """Middleware for services that are offered in `dialects`; the service itself when those are all of 1.0."""
    older = older_versions(dialects)

    def wrap(service: Service) -> Service:
        return _PushMemory(service, registrations, older) if older else service

    return wrap


class _PushMemory:
    def __init__(self, service: Service, registrations: Registrations, older: frozenset[str]) -> None:
        self._service = service
        self._known = registrations
        self._older = older

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is ops.SEND_MESSAGE:
            self._note_inline(call)
        elif call.operation in _PUSH:
            return cast("Res", await self._configs(call))
        return await self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            self._note_inline(call)
        return self._service.stream(call)

    def _note_inline(self, call: Call[Any, Any]) -> None:
        configuration = call.request.configuration
        if configuration.HasField("task_push_notification_config"):
            scope = scope_of(call.request, call.context)
            config = configuration.task_push_notification_config
            self._known.note_receiver(scope, config, asides.told_within(call.request))

    async def _configs(self, call: Call[Any, Any]) -> Any:
        request = call.request
        scope = scope_of(request, call.context)
        older = call.context.origin.version in self._older
        response = await self._service.unary(call)
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self._known.note(scope, response, asides.told(call.context) if older else "")
        elif call.operation is ops.DELETE_PUSH_CONFIG:
            self._known.forget(scope, request.task_id, request.id)
        if older:
            self._recall(call, scope, response)
        return response

    def _recall(self, call: Call[Any, Any], scope: Scope, response: Any) -> None:
        if isinstance(response, hub.TaskPushNotificationConfig):
            asides.recall(call.context, self._known.of(scope, response))
        elif isinstance(response, hub.ListTaskPushNotificationConfigsResponse):
            asides.recall(call.context, [self._known.of(scope, one) for one in response.configs])
