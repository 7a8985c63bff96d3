"""Who may use the playground. It knows no server.

Rules:
1. A token of this launch stands in the address that is printed. The page and the interface ask for it;
   scripts and styles hold no secret. There is no cookie: those of one port are sent to every port of a host.
2. The name in `Host` has to be an IP address, `localhost` or the name that was listened at, so that a name
   of someone else's cannot be made to lead here (DNS rebinding). An `Origin` has to be that of the page.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

#: headers of every response
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'"
    " data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one launch. host: the name that was listened at."""

    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    #: the part of the webhook's path that nobody else knows
    webhook: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)

    def knows(self, token: str) -> bool:
        """Whether a token is that of this launch."""
        # Bytes of a header that are not UTF-8 come as lone surrogates.
        return hmac.compare_digest(token.encode(errors="surrogatepass"), self.token.encode())

    def bears(self, headers: Mapping[str, str]) -> bool:
        """Whether `Authorization` has the token."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.knows(token.strip())

    def is_here(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is for this place, and not from a page of another one."""
        host = headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name not in ("localhost", self.host.lower()) and not _is_address(name):
            return False
        origin = headers.get("Origin")
        return origin is None or origin == f"http://{host}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
