"""The gateway's own token for an agent: the client credentials grant of OAuth 2 (RFC 6749, 4.4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from a2a_bridge.core.call import CallContext
from a2a_bridge.gateway.credentials.schemes import takes_bearer_token
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint
from a2a_bridge.gateway.credentials.tokens import CachedToken, Token
from a2a_bridge.pb import lf_a2a_v1 as hub


class ClientCredentials:
    """See `UpstreamCredentials`. scope: separated by spaces. audience: as providers beside the standard name
    it; resource: of RFC 8707. clock: seconds.
    """

    names = frozenset({"authorization"})
    made_from: frozenset[str] = frozenset()
    is_own = True

    def __init__(
        self,
        endpoint: TokenEndpoint,
        *,
        scope: str = "",
        audience: str = "",
        resource: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._form = {
            "grant_type": "client_credentials",
            "scope": scope,
            "audience": audience,
            "resource": resource,
        }
        self._token = CachedToken(clock)

    async def of(self, _context: CallContext) -> Mapping[str, str]:
        """The token. Raises UNAVAILABLE while there is none."""
        return {"authorization": f"Bearer {await self._token.get(self._request)}"}

    def invalidate(self, rejected: Mapping[str, str], _context: CallContext) -> bool:
        """Forgets the token."""
        return self._token.invalidate(rejected["authorization"].removeprefix("Bearer "))

    def fits(self, scheme: hub.SecurityScheme) -> bool:
        """Whether the scheme takes bearer tokens that clients get for themselves."""
        if scheme.WhichOneof("scheme") == "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow")
            return flow in (None, "client_credentials")
        return takes_bearer_token(scheme)

    async def _request(self) -> Token:
        return await self._endpoint.request(self._form)
