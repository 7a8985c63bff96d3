"""The bus between the replicas of one agent; and a bus for a few replicas that have PostgreSQL only, where
messages are rows, and replicas look for them.

Rules:
1. A bus may lose messages, but never delivers a wrong message. A lost message costs time only: the database
   has the truth.
2. A bus never says that a replica is dead. Only the database does.
3. All methods are for the loop of the store.

Rules of the bus over PostgreSQL:
1. A request is a row for its receiver, and so is the response. Its reader deletes it.
2. A replica looks for rows every 1.2 seconds, and sooner while it waits for a response or has got a request
   lately. A single replica does not look.
3. There are no topics and no hints: replicas look into the tables instead.
4. Rows of dead replicas are deleted by the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Protocol

from a2a_bridge.cluster.session import PostgresSession, SessionError


class Hint(Enum):
    """A kind of change in the database."""

    MAIL = b"m"
    ORPHANS = b"o"
    JOINED = b"j"


class NobodyError(Exception):
    """No replica of that name listens on the bus at present."""


class BusDownError(Exception):
    """The bus cannot be used at present."""


class Bus(Protocol):
    """Messages between replicas. `start` it before any other use."""

    @property
    def most(self) -> int:
        """The bytes of the largest message."""

    @property
    def pushes(self) -> bool:
        """Whether messages about topics are delivered. If not, their readers have to poll."""

    @property
    def live(self) -> bool:
        """False while the bus is known not to work."""

    async def start(
        self,
        me: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        on_hint: Callable[[Hint], None],
        on_gap: Callable[[], None],
        /,
    ) -> None:
        """Listens as replica `me` from its return on, or once the bus can be reached.

        answer: answers the request of another replica within seconds; raises nothing. on_hint: called with
        the hints of other replicas. on_gap: called when messages may have been lost, because the connection
        was made again, or because this replica was too slow.
        """

    def rename(self, me: str, /) -> None:
        """Renames this replica. Requests to the old name find nobody."""

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        """The response of a replica. Raises NobodyError, BusDownError, and TimeoutError after `seconds`. In
        the last two cases the request may have arrived.
        """

    def publish(self, topic: str, data: bytes, /) -> None:
        """Sends a message to all readers of a topic, if the bus works."""

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:
        """Reads a topic until the returned function is called."""

    def hint(self, hint: Hint, /) -> None:
        """Gives a hint to all other replicas. Equal hints within a short time are one message."""

    async def close(self) -> None:
        """Stops listening. May be called twice."""


log = logging.getLogger("a2a_bridge.hosting.cluster")

#: seconds between two looks: while nothing happens, and the first ones after something has
_POLL, _QUICK = 1.2, 0.02
#: seconds of quick looks after a request
_BUSY = 2.0
#: seconds between two searches for rows of dead replicas
_SWEEP = 60.0
#: requests that are executed concurrently
_MOST = 1000

SEND = """
    INSERT INTO messages (id, recipient, data)
    SELECT %(id)s, id, %(data)s FROM replicas WHERE id = %(recipient)s RETURNING id
"""
TAKE = """
    DELETE FROM messages WHERE id IN (
        SELECT id FROM messages WHERE recipient = ANY(%(names)s) LIMIT %(most)s FOR UPDATE SKIP LOCKED
    ) RETURNING data
"""
SWEEP = """
    DELETE FROM messages WHERE id IN (
        SELECT id FROM messages WHERE recipient NOT IN (SELECT id FROM replicas) FOR UPDATE SKIP LOCKED
    ) RETURNING id
"""


class PollingBus:
    """Implements Bus. alone: returns True while no other replica is known. new_id: makes ids of requests."""

    #: rows may be large; the parts keep single statements short
    most = 4 << 20
    pushes = False

    def __init__(
        self, session: PostgresSession, alone: Callable[[], bool], new_id: Callable[[], bytes]
    ) -> None:
        self._session = session
        self._alone = alone
        self._new_id = new_id
        self._me = ""
        #: of the replica, from `start` on
        self._reply: Callable[[bytes], Awaitable[bytes]]
        self._on_gap: Callable[[], None]
        self._failing = False
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        self._busy_until = float("-inf")

    @property
    def live(self) -> bool:
        return not self._failing

    async def start(
        self,
        me: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        on_hint: Callable[[Hint], None],  # noqa: ARG002  nobody gives one
        on_gap: Callable[[], None],
        /,
    ) -> None:
        self._me, self._reply, self._on_gap = me, answer, on_gap
        self._looking = asyncio.create_task(self._look_on(), name="a2a cluster messages")

    def rename(self, me: str, /) -> None:
        """See Bus. Responses to requests under the old name are lost: their senders ask again."""
        self._me = me

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        call = self._new_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[call] = answer
        try:
            async with asyncio.timeout(seconds):
                if not await self._send(replica, b"?" + call + self._me.encode() + b"\n" + data):
                    raise NobodyError
                self._now.set()
                return await answer
        except SessionError:
            raise BusDownError from None
        finally:
            del self._waiting[call]

    def publish(self, topic: str, data: bytes, /) -> None:
        """See Bus: nobody reads it."""

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:  # noqa: ARG002
        """See Bus: nothing comes."""
        return lambda: None

    def hint(self, hint: Hint, /) -> None:
        """See Bus: nobody hears it."""

    async def close(self) -> None:
        running = [one for one in (self._looking, *self._answering) if one is not None and not one.done()]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running)

    async def _send(self, replica: str, data: bytes) -> bool:
        values = {"id": self._new_id().hex(), "recipient": replica, "data": data}
        return bool(await self._session.run(SEND, values))

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        pause, swept = _POLL, loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._now.wait()
            self._now.clear()
            pause = _POLL
            if self._alone() and not self._waiting:
                continue
            try:
                got = await self._look()
                if self._failing:
                    self._failing = False
                    self._on_gap()
                if loop.time() - swept > _SWEEP:
                    swept = loop.time()
                    await self._session.run(SWEEP, {})
            except SessionError as error:
                log.debug("messages of other replicas cannot be read: %s", error)
                self._failing = True
                continue
            if got:
                self._busy_until = loop.time() + _BUSY
            if self._waiting or self._answering or loop.time() < self._busy_until:
                pause = _QUICK

    async def _look(self) -> int:
        values = {"names": [self._me], "most": max(1, _MOST - len(self._answering))}
        rows = await self._session.run(TAKE, values)
        for (data,) in rows:
            data = bytes(data)  # noqa: PLW2901  a view of the driver's
            call = data[1:17]
            if data[:1] == b"!":
                waiting = self._waiting.get(call)
                if waiting is not None and not waiting.done():
                    waiting.set_result(data[17:])
                continue
            asker, _, request = data[17:].partition(b"\n")
            task = asyncio.create_task(self._answer(call, asker.decode(), request))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        return len(rows)

    async def _answer(self, call: bytes, asker: str, request: bytes) -> None:
        answer = await self._reply(request)
        with suppress(SessionError):  # its sender asks again
            await self._send(asker, b"!" + call + answer)
