"""Adds the extension for resumable streams to extended cards, as in the public card."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, cast

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

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        # No other answer passes through here.
        return (
            self._offering(call) if call.operation is GET_EXTENDED_AGENT_CARD else self._service.unary(call)
        )

    async def _offering(self, call: Call[Req, Res]) -> Res:
        response = await self._service.unary(call)
        return cast("Res", offer_resume(response)) if isinstance(response, hub.AgentCard) else response

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._service.stream(call)
