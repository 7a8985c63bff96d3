"""What is shown instead of credentials in headers, URLs and texts. It loads nothing of the bridge.

Rules:
1. What is known to be a credential is masked by its value, wherever it stands: a scheme of a card, a flag or
   the configuration says so. A name that looks like one of a credential masks values that nobody knows.
2. Values of less than `SHORTEST` characters are masked under their names only: they occur in any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote, quote_plus, unquote_plus

#: a name of a header (RFC 9110, 5.6.2)
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: headers whose value is a secret; the scheme before it is not
SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"})
#: what is shown instead of a secret
HIDDEN = "***"
#: words before a secret; any other word may be a part of it, as in a cookie
_SCHEMES = frozenset({"basic", "bearer", "digest", "dpop", "negotiate"})
#: names of headers, and of members of a query, whose values are credentials
CREDENTIAL = re.compile(r"auth|cookie|token|secret|passw|key|session|credential|signature|jwt", re.IGNORECASE)
_MEMBER = re.compile(r"([?&])([^=&#\s]*)=([^&#\s]*)")
NOTHING: Mapping[str, str] = MappingProxyType({})
#: characters of a value that is looked for inside other texts
SHORTEST = 6


def mask(name: str, value: str, secret: Collection[str] = ()) -> str:
    """A header's value, without its secret. secret: names of further headers, in lower case."""
    if name.lower() not in SECRET and name.lower() not in secret:
        return value
    scheme, space, _ = value.partition(" ")
    return f"{scheme} {HIDDEN}" if space and scheme.lower() in _SCHEMES else HIDDEN


def without_query_secrets(text: str) -> str:
    """A text with a URL or path, without the values of those members of the query whose names say that they
    are credentials.
    """
    return NONE_KNOWN.head(text)


def without_query_values(url: str) -> str:
    """A URL that a person has given, without the values of its query: any of them may be a credential."""
    return _MEMBER.sub(lambda found: f"{found[1]}{found[2]}={found[3] and HIDDEN}", url)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Known credentials: names of headers and query members that hold some, in lower case, and values."""

    names: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, parameters: Mapping[str, str], query: Mapping[str, str] = NOTHING, names: Collection[str] = ()
    ) -> Secrets:
        """The secrets of a connection. parameters: headers; query: its members; names: further names of
        both, in lower case. An addition of a user to a request may be a credential under any name. But only a
        name that says so makes its value a credential in other places, too.
        """
        found = set(query.values())
        for name, value in parameters.items():
            if name.lower() in SECRET or name.lower() in names or CREDENTIAL.search(name):
                scheme, space, rest = value.partition(" ")
                found |= {value, rest} if space and scheme.lower() in _SCHEMES else {value}
        return cls(frozenset(name.lower() for name in (*parameters, *query, *names)), frozenset(found))

    def __or__(self, other: Secrets) -> Secrets:
        return Secrets(self.names | other.names, self.values | other.values)

    def header(self, name: str, value: str) -> str:
        """A header's value, without credentials."""
        return self.head(mask(name, value, self.names))

    def head(self, text: str) -> str:
        """A line with a URL, or its path, without credentials."""
        return self.text(_MEMBER.sub(self._member, text))

    def text(self, text: str) -> str:
        """A text without the values that are known, also as a URL and JSON write them."""
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= SHORTEST:
                for form in (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]):
                    text = text.replace(form, HIDDEN)
        return text

    def are_in(self, raw_bytes: bytes) -> bool:
        """Whether a value stands in bytes that cannot be changed."""
        return any(len(value) >= SHORTEST and value.encode() in raw_bytes for value in self.values)

    def _member(self, found: re.Match[str]) -> str:
        start, name, value = found.groups()
        is_secret = CREDENTIAL.search(name) or unquote_plus(name).lower() in self.names
        return f"{start}{name}={HIDDEN if value and is_secret else value}"


#: for texts of which nothing is known
NONE_KNOWN = Secrets()
