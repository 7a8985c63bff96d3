"""Authentication and authorisation at the edge: who calls, and which operations the caller may use."""

from a2a_bridge.auth.api_keys import ApiKeys, KeyFile, KeyRecord, NewKey
from a2a_bridge.auth.authentication import (
    Authentication,
    ClientCertificates,
    Method,
    ProxyHeader,
    UncheckedCredentialsError,
    describe_extended_card,
)
from a2a_bridge.auth.bearer import BearerTokens
from a2a_bridge.auth.key_set import KeySetSource
from a2a_bridge.auth.rules import LiveRules, Rule, authorise
from a2a_bridge.signing import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "ApiKeys",
    "Authentication",
    "BearerTokens",
    "ClientCertificates",
    "KeyFile",
    "KeyRecord",
    "KeySetSource",
    "LiveRules",
    "Method",
    "NewKey",
    "ProxyHeader",
    "Rule",
    "UncheckedCredentialsError",
    "authorise",
    "describe_extended_card",
]
