"""The content of push configs that only 0.x has: extracts, remembers and restores it.

Rules:
1. Content that an older caller sent beside a config goes back, in `ResponseParameters.side_channel`, to older
   callers that get, list or create it: one text for one config, an array of texts for a list.
2. Content of a config inside a message counts as if that config had been registered by itself. Such a config
   has no id yet, so it is remembered by its receiver (URL and token).
3. Hosted agents store it with the configs. For all other agents `push_memory` remembers it in this process:
   by a digest, so that long ids take no more memory and tokens are not stored; above `most` the oldest
   entries are evicted.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from cachetools import FIFOCache

from a2a_bridge.codec import dumps_ascii
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import Scope, scope_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Middleware, Service
from a2a_bridge.dialects import KNOWN, Dialect, older_versions, unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.push")

#: most configs, and most receivers, that are remembered
MOST = 10_000
#: characters that are kept for one config
LONGEST = 4096

_INLINE = "/configuration/pushNotificationConfig"
_OF_CONFIG = "/pushNotificationConfig"


def content_of(context: CallContext) -> str:
    """The content beside the config in a call that registers it; empty for none, or for too much."""
    text = context.side_channel
    return text if len(text) <= LONGEST else ""


def content_within(request: hub.SendMessageRequest) -> str:
    """The content beside the config inside a message."""
    if not request.HasField("metadata"):
        return ""
    entries = [
        [_OF_CONFIG + entry[0].removeprefix(_INLINE), *entry[1:]]
        for entry in unmapped.find_content(request, unmapped.KIND) or ()
        if entry[0].startswith(_INLINE)
    ]
    text = unmapped.write(unmapped.KIND, entries) if entries else ""
    return text if len(text) <= LONGEST else ""


def restore(context: CallContext, texts: str | Sequence[str]) -> None:
    """Returns the content with the response about one config, or about a list of them."""
    if isinstance(texts, str):
        text = texts
    else:
        text = dumps_ascii([one or None for one in texts]) if any(texts) else ""
    if text:
        # The caller's own content replaces the agent's.
        context.reply.side_channel = text


def _key(scope: Scope, *words: str) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for word in (*scope, *words):
        raw_bytes = word.encode("utf-8", "surrogatepass")
        made.update(len(raw_bytes).to_bytes(8, "big"))
        made.update(raw_bytes)
    return made.digest()


class Registrations:
    """Remembers the additional content of configs."""

    def __init__(self, most: int = MOST) -> None:
        self._configs: FIFOCache[bytes, str] = FIFOCache(most)
        self._receivers: FIFOCache[bytes, str] = FIFOCache(most)

    def __len__(self) -> int:
        return len(self._configs) + len(self._receivers)

    def note(self, scope: Scope, config: hub.TaskPushNotificationConfig, text: str) -> None:
        """Remembers the content of a config that has a task and an id; empty for none."""
        self._put(self._configs, _key(scope, config.task_id, config.id), text)
        # Content that was remembered for its receiver is not of this config.
        self._receivers.pop(_key(scope, config.url, config.token), None)

    def note_receiver(self, scope: Scope, config: hub.TaskPushNotificationConfig, text: str) -> None:
        """Remembers the content of a config that has no id yet; empty for none."""
        self._put(self._receivers, _key(scope, config.url, config.token), text)

    def of(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> str:
        """The content of a config; empty for most."""
        known = self._configs.get(_key(scope, config.task_id, config.id))
        if known is not None:
            return known
        return self._receivers.get(_key(scope, config.url, config.token), "")

    def forget(self, scope: Scope, task_id: str, config_id: str) -> None:
        """Forgets a config. Its receiver may have others."""
        self._configs.pop(_key(scope, task_id, config_id), None)

    def _put(self, texts: FIFOCache[bytes, str], key: bytes, text: str) -> None:
        texts.pop(key, None)
        if text:
            texts[key] = text


def push_memory(registrations: Registrations, dialects: Iterable[Dialect] = KNOWN) -> Middleware:
    """Middleware for services offered in `dialects`; the service itself if those are all of 1.0."""
    older = older_versions(dialects)
    return lambda service: _PushMemory(service, registrations, older) if older else service


class _PushMemory:
    def __init__(self, service: Service, registrations: Registrations, older: frozenset[str]) -> None:
        self._service = service
        self._known = registrations
        self._older = older

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        request: Any = call.request
        if call.operation is ops.SEND_MESSAGE:
            if request.HasField("configuration"):
                self._note_inline(call)
        elif call.operation in ops.PUSH:
            return self._configs(call)
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            self._note_inline(call)
        return self._service.stream(call)

    def _note_inline(self, call: Call[Any, Any]) -> None:
        configuration = call.request.configuration
        if configuration.HasField("task_push_notification_config"):
            scope = scope_of(call.request, call.context)
            config = configuration.task_push_notification_config
            self._known.note_receiver(scope, config, content_within(call.request))

    async def _configs(self, call: Call[Any, Any]) -> Any:
        request = call.request
        scope = scope_of(request, call.context)
        older = call.context.origin.version in self._older
        response = await self._service.unary(call)
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self._known.note(scope, response, content_of(call.context) if older else "")
        elif call.operation is ops.DELETE_PUSH_CONFIG:
            self._known.forget(scope, request.task_id, request.id)
        if older:
            self._return(call, scope, response)
        return response

    def _return(self, call: Call[Any, Any], scope: Scope, response: Any) -> None:
        if isinstance(response, hub.TaskPushNotificationConfig):
            restore(call.context, self._known.of(scope, response))
        elif isinstance(response, hub.ListTaskPushNotificationConfigsResponse):
            restore(call.context, [self._known.of(scope, one) for one in response.configs])
