"""The receiver of push notifications of the playground: keeps the last ones, and tells who is watching."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from datetime import UTC, datetime
from typing import Any

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.masking import mask
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import TOKEN_HEADERS, read

#: deliveries that are kept, and bytes of each that are shown
KEPT = 100
LONGEST = 64 * 1024
_SECRET = frozenset(name.lower() for name in TOKEN_HEADERS)


class Deliveries:
    """The last notifications, as lines of JSON."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._watching: set[asyncio.Queue[bytes]] = set()

    def take(self, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Adds a notification."""
        self._number += 1
        line = dumps(
            {
                "number": self._number,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "headers": [[name, mask(name, value, _SECRET)] for name, value in headers],
                "body": body[:LONGEST].decode("utf-8", "replace"),
                "event": _event(body),
            }
        )
        self._kept.append(line)
        for queue in self._watching:
            if queue.full():  # a page that does not read has the newest ones
                queue.get_nowait()
            queue.put_nowait(line)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Those that are kept, and then each new one."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(KEPT)
        for line in self._kept:
            queue.put_nowait(line)
        self._watching.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watching.discard(queue)


def _event(body: bytes) -> Any:
    """The event in a notification as JSON of 1.0; None if it is no notification."""
    try:
        return encoder(hub.StreamResponse)(read(body))
    except A2AError:
        return None
