"""The time of rows, and whether it is right enough to delete by it.

Rules:
1. Times in rows of PostgreSQL are those of its server, written and compared there. The clocks of replicas
   count for nothing. SQLite has the clock of its machine.
2. A replica whose clock differs from that of the server by more than a minute deletes nothing: one of the two
   is wrong, and nobody knows which.
3. On SQLite, a clock that is a day after the newest row, or has moved a day since the last look, may have
   jumped. Then each round deletes a share of the rows only, until less than that has expired.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Connection, delete, func, select

from a2a_bridge.stores.sql.commit import SqlJob
from a2a_bridge.stores.sql.database import Database, build_insert, present
from a2a_bridge.stores.sql.schema import sends, settings, tasks

log = logging.getLogger("a2a_bridge.store")

#: seconds by which the clock of a replica may differ from that of the server
_DIFFERENCE = 60.0
#: seconds of a jump
_JUMP = 24 * 3600.0
#: one of so many rows is deleted at a time after a jump
SHARE = 20
#: the row of `settings` that exists while a jump may be wrong
_JUMPED = "clock_jumped"

#: writes a job with the next group
Write = Callable[[SqlJob], Awaitable[Any]]


class ClockWatch:
    """Looks at the clock before each round of deletions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: time and monotonic time of the last look
        self._looked: tuple[float, float] | None = None

    async def agreed(self) -> float | None:
        """The time of the rows, in seconds since the epoch; None if it is in doubt. Raises UNAVAILABLE."""
        if self._database.sqlite:
            return time.time()
        server = await self._database.read(
            lambda connection: connection.execute(select(present(connection))).scalar_one()
        )
        ahead = time.time() - server
        if abs(ahead) <= _DIFFERENCE:
            return server
        side = "after" if ahead > 0 else "before"
        text = "this machine's clock is %.0f s %s that of the database: nothing is deleted until they agree"
        log.error(text, abs(ahead), side)
        return None

    async def may_have_jumped(self, write: Write) -> bool:
        """True if a round may delete a share of the rows only. Raises UNAVAILABLE."""
        if not self._database.sqlite:
            return False
        now, before, self._looked = time.time(), self._looked, (time.time(), time.monotonic())
        moved = 0.0 if before is None else now - before[0] - (self._looked[1] - before[1])
        newest, noted = await self._database.read(_newest)
        if newest is not None:
            moved = max(moved, now - newest)
        if moved > _JUMP and not noted:
            text = (
                "the clock of this machine is %.1f days after the newest row: expired data is deleted slowly"
            )
            log.warning(text, moved / _JUMP)
            await write(SqlJob(_note))
            noted = True
        return noted

    async def caught_up(self, write: Write) -> None:
        """Less than a share has expired: the time is believed."""
        await write(SqlJob(_forget))


def _newest(connection: Connection) -> tuple[float | None, bool]:
    """The time of the newest row, and whether a jump is noted."""
    times = [connection.scalar(select(func.max(one))) for one in (tasks.c.written, sends.c.created)]
    noted = connection.scalar(select(settings.c.name).where(settings.c.name == _JUMPED)) is not None
    return max((one for one in times if one is not None), default=None), noted


def _note(connection: Connection) -> None:
    noted = build_insert(connection, settings).values(name=_JUMPED, value=b"1")
    connection.execute(noted.on_conflict_do_nothing())


def _forget(connection: Connection) -> None:
    connection.execute(delete(settings).where(settings.c.name == _JUMPED))
