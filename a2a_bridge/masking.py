"""What is shown instead of credentials in headers and URLs. It loads nothing."""

from __future__ import annotations

import re
from collections.abc import Collection

#: headers whose value is a secret; the scheme before it is not
SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"})
#: what is shown instead of a secret
HIDDEN = "***"
#: words before a secret; any other word may be a part of it, as in a cookie
_SCHEMES = frozenset({"basic", "bearer", "digest", "dpop", "negotiate"})
#: names of headers, and of members of a query, whose values are credentials
CREDENTIAL = re.compile(r"auth|cookie|token|secret|passw|key|session|credential|signature|jwt", re.IGNORECASE)
_MEMBER = re.compile(r"([?&])([^=&#\s]*)=([^&#\s]*)")


def mask(name: str, value: str, secret: Collection[str] = ()) -> str:
    """A header's value, without its secret. secret: names of further headers, in lower case."""
    if name.lower() not in SECRET and name.lower() not in secret:
        return value
    scheme, space, _ = value.partition(" ")
    return f"{scheme} {HIDDEN}" if space and scheme.lower() in _SCHEMES else HIDDEN


def without_query_secrets(text: str) -> str:
    """A text with a URL, or its path, without the values of members of the query that are credentials."""
    return _MEMBER.sub(_member, text)


def _member(found: re.Match[str]) -> str:
    start, name, value = found.groups()
    return f"{start}{name}={HIDDEN if value and CREDENTIAL.search(name) else value}"
