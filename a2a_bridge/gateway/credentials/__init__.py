"""What a gateway sends to an agent to prove who calls: its own credentials, or those of its caller."""

from a2a_bridge.gateway.credentials.client_credentials import ClientCredentials
from a2a_bridge.gateway.credentials.schemes import mismatch, note_mismatch
from a2a_bridge.gateway.credentials.sending import UpstreamCredentials, add_credentials
from a2a_bridge.gateway.credentials.static import StaticCredentials
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint
from a2a_bridge.gateway.credentials.token_exchange import TokenExchange

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
