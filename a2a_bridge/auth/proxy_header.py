"""A proxy that has identified the caller names it in a header. Only the headers of trusted proxies count."""

from __future__ import annotations

from a2a_bridge.core.addresses import Trust
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.pb import lf_a2a_v1 as hub

#: characters of a principal's name
_LONGEST = 512


class ProxyHeader:
    """Identifies callers by a header of a trusted proxy; see `Method`.

    header: its name. trusted: addresses and networks of proxies, or "*". Raises ValueError for an invalid
    entry, and without any: then every caller could name itself.
    """

    scheme_name = "proxy"
    challenge = ""

    def __init__(self, header: str, trusted: tuple[str, ...]) -> None:
        if not trusted:
            raise ValueError("a header names the caller only where proxies are trusted; name their addresses")
        self._header = header.lower()
        self._trust = Trust(trusted)
        self.parameters = frozenset({self._header})

    def scheme(self) -> hub.SecurityScheme | None:
        """None: the card cannot know what the proxy asks for."""
        return None

    async def identify(self, presented: Presented) -> Principal | None:
        """The principal that the proxy names; None without the header. Raises UNAUTHENTICATED for a header
        of another peer, or with several names.
        """
        name = presented.credential(self._header)
        if name is None:
            return None
        if presented.peer not in self._trust:
            raise UnauthenticatedError("The header that names the caller comes from no trusted proxy")
        name = name.strip()
        # A server in between may have joined several headers by commas (RFC 9110, 5.3).
        if not name or len(name) > _LONGEST or "," in name or not name.isprintable():
            raise UnauthenticatedError("The header of the proxy does not name one caller")
        return Principal(name)
