"""Credentials that stay the same, such as an API key; without any, callers' credentials are only removed."""

from __future__ import annotations

from collections.abc import Mapping

from a2a_bridge.core.call import CallContext
from a2a_bridge.pb import lf_a2a_v1 as hub


class StaticCredentials:
    """See `UpstreamCredentials`. parameters: service parameters by lower-case name. also: names of parameters
    with credentials that the options of the client side set.
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
