"""Calls with the credentials that an agent expects: their interface, and the service that adds them.

Rules:
1. Only interfaces at a host that the operator named get credentials (`Candidate.credentials`).
2. The caller's `authorization` is never sent in place of, or beside, the credentials.
3. A call that the agent rejects as unauthenticated has not been processed. The gateway repeats it once with
   fresh credentials, if there are any.
4. If the agent rejects credentials of the gateway, that is no fault of the caller: it gets UNAVAILABLE.
   Its challenge (WWW-Authenticate) concerns credentials that no caller can change.
5. A call without credentials is marked, because it says nothing about the agent. Only the gateway's question
   whether the agent is there is sent without them.
6. Where the card of the agent asks for other credentials than the gateway sends, a log line says so.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.gateway.upstream import CREDENTIALS, QUESTION, Dial
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.gateway")

_AUTHORIZATION = frozenset({"authorization"})

T = TypeVar("T")


class UpstreamCredentials(Protocol):
    """The credentials for one agent."""

    @property
    def names(self) -> frozenset[str]:
        """The service parameters that it sets, in lower case."""

    @property
    def is_own(self) -> bool:
        """Whether the credentials belong to the gateway, not to its caller."""

    @property
    def made_from(self) -> frozenset[str]:
        """The service parameters of callers from which they are made, in lower case."""

    async def of(self, context: CallContext, /) -> Mapping[str, str]:
        """The service parameters for a call. Raises UNAUTHENTICATED if the caller lacks the parameters of
        `made_from`, UNAVAILABLE while there are no credentials.
        """

    def invalidate(self, rejected: Mapping[str, str], context: CallContext, /) -> bool:
        """Forgets parameters of `of` that the agent has rejected. Returns whether a repetition can help."""

    def fits(self, scheme: hub.SecurityScheme) -> bool:
        """Whether they can satisfy a security scheme of an agent's card."""


def add_credentials(credentials: UpstreamCredentials, dial: Dial) -> Dial:
    """How to dial interfaces so that calls have these credentials. Dialling raises ValueError if the options
    set one of the parameters, too.
    """

    @asynccontextmanager
    async def dial_sending(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        options = replace(options, forward=(options.forward - _AUTHORIZATION) | credentials.names)
        if not candidate.credentials:
            async with dial(candidate, options) as service:
                yield service
            return
        if twice := sorted(credentials.names.intersection(options.parameters)):
            raise ValueError(f"{', '.join(twice)} is set for all calls, and by the credentials")
        async with dial(candidate, options) as service:
            yield _Sending(service, credentials)

    return dial_sending


class _Sending:
    """Implements Service."""

    def __init__(self, service: Service, credentials: UpstreamCredentials) -> None:
        self._service = service
        self._credentials = credentials

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        return self._attempt(call, self._service.unary)

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(partial(self._attempt, call, self._open))

    async def _open(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        return await open_stream(self._service.stream(call))

    async def _attempt(self, call: Call[Req, Res], send: Callable[[Call[Req, Res]], Awaitable[T]]) -> T:
        """The result of a call with credentials, repeated once if fresh credentials can help."""
        sent = await self._parameters(call.context)
        try:
            return await send(_with(call, sent))
        except A2AError as error:
            if not self._can_repeat(error, sent, call):
                raise self._told(error) from None
        sent = await self._parameters(call.context)
        try:
            return await send(_with(call, sent))
        except A2AError as error:
            raise self._told(error) from None

    async def _parameters(self, context: CallContext) -> Mapping[str, str]:
        try:
            return await self._credentials.of(context)
        except A2AError as error:
            if context.origin == QUESTION:
                return {}
            error.metadata["phase"] = CREDENTIALS
            raise

    def _can_repeat(self, error: A2AError, sent: Mapping[str, str], call: Call[Any, Any]) -> bool:
        if error.reason is not Reason.UNAUTHENTICATED or not sent:
            return False
        return self._credentials.invalidate(sent, call.context)

    def _told(self, error: A2AError) -> A2AError:
        """The error for the caller."""
        error.challenges = ()
        if error.reason is not Reason.UNAUTHENTICATED or not self._credentials.is_own:
            return error
        told = A2AError(
            Reason.UNAVAILABLE, "the agent does not accept the credentials of this gateway", blame=Blame.SELF
        )
        told.add_note(f"the agent said: {error.message[:200]}")
        return told


def _with(call: Call[Req, Res], sent: Mapping[str, str]) -> Call[Req, Res]:
    if not sent:
        return call
    parameters: Any = sent, call.context.parameters
    return Call(call.operation, call.request, call.context.replace(parameters=ChainMap(*parameters)))


def mismatch(card: hub.AgentCard, fits: Callable[[hub.SecurityScheme], bool], *, certificate: bool) -> str:
    """The security schemes that a card asks for, if no alternative of its requirements can be satisfied; else
    empty. fits: whether the credentials satisfy a scheme. certificate: whether there is a client certificate.
    """
    if not card.security_requirements:
        return ""
    alternatives = []
    for requirement in card.security_requirements:
        unmet = [
            f"{name} ({_kind(scheme)})"
            for name in sorted(requirement.schemes)
            for scheme in (
                card.security_schemes[name] if name in card.security_schemes else hub.SecurityScheme(),
            )
            if not (certificate if scheme.WhichOneof("scheme") == "mtls_security_scheme" else fits(scheme))
        ]
        if not unmet:
            return ""
        alternatives.append(" and ".join(unmet))
    return ", or ".join(dict.fromkeys(alternatives))


def note_mismatch(card: hub.AgentCard, credentials: UpstreamCredentials | None, tls: Any) -> None:
    """Logs that the agent's card asks for other credentials than the gateway sends. tls: of DialOptions."""
    if credentials is None:
        return
    certificate = tls is not None and not (isinstance(tls, TlsFiles) and not tls.certificate)
    if asked := mismatch(card, credentials.fits, certificate=certificate):
        _log.warning(
            "the card of %r asks for %s, and the configured credentials are none of that", card.name, asked
        )


def takes_bearer_token(scheme: hub.SecurityScheme) -> bool:
    """Whether a scheme without flows takes a bearer token; true for a scheme of unknown kind."""
    match scheme.WhichOneof("scheme"):
        case "http_auth_security_scheme":
            return scheme.http_auth_security_scheme.scheme.lower() == "bearer"
        case "api_key_security_scheme" | "mtls_security_scheme" | "oauth2_security_scheme":
            return False
        case _:
            return True


def _kind(scheme: hub.SecurityScheme) -> str:
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            key = scheme.api_key_security_scheme
            return f"API key in {key.location} {key.name!r:.60}"
        case "http_auth_security_scheme":
            return f"HTTP {scheme.http_auth_security_scheme.scheme[:30]}"
        case "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow") or "unknown flow"
            return f"OAuth 2, {flow.replace('_', ' ')}"
        case "open_id_connect_security_scheme":
            return "OpenID Connect"
        case "mtls_security_scheme":
            return "client certificate"
        case _:
            return "unknown"


class StaticCredentials:
    """Credentials that stay the same, such as an API key; without any, callers' credentials are only removed.

    parameters: service parameters by lower-case name. also: names of parameters with credentials that the
    options of the client side set.
    """

    made_from: frozenset[str] = frozenset()
    is_own = True

    def __init__(self, parameters: Mapping[str, str], *, also: frozenset[str] = frozenset()) -> None:
        self._parameters = dict(parameters)
        self.names = frozenset(parameters)
        self._known = self.names | also

    async def of(self, _context: CallContext) -> Mapping[str, str]:
        """The parameters."""
        return self._parameters

    def invalidate(self, _rejected: Mapping[str, str], _context: CallContext) -> bool:
        """There are no others."""
        return False

    def fits(self, scheme: hub.SecurityScheme) -> bool:
        """Whether a parameter has the name that the scheme asks for."""
        match scheme.WhichOneof("scheme"):
            case "api_key_security_scheme":
                key = scheme.api_key_security_scheme
                return key.location != "header" or key.name.lower() in self._known
            case "mtls_security_scheme":
                return False
            case _:
                return "authorization" in self._known
