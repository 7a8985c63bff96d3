"""Middleware that changes extended cards, and passes everything else on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.pb import lf_a2a_v1 as hub

#: makes the card that a caller gets
Change = Callable[[hub.AgentCard, CallContext], hub.AgentCard]


def change_extended_card(change: Change) -> Middleware:
    """Middleware that changes the response to GetExtendedAgentCard (spec 3.1.11)."""
    return lambda service: _ExtendedCard(service, change)


class _ExtendedCard:
    def __init__(self, service: Service, change: Change) -> None:
        self._service = service
        self._change = change
        self.stream = service.stream

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        unary = self._service.unary
        return self._changed(call) if call.operation is GET_EXTENDED_AGENT_CARD else unary(call)

    async def _changed(self, call: Call[Req, Res]) -> Res:
        card: Any = await self._service.unary(call)
        return cast("Res", self._change(card, call.context))
