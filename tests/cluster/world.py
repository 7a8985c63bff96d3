"""The simulated surroundings of replicas: a database, its sessions, and a bus, with faults.

Rules:
1. The database executes a statement whole or not at all. The answer may be lost, and then the caller does not
   know which.
2. Links fail in three ways: cut (an error at once), holed (nothing comes, and nothing says so), slow.
3. In a part of the schedules a group of writes is a transaction of two statements, whose locks stay between
   them: until it is committed, PostgreSQL ends it because its process says nothing, or another replica does.
4. Everything random comes from the seed of the schedule.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.cluster import bus
from a2a_bridge.cluster import cluster as membership
from a2a_bridge.cluster.bus import BusDownError, Hint, NobodyError
from a2a_bridge.cluster.session import SECONDS, SessionError
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.virtual_loop import Owner, VirtualLoop

UP, CUT, HOLED = "up", "cut", "holed"
#: seconds after which the database ends a transaction whose process says nothing
_IDLE = 2.0
#: seconds after which a client of NATS notices that nothing comes
_NOTICED = 3.0


@dataclass
class Row:
    """A task in the database."""

    id: str
    holder: str
    version: int = 1
    events: list[hub.StreamResponse] = field(default_factory=list)
    state: int = hub.TASK_STATE_WORKING
    history: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.state in (hub.TASK_STATE_COMPLETED, hub.TASK_STATE_CANCELED)


class Database:
    """The tables."""

    def __init__(self) -> None:
        self.replicas: dict[str, int] = {}
        self.tasks: dict[str, Row] = {}
        self.messages: dict[str, tuple[str, bytes]] = {}
        #: the session that has locked a task
        self.locks: dict[str, str] = {}
        #: transactions by the name of their session
        self.transactions: dict[str, object] = {}

    def begin(self, session: str) -> object:
        """Begins a transaction, and ends what the session had before."""
        self.end(session)
        transaction = self.transactions[session] = object()
        return transaction

    def end(self, session: str) -> None:
        self.transactions.pop(session, None)
        self.locks = {task: owner for task, owner in self.locks.items() if owner != session}

    def expire(self, session: str, transaction: object) -> None:
        """Ends a transaction that is still open."""
        if self.transactions.get(session) is transaction:
            self.end(session)

    def orphans(self) -> list[str]:
        return [row.id for row in self.tasks.values() if row.holder and row.holder not in self.replicas]

    def run(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        rows, me = self.replicas, values.get("me")
        if statement is membership.BEAT:
            if me in rows:
                rows[me] += 1
            return [(name, beat if name != me else 0) for name, beat in rows.items()]
        if statement is membership.JOIN:
            rows[me] = 0
            return [(me,)]
        if statement is membership.BURY:
            if rows.get(values["id"]) != values["beat"]:
                return []
            del rows[values["id"]]
            return [(values["id"],)]
        if statement is membership.END:
            self.end(values["session"])
            return []
        if statement is membership.LEAVE:
            rows.pop(me, None)
            return []
        if statement is membership.LEFT:
            return [(bool(self.orphans()),)]
        if statement is bus.SEND:
            if values["recipient"] not in rows:
                return []
            self.messages[values["id"]] = values["recipient"], values["data"]
            return [(values["id"],)]
        if statement is bus.TAKE:
            found = [one for one, (to, _) in self.messages.items() if to in values["names"]][: values["most"]]
            return [(self.messages.pop(one)[1],) for one in found]
        if statement is bus.SWEEP:
            self.messages = {one: row for one, row in self.messages.items() if row[0] in rows}
            return []
        raise AssertionError(statement)


class Link:
    """The connection of a process to the database or to the bus."""

    def __init__(self) -> None:
        self.state = UP
        self.since = 0.0
        self.delay = 0.005


class World:
    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.database = Database()
        #: replicas on the bus, by the name under which they listen
        self.listening: dict[str, SimulatedBus] = {}
        self.buses: list[SimulatedBus] = []
        self.loss = 0.0
        self.faults = 0

    def begin(self, session: str) -> object:
        """A transaction in the database, with its limit."""
        transaction = self.database.begin(session)
        self.loop.call_later(_IDLE, self.database.expire, session, transaction, context=contextvars.Context())
        return transaction

    def lost(self) -> bool:
        return self.loss > 0 and self.chance.random() < self.loss

    def latency(self, link: Link) -> float:
        return link.delay * self.chance.uniform(0.2, 2.0)

    async def statement(self, link: Link, execute: Callable[[], Any], seconds: float) -> Any:
        """Executes a statement that arrives, even if its process is dead by then. Raises SessionError."""
        if link.state == CUT:
            raise SessionError("cut")
        answer: asyncio.Future[Any] = self.loop.create_future()

        def arrive() -> None:
            if link.state == UP:
                self._later(link, _settle, answer, execute())
            elif link.state == CUT and not answer.done():
                answer.set_exception(SessionError("cut"))

        self._later(link, arrive)
        try:
            async with asyncio.timeout(seconds):
                result = await answer
        except TimeoutError:
            raise SessionError("timeout") from None
        if link.state == CUT:
            raise SessionError("cut")
        if link.state == HOLED:
            await asyncio.sleep(seconds)
            raise SessionError("timeout")
        return result

    def _later(self, link: Link, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function after the latency of a link, in no process."""
        self.loop.call_later(self.latency(link), function, *arguments, context=contextvars.Context())


class SimulatedSession:
    """Takes the place of PostgresSession."""

    def __init__(self, world: World, link: Link) -> None:
        self._world, self._link = world, link
        self._lock = asyncio.Lock()

    async def run(self, statement: Any, values: Any, seconds: float = SECONDS, /) -> list[tuple[Any, ...]]:
        async with self._lock:
            return await self._world.statement(
                self._link, lambda: self._world.database.run(statement, values), seconds
            )

    async def close(self) -> None:
        pass


class SimulatedBus:
    """Implements Bus, as NATS does."""

    most = 700  # so that calls travel in parts
    pushes = True

    def __init__(self, world: World, owner: Owner, link: Link) -> None:
        self._world, self._owner, self.link = world, owner, link
        self._me = ""
        #: of the replica, once it listens
        self.answer: Callable[[bytes], Awaitable[bytes]] | None = None
        self.on_hint: Callable[[Hint], None] | None = None
        self.on_gap: Callable[[], None] | None = None
        self.topics: dict[str, list[Callable[[bytes], None]]] = {}

    @property
    def live(self) -> bool:
        link = self.link
        return link.state == UP or (link.state == HOLED and self._world.loop.time() - link.since < _NOTICED)

    async def start(
        self,
        me: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        on_hint: Callable[[Hint], None],
        on_gap: Callable[[], None],
        /,
    ) -> None:
        self._me, self.answer, self.on_hint, self.on_gap = me, answer, on_hint, on_gap
        self._world.listening[me] = self
        self._world.buses.append(self)

    def rename(self, me: str, /) -> None:
        if self._world.listening.get(self._me) is self:
            del self._world.listening[self._me]
        self._me = me
        self._world.listening[me] = self

    def broken(self) -> None:
        """The link works again after a fault: the client has connected anew."""
        if self.on_gap is not None:
            self._deliver(self, self.on_gap)

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        world = self._world
        assert len(data) <= self.most
        if not self.live:
            raise BusDownError
        answer: asyncio.Future[bytes] = world.loop.create_future()
        other = world.listening.get(replica)
        await asyncio.sleep(world.latency(self.link))
        if self.link.state == CUT:
            raise BusDownError
        if self.link.state == UP and (other is None or other.link.state == CUT or other._owner.killed):
            raise NobodyError
        if self.link.state == UP and other is not None and other.link.state == UP and not world.lost():

            async def work() -> None:
                await asyncio.sleep(world.latency(other.link))
                assert other.answer is not None
                found = await other.answer(data)
                assert len(found) <= other.most
                if other.link.state == UP and self.link.state == UP and not world.lost():
                    world.loop.call_later(world.latency(self.link), _settle, answer, found)

            world.loop.spawn(other._owner, work())
        async with asyncio.timeout(seconds):
            return await answer

    def publish(self, topic: str, data: bytes, /) -> None:
        assert len(data) <= self.most
        for other in self._world.buses:
            for handler in other.topics.get(topic, ()):
                if self.link.state == UP and other.link.state == UP and not self._world.lost():
                    self._deliver(other, handler, data)

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:
        handlers = self.topics.setdefault(topic, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    def hint(self, hint: Hint, /) -> None:
        for other in self._world.buses:
            if other is not self and self.link.state == UP == other.link.state and not self._world.lost():
                assert other.on_hint is not None
                self._deliver(other, other.on_hint, hint)

    async def close(self) -> None:
        if self._world.listening.get(self._me) is self:
            del self._world.listening[self._me]

    def _deliver(self, other: SimulatedBus, function: Callable[..., None], *arguments: Any) -> None:
        world = self._world

        async def later() -> None:
            await asyncio.sleep(world.latency(other.link))
            function(*arguments)

        world.loop.spawn(other._owner, later())


def _settle(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():
        answer.set_result(found)
