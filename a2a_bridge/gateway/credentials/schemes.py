"""Compares the credentials that a gateway sends with those that the agent's card asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from a2a_bridge.bindings.binding import TlsFiles
from a2a_bridge.gateway.credentials.sending import UpstreamCredentials
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.gateway")


def mismatch(card: hub.AgentCard, fits: Callable[[hub.SecurityScheme], bool], *, certificate: bool) -> str:
    """The security schemes that a card asks for, if no alternative of its requirements can be satisfied; else
    empty.

    fits: whether the credentials satisfy a scheme. certificate: whether there is a client certificate.
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
    """Logs that the agent's card asks for other credentials than those that are sent. tls: of DialOptions."""
    if credentials is None:
        return
    certificate = tls is not None and not (isinstance(tls, TlsFiles) and not tls.certificate)
    if asked := mismatch(card, credentials.fits, certificate=certificate):
        _log.warning(
            "the card of %r asks for %s, and the configured credentials are none of that", card.name, asked
        )


def takes_bearer_token(scheme: hub.SecurityScheme) -> bool:
    """Whether a scheme without flows takes a bearer token; true for one of unknown kind."""
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
