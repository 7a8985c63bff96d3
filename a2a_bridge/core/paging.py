"""Page tokens: opaque to callers, bound to their query. Stores do the paging itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from a2a_bridge.core.errors import A2AError, invalid_params

_MAC_BYTES = 12
_LONGEST = 1024


class PageTokens:
    """Issues tokens and reads them back.

    key: the secret of this issuer. Tokens stay valid after a restart only with the same key; without a key a
        random one is made.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._key = key or os.urandom(32)

    def issue(self, position: str, query: str) -> str:
        """A token for `position` within the results of `query`."""
        place = position.encode()
        return base64.urlsafe_b64encode(self._mac(place, query) + place).decode().rstrip("=")

    def read(self, token: str, query: str) -> str:
        """The position. Raises INVALID_PARAMS naming pageToken for a token that was not issued for
        `query`.
        """
        if len(token) > _LONGEST:
            raise _bad_token()
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _bad_token() from None
        mac, place = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(place, query)):
            raise _bad_token()
        return place.decode()

    def _mac(self, place: bytes, query: str) -> bytes:
        text = len(place).to_bytes(4, "big") + place + query.encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_MAC_BYTES).digest()


def _bad_token() -> A2AError:
    return invalid_params("pageToken", "is not a token that this query has given")
