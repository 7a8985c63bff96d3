"""Remembers in which version push configs were registered, and what older callers said that 1.0 cannot hold.

It changes no config and sends nothing. Rules:
1. The version is noted before the call is passed on, because events may be sent before it is answered.
2. What was said beside a config comes back, as a reply parameter, to older callers that get, list or create it:
   one text for one config, and for a list what its binding takes: a text about the array, or an array of texts.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable
from typing import Any, cast

from a2a_bridge.codec import dumps_ascii
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import ASIDE_PARAMETER, Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.scope import Scope, scope_of
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.dialects import JSONRPC, KNOWN, Dialect, older_versions, residue
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations

logger = logging.getLogger(__name__)

#: bytes of what is kept beside one config
LONGEST = 4096

#: where a list is the bare array, and no member of anything
_BARE_LISTS = JSONRPC.name
_INLINE = "/configuration/pushNotificationConfig"
_OF_CONFIG = "/pushNotificationConfig"
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

    def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            self._note_inline(call)
        return self._service.stream(call)

    def _version(self, call: Call[Any, Any]) -> str:
        version = call.context.origin.version
        return version if version in self._older else ""

    def _note_inline(self, call: Call[Any, Any]) -> None:
        configuration = call.request.configuration
        if configuration.HasField("task_push_notification_config"):
            scope = scope_of(call.request, call.context)
            config = configuration.task_push_notification_config
            self._known.note_receiver(scope, config, self._version(call), _within(call.request))

    async def _configs(self, call: Call[Any, Any]) -> Any:
        request = call.request
        scope = scope_of(request, call.context)
        version = self._version(call)
        aside = ""
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self._known.note_receiver(scope, request, version)
            aside = call.context.parameters.get(ASIDE_PARAMETER, "") if version else ""
        response = await self._service.unary(call)
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self._known.note(scope, response, version, aside if len(aside) <= LONGEST else "")
        elif call.operation is ops.DELETE_PUSH_CONFIG:
            self._known.forget(scope, request.task_id, request.id)
        if version:
            self._recall(call, scope, response)
        return response

    def _recall(self, call: Call[Any, Any], scope: Scope, response: Any) -> None:
        aside = ""
        if isinstance(response, hub.TaskPushNotificationConfig):
            aside = self._known.of(scope, response).aside
        elif isinstance(response, hub.ListTaskPushNotificationConfigsResponse):
            asides = [self._known.of(scope, one).aside for one in response.configs]
            aside = _together(asides) if call.context.origin.binding == _BARE_LISTS else _each(asides)
        if aside:
            # In place of what the agent may have said: this is what the caller has said.
            call.context.reply[ASIDE_PARAMETER] = aside


def _within(request: hub.SendMessageRequest) -> str:
    """What a message said beside the config in it, as if that had been registered by itself."""
    if not request.HasField("metadata"):
        return ""
    entries = [
        [_OF_CONFIG + entry[0].removeprefix(_INLINE), *entry[1:]]
        for entry in residue.carried(request, residue.KIND) or ()
        if entry[0].startswith(_INLINE)
    ]
    text = residue.write(residue.KIND, entries) if entries else ""
    return text if len(text) <= LONGEST else ""


def _each(asides: list[str]) -> str:
    """What was said beside the configs of a list, one by one."""
    return dumps_ascii([aside or None for aside in asides]) if any(asides) else ""


def _together(asides: list[str]) -> str:
    """What was said beside the configs of a list that is an array: said of the array."""
    entries = [
        [f"/{place}{entry[0]}", *entry[1:]]
        for place, aside in enumerate(asides)
        for entry in residue.read(aside, residue.KIND) or ()
    ]
    try:
        return residue.write(residue.KIND, entries) if entries else ""
    except residue.TooMuch as error:
        logger.warning("what was said beside push notification configs %s", error)
        return ""
