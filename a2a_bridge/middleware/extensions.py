"""Negotiates protocol extensions (spec 4.6): rejects callers without a required one, echoes the active ones.

Executors act on `context.extensions` themselves.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Req, Res
from a2a_bridge.core.service import Events, Middleware, Service, reject, reject_stream
from a2a_bridge.pb import lf_a2a_v1 as hub


class Offer:
    """The extensions that a card offers. The card can be replaced."""

    def __init__(self, card: hub.AgentCard) -> None:
        self.replace(card)

    def replace(self, card: hub.AgentCard) -> None:
        """Offers the extensions of another card from now on."""
        found = {one.uri: one.required for one in card.capabilities.extensions if one.uri}
        self.uris = frozenset(found)
        self.required = tuple(uri for uri, required in found.items() if required)


def extensions(card: hub.AgentCard | Offer) -> Middleware:
    """Middleware for an agent with this card, or with one that can be replaced.

    A caller without a required extension gets EXTENSION_SUPPORT_REQUIRED with the URIs in the metadata,
    except for the extended card, which tells callers about extensions.
    """
    offer = card if isinstance(card, Offer) else Offer(card)

    def wrap(service: Service) -> Service:
        return _Extensions(service, offer) if offer.uris or offer is card else service

    return wrap


class _Extensions:
    def __init__(self, service: Service, offer: Offer) -> None:
        self._service = service
        self._offer = offer

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        # Most callers declare nothing, and most agents require nothing.
        offer = self._offer
        if offer.required or (offer.uris and call.context.parameters.get(EXTENSIONS_PARAMETER)):
            rejection = self._negotiate(call)
            if rejection is not None:
                return reject(rejection)
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        rejection = self._negotiate(call)
        return self._service.stream(call) if rejection is None else reject_stream(rejection)

    def _negotiate(self, call: Call[Any, Any]) -> A2AError | None:
        declared = call.context.extensions
        missing = [uri for uri in self._offer.required if uri not in declared]
        if missing and call.operation is not GET_EXTENDED_AGENT_CARD:
            listed = ", ".join(missing)
            return A2AError(
                Reason.EXTENSION_SUPPORT_REQUIRED,
                f"this agent requires the extensions: {listed}",
                metadata={"requiredExtensions": listed},
            )
        active = [uri for uri in declared if uri in self._offer.uris]
        if active:
            call.context.reply[EXTENSIONS_PARAMETER] = ", ".join(active)
        return None
