"""Immediate hints between replicas over LISTEN and NOTIFY: that something changed. The changes are in the
tables.

Rules:
1. A notification is a hint: a replica that gets one reads the tables, and one that misses it reads them a
   little later.
2. It is sent in the transaction of its change, so it never comes before the change, nor without it.
3. One connection listens. If it breaks, a new one is made, and everything counts as changed.
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
#: PostgreSQL accepts less than 8000 bytes
_LARGEST = 7900
_SLOWEST = 5.0


class Kind(Enum):
    """The kind of event: the first character of a payload, followed by the sender's name and words."""

    TASKS = "t"
    MAIL = "m"
    ORPHANS = "o"
    JOINED = "j"
    COMMAND = "c"
    ANSWER = "a"


def payload(kind: Kind, sender: str, *items: str) -> str:
    """One notification. The words are ids without line breaks."""
    return "\n".join((kind.value + sender, *items))


def payloads(sender: str, task_ids: Iterable[str], *, deliveries: bool = False) -> Iterator[str]:
    """The payloads for `CHANNEL` in a transaction that changed tasks or added entries to the outbox."""
    items: list[str] = []
    size = 0
    for task_id in task_ids:
        length = len(task_id.encode()) + 1
        if "\n" in task_id or length > _LARGEST // 2:
            continue  # no id of this project is that long; readers find it by polling
        if items and size + length > _LARGEST:
            yield payload(Kind.TASKS, sender, *items)
            items, size = [], 0
        size += length + (0 if items else len(sender) + 1)
        items.append(task_id)
    if items:
        yield payload(Kind.TASKS, sender, *items)
    if deliveries:
        yield payload(Kind.MAIL, sender)


class Listener:
    """Receives notifications, and polls for missed ones. Call `set_listeners` and `on` before the start.

    poll: seconds after which everything counts as changed without a hint.
    """

    def __init__(self, url: str, thread: ReplicaThread, *, poll: float = POLL) -> None:
        self._url = url
        self._thread = thread
        self._wake: Callable[[Collection[str] | None], None] = _ignore
        self._on_deliveries: Callable[[], None] = _ignore
        self._poll = poll
        self._handlers: dict[Kind, list[Callable[[Collection[str]], None]]] = {}
        #: received, not passed on yet
        self._tasks: set[str] | None = set()
        self._has_deliveries = False
        self._notifying = False
        self.on(Kind.TASKS, self._changed)
        self.on(Kind.MAIL, self._posted)

    def set_listeners(
        self, wake: Callable[[Collection[str] | None], None], deliveries: Callable[[], None]
    ) -> None:
        """Registers two callbacks: `wake`, with the tasks that others have changed (None for any), and
        `deliveries`, for possible new entries in the outbox. Both run in the thread of the store's loop.
        """
        self._wake, self._on_deliveries = wake, deliveries

    def on(self, kind: Kind, handler: Callable[[Collection[str]], None]) -> None:
        """Registers a handler for the words of other replicas. It runs in the replica thread."""
        self._handlers.setdefault(kind, []).append(handler)

    async def start(self, own: Callable[[], str]) -> None:
        """Listens from its return on. own: returns the name of this replica.

        Raises psycopg.Error.
        """
        await self._thread.call(self._start(own))

    # ------------------------------------------------------------------ in the replica thread

    async def _start(self, own: Callable[[], str]) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread.on_duty(self._listen(own, ready), "listen")
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
                        # Notifications without a listener were lost.
                        self._all()
                        await self._receive(connection, own)
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

    async def _receive(self, connection: Connection, own: Callable[[], str]) -> None:
        until = monotonic() + self._poll
        while (rest := until - monotonic()) > 0:
            async for notification in connection.notifies(timeout=rest, stop_after=1):
                kind, sender, items = _read(notification.payload)
                if kind is not None and sender != own():
                    for handler in self._handlers.get(kind, ()):
                        handler(items)
        with deadline(connection, SECONDS):
            await connection.execute("SELECT 1")  # detects a half-open connection

    def _all(self) -> None:
        """Everything may have changed."""
        self._tasks, self._has_deliveries = None, True
        self._pass_on()
        for kind in (Kind.COMMAND, Kind.ANSWER):
            for handler in self._handlers.get(kind, ()):
                handler(())

    def _changed(self, task_ids: Collection[str]) -> None:
        if self._tasks is not None:
            self._tasks.update(task_ids)
        self._pass_on()

    def _posted(self, _words: Collection[str]) -> None:
        self._has_deliveries = True
        self._pass_on()

    def _pass_on(self) -> None:
        """Passes everything on in one call."""
        if not self._notifying:
            self._notifying = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        tasks, deliveries = self._tasks, self._has_deliveries
        self._tasks, self._has_deliveries, self._notifying = set(), False, False
        if tasks is None or tasks:
            self._thread.call_in_store_loop(self._wake, tasks)
        if deliveries:
            self._thread.call_in_store_loop(self._on_deliveries)


def _read(text: str) -> tuple[Kind | None, str, Collection[str]]:
    head, *items = text.split("\n")
    try:
        return Kind(head[:1]), head[1:], items
    except ValueError:
        return None, "", ()  # from a newer release; other replicas understand it


def _ignore(_tasks: object = None) -> None:
    """The callback before one is registered."""
