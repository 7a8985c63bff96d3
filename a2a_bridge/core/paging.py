"""Page tokens, opaque to callers and bound to their query; and how much a page of tasks holds. Stores do the
paging itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.messages import cut_history
from a2a_bridge.pb import lf_a2a_v1 as hub

#: octets of the tasks in a page: gRPC clients refuse answers of more than 4 MiB unless told otherwise
PAGE_BYTES = 3_500_000

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


class TaskPageFiller:
    """Fills a page with tasks, up to PAGE_BYTES; a larger task is alone on its page.

    artifacts: whether they are included. history_length: the newest messages to include; None for all.
    """

    def __init__(self, *, artifacts: bool, history_length: int | None) -> None:
        self.tasks: list[hub.Task] = []
        self._artifacts = artifacts
        self._history_length = history_length
        self._left = PAGE_BYTES

    def add(self, task: hub.Task) -> bool:
        """Adds a task without the parts that are not wanted, which it removes. False if it does not fit: the
        page ends before it.
        """
        if not self._artifacts:
            task.ClearField("artifacts")
        cut_history(task, self._history_length)
        size = task.ByteSize()
        if self.tasks and size > self._left:
            return False
        self._left -= size
        self.tasks.append(task)
        return True


def _bad_token() -> A2AError:
    return invalid_params("pageToken", "is not a token that this query has given")
