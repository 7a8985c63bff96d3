"""What replicas tell each other at once over LISTEN and NOTIFY: that something changed, not what. Not the
changes.

Rules:
1. A notification is a hint: whoever gets one reads the tables, and whoever misses one reads them a little
   later.
2. It is sent in the transaction that it is about, so it never comes before the change, nor without it.
3. One connection listens. When it breaks another one is made, and everything counts as changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from time import monotonic

from psycopg import Error

from a2a_bridge.hosting.stores.sql.replica_thread import (
    SECONDS,
    Connection,
    ReplicaThread,
    connected,
    deadline,
)

log = logging.getLogger("a2a_bridge.hosting.stores")

#: the channel of PostgreSQL; it belongs to the database
CHANNEL = "a2a_bridge"
#: seconds after which the tables are read without a hint
POLL = 2.0
#: PostgreSQL takes less than 8000 bytes
_LARGEST = 7900
_SLOWEST = 5.0


class Kind(Enum):
    """What has happened: the first character of a payload, which the sender's name and words follow."""

    TASKS = "t"
    MAIL = "m"
    ORPHANS = "o"
    JOINED = "j"
    COMMAND = "c"
    ANSWER = "a"


def payload(kind: Kind, sender: str, *words: str) -> str:
    """One notification. The words are ids and hold no line breaks."""
    return "\n".join((kind.value + sender, *words))


def payloads(sender: str, task_ids: Iterable[str], *, mail: bool = False) -> Iterator[str]:
    """What to notify `CHANNEL` of, in the transaction that changed tasks or put something into the outbox."""
    words: list[str] = []
    size = 0
    for task_id in task_ids:
        length = len(task_id.encode()) + 1
        if "\n" in task_id or length > _LARGEST // 2:
            continue  # nobody here makes such ids; it is found by reading
        if words and size + length > _LARGEST:
            yield payload(Kind.TASKS, sender, *words)
            words, size = [], 0
        size += length + (0 if words else len(sender) + 1)
        words.append(task_id)
    if words:
        yield payload(Kind.TASKS, sender, *words)
    if mail:
        yield payload(Kind.MAIL, sender)


class Listener:
    """Hears the others, and reminds of what may have been missed. `tells` and `on` come before the start.

    poll: seconds after which everything counts as changed without a hint.
    """

    def __init__(self, url: str, room: ReplicaThread, *, poll: float = POLL) -> None:
        self._url = url
        self._room = room
        self._wake: Callable[[Collection[str] | None], None] = _nobody
        self._mail: Callable[[], None] = _nobody
        self._poll = poll
        self._handlers: dict[Kind, list[Callable[[Collection[str]], None]]] = {}
        #: heard and not passed on yet
        self._tasks: set[str] | None = set()
        self._has_mail = False
        self._telling = False
        self.on(Kind.TASKS, self._changed)
        self.on(Kind.MAIL, self._posted)

    def tells(self, wake: Callable[[Collection[str] | None], None], mail: Callable[[], None]) -> None:
        """Has `wake` called with the tasks that others have changed, None for any, and `mail` when there may
        be something new in the outbox; both in the thread of the store's loop.
        """
        self._wake, self._mail = wake, mail

    def on(self, kind: Kind, handler: Callable[[Collection[str]], None]) -> None:
        """Has a handler called, in the room's thread, with the words of what others say."""
        self._handlers.setdefault(kind, []).append(handler)

    async def start(self, own: Callable[[], str]) -> None:
        """Listens from when it returns. own: the name under which this replica speaks.

        Raises psycopg.Error.
        """
        await self._room.call(self._start(own))

    # ------------------------------------------------------------------ in the room's thread

    async def _start(self, own: Callable[[], str]) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room.on_duty(self._listen(own, ready), "listen")
        await ready

    async def _listen(self, own: Callable[[], str], ready: asyncio.Future[None]) -> None:
        failures = 0
        while True:
            try:
                async with connected(self._url, "listener") as connection:
                    with deadline(connection, SECONDS):
                        await connection.execute(f"LISTEN {CHANNEL}")
                    failures = 0
                    if not ready.done():
                        ready.set_result(None)
                    while True:
                        # What came while nobody listened was missed.
                        self._all()
                        await self._hear(connection, own)
            except Error as error:
                if not ready.done():
                    ready.set_exception(error)
                    return
                if not failures:
                    log.warning(
                        "no notifications of other replicas: %s; this replica polls", type(error).__name__
                    )
                failures += 1
            await asyncio.sleep(min(_SLOWEST, 0.05 * 2 ** min(failures, 8)))
            self._all()

    async def _hear(self, connection: Connection, own: Callable[[], str]) -> None:
        until = monotonic() + self._poll
        while (rest := until - monotonic()) > 0:
            async for notification in connection.notifies(timeout=rest, stop_after=1):
                kind, sender, words = _read(notification.payload)
                if kind is not None and sender != own():
                    for handler in self._handlers.get(kind, ()):
                        handler(words)
        with deadline(connection, SECONDS):
            await connection.execute("SELECT 1")  # so that one that is only half there is noticed

    def _all(self) -> None:
        """Anything may have happened."""
        self._tasks, self._has_mail = None, True
        self._pass_on()
        for kind in (Kind.COMMAND, Kind.ANSWER):
            for handler in self._handlers.get(kind, ()):
                handler(())

    def _changed(self, task_ids: Collection[str]) -> None:
        if self._tasks is not None:
            self._tasks.update(task_ids)
        self._pass_on()

    def _posted(self, _words: Collection[str]) -> None:
        self._has_mail = True
        self._pass_on()

    def _pass_on(self) -> None:
        """Once for all that comes together."""
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        tasks, mail = self._tasks, self._has_mail
        self._tasks, self._has_mail, self._telling = set(), False, False
        if tasks is None or tasks:
            self._room.tell(self._wake, tasks)
        if mail:
            self._room.tell(self._mail)


def _read(text: str) -> tuple[Kind | None, str, Collection[str]]:
    head, *words = text.split("\n")
    try:
        return Kind(head[:1]), head[1:], words
    except ValueError:
        return None, "", ()  # from a newer one, which others understand


def _nobody(_tasks: object = None) -> None:
    """Stands for who has not asked to be told."""
