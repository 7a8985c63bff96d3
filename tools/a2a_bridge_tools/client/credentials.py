"""Credentials of the user, put where the card of an agent wants them (SPEC.md 10.1, 10.4).

Rules:
1. They go to the interfaces of an agent only, never with the request for its public card.
2. A card without security schemes gets a bearer token as `Authorization` and an API key as `X-API-Key`: many
   agents do not declare what they ask for. A card whose schemes take neither gets none, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.masking import Secrets
from a2a_bridge.pb import lf_a2a_v1 as hub

_BEARER = ("oauth2_security_scheme", "open_id_connect_security_scheme")


@dataclass(slots=True)
class Placed:
    """Where credentials go."""

    #: service parameters
    parameters: dict[str, str] = field(default_factory=dict)
    #: members of the query of URLs
    query: dict[str, str] = field(default_factory=dict)
    #: the credentials that no scheme takes
    unused: list[str] = field(default_factory=list)


def takes_bearer(scheme: hub.SecurityScheme) -> bool:
    """Whether a scheme takes a bearer token."""
    which = scheme.WhichOneof("scheme")
    http = scheme.http_auth_security_scheme.scheme.lower()
    return which in _BEARER or (which == "http_auth_security_scheme" and http == "bearer")


def list_required(card: hub.AgentCard) -> list[str]:
    """The names of the schemes that the card asks for; empty if it also lets callers in without any."""
    found = [list(one.schemes) for one in card.security_requirements]
    return [] if not all(found) else list(dict.fromkeys(name for names in found for name in names))


def place(card: hub.AgentCard, bearer: str, api_key: str) -> Placed:
    """Puts credentials where the card wants them."""
    placed = Placed()
    schemes = list(_list_wanted(card))
    if bearer:
        if not schemes or any(map(takes_bearer, schemes)):
            placed.parameters["authorization"] = f"Bearer {bearer}"
        else:
            placed.unused.append("--bearer")
    if api_key:
        keys = [one.api_key_security_scheme for one in schemes if one.HasField("api_key_security_scheme")]
        if not schemes:
            placed.parameters["x-api-key"] = api_key
        for one in keys:
            if one.location == "query":
                placed.query[one.name] = api_key
            elif one.location == "cookie":
                placed.parameters["cookie"] = f"{one.name}={api_key}"
            else:
                placed.parameters[one.name.lower()] = api_key
        if schemes and not keys:
            placed.unused.append("--api-key")
    return placed


def secrets_of(card: hub.AgentCard, options: DialOptions) -> Secrets:
    """The credentials of a connection, and where the card says that some are."""
    schemes = (one.api_key_security_scheme for one in card.security_schemes.values())
    # Each member of the query that the user has named may be one.
    given = (name for name, _ in parse_qsl(options.named.partition("?")[2]))
    names = [name.lower() for name in (*(one.name for one in schemes if one.name), *given)]
    return Secrets.of(options.parameters, options.query, names)


def _list_wanted(card: hub.AgentCard) -> Iterator[hub.SecurityScheme]:
    """The schemes of the requirements; without requirements all that are declared."""
    names = {name for one in card.security_requirements for name in one.schemes}
    for name, scheme in card.security_schemes.items():
        if not names or name in names:
            yield scheme
