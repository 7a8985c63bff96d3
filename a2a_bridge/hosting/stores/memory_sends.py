"""Ids of sent messages in this process's memory, for idempotent sends. Bounded."""

from __future__ import annotations

from collections import OrderedDict

from a2a_bridge.hosting.ports import Scope, Sent


class MemorySends:
    """Implements SendRegister.

    most: messages that are remembered; beyond that the oldest are evicted.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._sent: OrderedDict[tuple[Scope, str], Sent] = OrderedDict()

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        key = (scope, message_id)
        known = self._sent.get(key)
        if known is not None and known != instead:
            return known
        self._sent[key] = Sent(digest, task_id)
        if len(self._sent) > self._most:
            self._sent.popitem(last=False)
        return None

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        known = self._sent.get((scope, message_id))
        if known is not None:
            self._sent[scope, message_id] = known._replace(answer=answer)

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        self._sent.pop((scope, message_id), None)
