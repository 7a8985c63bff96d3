"""Rejects requests without REQUIRED members of the schema, the same on every binding, and for a remote agent
tenants and contexts that are too long, because a gateway keeps many. It also negotiates protocol extensions
(spec 4.6): callers without a required extension are rejected, active extensions are echoed. Executors act on
`context.extensions` themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from a2a_bridge.codec import compile_required
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call
from a2a_bridge.core.errors import A2AError, Reason, invalid_params, missing_members_error
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Operation, Req, Res
from a2a_bridge.core.service import Events, Middleware, Service, reject, reject_stream
from a2a_bridge.dialects import KNOWN, Dialect, older_versions
from a2a_bridge.pb import lf_a2a_v1 as hub

#: members that 0.x requires but allows to be empty; in the hub, empty and absent are the same
_MAY_BE_EMPTY = frozenset({"message.parts"})
#: characters of names that a gateway keeps. The agent may choose contexts, and longer contexts than agents
#: that are hosted here take
LONGEST_TENANT, LONGEST_CONTEXT = 256, 1024


def validate(dialects: Iterable[Dialect] = KNOWN, *, elsewhere: bool = False) -> Middleware:
    """Middleware that raises INVALID_PARAMS naming every absent REQUIRED member (spec 1.4, field_behavior).
    elsewhere: the agent is remote, and may be of 0.x. It decides about members that only the 0.x versions of
    `dialects` allow to be empty. Tenant and context may have LONGEST_TENANT and LONGEST_CONTEXT characters.
    """
    older = older_versions(dialects) if elsewhere else frozenset()
    return lambda service: _Validate(service, older, elsewhere=elsewhere)


class _Validate:
    def __init__(self, service: Service, older: frozenset[str], *, elsewhere: bool) -> None:
        self._service = service
        self._older = older
        self._elsewhere = elsewhere
        #: compiled with the first request of an operation
        self._checks: dict[Operation[Any, Any], Callable[[Any], list[str]]] = {}

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        missing = (self._checks.get(call.operation) or self._compile(call))(call.request)
        if missing and (missing := self._select_demanded(call, missing)):
            return reject(missing_members_error(missing))
        if self._elsewhere:
            request: Any = call.request
            # Here and not in a function, which would be one more frame of each call.
            is_sent = type(request) is hub.SendMessageRequest
            if len(request.tenant) > LONGEST_TENANT or (
                is_sent and len(request.message.context_id) > LONGEST_CONTEXT
            ):
                return reject(_too_long(request))
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        missing = (self._checks.get(call.operation) or self._compile(call))(call.request)
        if missing and (missing := self._select_demanded(call, missing)):
            return reject_stream(missing_members_error(missing))
        if self._elsewhere:
            request: Any = call.request
            is_sent = type(request) is hub.SendMessageRequest
            if len(request.tenant) > LONGEST_TENANT or (
                is_sent and len(request.message.context_id) > LONGEST_CONTEXT
            ):
                return reject_stream(_too_long(request))
        return self._service.stream(call)

    def _compile(self, call: Call[Any, Any]) -> Callable[[Any], list[str]]:
        check = self._checks[call.operation] = compile_required(type(call.request))
        return check

    def _select_demanded(self, call: Call[Any, Any], missing: list[str]) -> list[str]:
        """The absent members that the caller's version requires."""
        if call.context.origin.version in self._older:
            return [path for path in missing if path not in _MAY_BE_EMPTY]
        return missing


def _too_long(request: Any) -> A2AError:
    """The error for the name that is too long to be kept."""
    name, most = ("message.contextId", LONGEST_CONTEXT)
    if len(request.tenant) > LONGEST_TENANT:
        name, most = ("tenant", LONGEST_TENANT)
    return invalid_params(name, f"is longer than {most} characters")


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
    """Middleware for an agent with this card, or with one that can be replaced. Callers without a required
    extension get EXTENSION_SUPPORT_REQUIRED with the URIs, except for the extended card, which lists them.
    """
    offer = card if isinstance(card, Offer) else Offer(card)
    return lambda service: _Extensions(service, offer) if offer.uris or offer is card else service


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
