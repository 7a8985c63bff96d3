"""Adds the extension for resumable streams to extended cards, as in the public card."""

from __future__ import annotations

from typing import cast

from a2a_bridge.core.call import Call
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Req, Res
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub


class OffersResume:
    """Middleware for a service with resumable streams."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def unary(self, call: Call[Req, Res], /) -> Res:
        response = await self._service.unary(call)
        if call.operation is GET_EXTENDED_AGENT_CARD and isinstance(response, hub.AgentCard):
            return cast("Res", offer_resume(response))
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._service.stream(call)
