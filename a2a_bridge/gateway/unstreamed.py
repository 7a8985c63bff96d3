"""Answers streams with SendMessage for an agent that declares streaming and rejects it. Implements Service.

Rules:
1. Only a rejection of streaming before the first event counts: METHOD_NOT_FOUND, or UNSUPPORTED_OPERATION
   with a text that mentions streams. Any other rejection may be about the message, which the agent must not
   get twice.
2. The stream has one event: the message or the task that SendMessage returns.
3. After the first such answer a warning is logged, and streams are not requested from this agent again.

google-adk 1.19 does so (a2a-sdk 0.3.26 inside, whose handler asks the agent's own card, while the card that
is shown says that it streams).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, no_events, open_stream
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)


class Unstreamed:
    """See above."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.unary = service.unary  # without a frame of its own
        self._streams = True

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return self._service.stream(call)
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        if not self._streams:
            return await self._sent(call), no_events()
        try:
            return await open_stream(self._service.stream(call))
        except A2AError as error:
            if not _rejects_streams(error):
                raise
            rejection = error.message
        answer = await self._sent(call)
        # Not earlier: an agent that rejects the message itself says nothing about streams.
        if self._streams:
            text = (
                "the agent declares streaming and rejects it (%s); its streams are answered from SendMessage"
            )
            logger.warning(text, rejection)
        self._streams = False
        return answer, no_events()

    async def _sent(self, call: Call[Any, Any]) -> Event:
        request = call.request
        if request.configuration.return_immediately:
            # History length has no meaning for a stream, which shows the end of the task.
            request = hub.SendMessageRequest()
            request.CopyFrom(call.request)
            request.configuration.return_immediately = False
        answer = await self._service.unary(Call(ops.SEND_MESSAGE, request, call.context))
        if answer.HasField("message"):
            return Event(hub.StreamResponse(message=answer.message))
        return Event(hub.StreamResponse(task=answer.task))


def _rejects_streams(error: A2AError) -> bool:
    if error.reason is Reason.UNSUPPORTED_OPERATION:
        return "stream" in error.message.lower()
    return error.reason is Reason.METHOD_NOT_FOUND
