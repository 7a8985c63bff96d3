"""Ids of sent messages in the records, so that a repeated message has one run. The engine decides about
repetitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from a2a_bridge.stores.checksums import DamagedError, checksum_of, intact
from a2a_bridge.stores.groups import GroupWriter
from a2a_bridge.stores.ports import Scope, Sent, VersionConflictError
from a2a_bridge.stores.records import CONFLICT, SentChange, SentRow
from a2a_bridge.stores.text import storable


class RecordedSends:
    """Implements SendRegister. me: returns the present name of this process."""

    def __init__(
        self,
        read: Callable[[Scope, str], Awaitable[SentRow | None]],
        writer: GroupWriter,
        me: Callable[[], str],
    ) -> None:
        self._read = read
        self._writer = writer
        self._me = me

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        known: SentRow | None = None
        while True:
            row = self._row(scope, message_id, Sent(digest, task_id))
            if await self._writer.write(SentChange(scope, message_id, known, row)) is not CONFLICT:
                if row.holder == self._me():
                    return None
                known = row  # this process has got a new name meanwhile
                continue
            known = await self._read(scope, message_id)
            if known is None:
                continue  # it was forgotten meanwhile
            if not intact(known.checksum, send_key(scope, message_id, known), known.answer):
                raise DamagedError(known.task_id)
            sent = Sent(known.digest, known.task_id, known.answer, known.holder)
            if known.holder or instead is None or sent != instead._replace(holder=""):
                return sent

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        while (known := await self._read(scope, message_id)) is not None:
            if known.holder or known.answer not in (b"", answer):
                raise VersionConflictError(known.task_id)  # this process was taken for dead
            row = self._row(scope, message_id, Sent(known.digest, known.task_id, answer))
            if await self._writer.write(SentChange(scope, message_id, known, row)) is not CONFLICT:
                return

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        await self._writer.write(SentChange(scope, message_id, None, None))

    def _row(self, scope: Scope, message_id: str, sent: Sent) -> SentRow:
        row = SentRow(sent.digest, sent.task_id, sent.answer, self._me(), None)
        return row._replace(checksum=checksum_of(send_key(scope, message_id, row), row.answer))


def send_key(scope: Scope, message_id: str, row: SentRow) -> tuple[str, ...]:
    """What the checksum of a row covers beside the response."""
    texts = scope.tenant, scope.owner, message_id
    return (*map(storable, texts), row.digest.hex(), storable(row.task_id))
