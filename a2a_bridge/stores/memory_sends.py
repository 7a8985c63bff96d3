"""Ids of sent messages in memory, for idempotent sends. Bounded, and idle data of the memory account."""

from __future__ import annotations

from a2a_bridge.bindings.memory import MemoryAccount, Table, Tables, size_of
from a2a_bridge.stores.ports import Scope, Sent

#: bytes of all ids and responses
_MOST_BYTES = 256 << 20


class MemorySends:
    """Implements SendRegister.

    memory: the account; None for one of its own. most: messages that are remembered; beyond that, and when
    memory is short, the oldest are evicted.
    """

    def __init__(self, memory: MemoryAccount | None = None, most: int = 100_000) -> None:
        self._sent: Table[tuple[Scope, str], Sent] = Table(most, Tables.of(memory), most_bytes=_MOST_BYTES)

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        known = self._sent.get((scope, message_id))
        if known is not None and known != instead:
            return known
        self._put(scope, message_id, Sent(digest, task_id))
        return None

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        known = self._sent.get((scope, message_id))
        if known is not None:
            self._put(scope, message_id, known._replace(answer=answer))

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        self._sent.pop((scope, message_id))

    def _put(self, scope: Scope, message_id: str, sent: Sent) -> None:
        size = size_of(scope, message_id, sent.task_id) + len(sent.digest) + len(sent.answer)
        self._sent.put((scope, message_id), sent, size)
