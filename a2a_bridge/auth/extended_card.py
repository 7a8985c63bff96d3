"""Extended cards say what the edge asks for, as the public card does."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, cast

from a2a_bridge.auth.authentication import Authentication
from a2a_bridge.core.call import Call
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.pb import lf_a2a_v1 as hub


def describe_extended_card(authentication: Authentication) -> Middleware:
    """Middleware that describes the methods of the edge in GetExtendedAgentCard (spec 3.1.11)."""

    def wrap(service: Service) -> Service:
        return _Described(service, authentication)

    return wrap


class _Described:
    def __init__(self, service: Service, authentication: Authentication) -> None:
        self._service = service
        self._authentication = authentication

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        unary = self._service.unary
        return self._describe(call) if call.operation is GET_EXTENDED_AGENT_CARD else unary(call)

    async def _describe(self, call: Call[Req, Res]) -> Res:
        card: Any = await self._service.unary(call)
        assert isinstance(card, hub.AgentCard)  # noqa: S101  for the type checker
        return cast("Res", self._authentication.describe(card))

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._service.stream(call)
