"""The credentials that a gateway sends to an agent: its own, or credentials of its caller."""

from a2a_bridge.gateway.credentials.grants import ClientCredentials, TokenExchange
from a2a_bridge.gateway.credentials.sending import (
    StaticCredentials,
    UpstreamCredentials,
    add_credentials,
    mismatch,
    note_mismatch,
)
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint

__all__ = [
    "ClientCredentials",
    "StaticCredentials",
    "TokenEndpoint",
    "TokenExchange",
    "UpstreamCredentials",
    "add_credentials",
    "mismatch",
    "note_mismatch",
]
