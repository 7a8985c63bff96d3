"""Ids of sent messages, so that a repeated message has one run.

The engine decides about repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from a2a_bridge.hosting.ports import Scope, Sent
from a2a_bridge.hosting.stores.sql.checksums import DamagedError, checksum_of, intact
from a2a_bridge.hosting.stores.sql.database import inserting
from a2a_bridge.hosting.stores.sql.schema import replicas, sends
from a2a_bridge.hosting.stores.sql.text import original, storable
from a2a_bridge.hosting.stores.sql.writer import GroupWriter


class SqlSends:
    """Implements SendRegister. me: returns the present name of this process."""

    def __init__(self, writer: GroupWriter, me: Callable[[], str]) -> None:
        self._writer = writer
        self._me = me

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        mine, task = _one(scope, message_id), storable(task_id)
        put = False

        def work(connection: Connection) -> Sent | None:
            nonlocal put
            while True:
                row = connection.execute(select(sends).where(mine)).one_or_none()
                if row is not None:
                    if put and (row.task, row.digest, row.holder) == (task, digest, self._me()):
                        return None  # by a commit that was in doubt
                    if not intact(
                        row.checksum, send_key(scope, message_id, row.digest, row.task), row.answer
                    ):
                        raise DamagedError(original(row.task))
                    known = Sent(row.digest, original(row.task), row.answer)
                    if instead is None or known != instead._replace(holder=""):
                        return known._replace(holder=self._at_work(connection, row.holder))
                    # Only this row: another replica may have replaced it since it was read.
                    connection.execute(
                        delete(sends).where(
                            mine,
                            sends.c.task == row.task,
                            sends.c.digest == row.digest,
                            sends.c.answer == row.answer,
                            sends.c.holder == row.holder,
                        )
                    )
                putting = inserting(connection, sends).values(
                    tenant=storable(scope.tenant),
                    owner=storable(scope.owner),
                    message=storable(message_id),
                    digest=digest,
                    task=task,
                    answer=b"",
                    holder=self._me(),
                    created=time.time(),
                    checksum=checksum_of(send_key(scope, message_id, digest, task), b""),
                )
                putting = putting.on_conflict_do_nothing().returning(sends.c.message)
                if connection.execute(putting).one_or_none() is not None:
                    put = True
                    return None
                # Another replica committed first: its commit was awaited, and is visible now.

        return await self._writer.write(work, order=_order(scope, message_id))

    def _at_work(self, connection: Connection, holder: str) -> str:
        if holder == self._me():
            return ""
        return connection.scalar(select(replicas.c.id).where(replicas.c.id == holder)) or ""

    async def answered(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        mine = _one(scope, message_id)

        def work(connection: Connection) -> None:
            row = connection.execute(select(sends).where(mine).with_for_update()).one_or_none()
            if row is not None:
                checksum = checksum_of(send_key(scope, message_id, row.digest, row.task), answer)
                connection.execute(update(sends).where(mine).values(answer=answer, checksum=checksum))

        await self._writer.write(work, order=_order(scope, message_id))

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        mine = _one(scope, message_id)
        await self._writer.write(
            lambda connection: connection.execute(delete(sends).where(mine)).rowcount,
            order=_order(scope, message_id),
        )


def send_key(scope: Scope, message_id: str, digest: bytes, task: str) -> tuple[str, ...]:
    """What the checksum of a row covers beside the answer. task: as in the row."""
    return (
        storable(scope.tenant),
        storable(scope.owner),
        storable(message_id),
        digest.hex(),
        task,
    )


def _one(scope: Scope, message_id: str) -> ColumnElement[bool]:
    return and_(
        sends.c.tenant == storable(scope.tenant),
        sends.c.owner == storable(scope.owner),
        sends.c.message == storable(message_id),
    )


def _order(scope: Scope, message_id: str) -> tuple[str, ...]:
    """The position of the row in the locking order of groups."""
    return ("sends", scope.tenant, scope.owner, message_id)
