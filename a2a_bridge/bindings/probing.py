"""Bounds of the work that finds agents: how many cards and test connections at once, and for how long each.

Thousands of agents are read and tried at the start of a gateway, often at one host. Without a bound each of
them would wait for all others, and their time limits would count that wait.

Rules:
1. A question (a card, a test connection, a call that only shows whether an agent answers) waits for its turn:
   few at once for one host, more in all. Its time limit begins with its turn.
2. An agent as a whole waits for a turn, too, so that agents are ready one after the other, and not all at
   the end. A turn of an agent has turns of questions in it, never the other way round: so each of
   them ends.
3. Time in which other work holds the event loop does not count as the peer's (`within`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from a2a_bridge.bindings.places import place_of

T = TypeVar("T")

#: the parts of a time limit. The loop reads its sockets before each of them ends, so that a response that has
#: arrived while the loop was held is found before the limit has passed
_PARTS: Final = 10


class Turns:
    """A bound of the work at once. by_host, in_all: how much of it."""

    def __init__(self, by_host: int, in_all: int) -> None:
        self.by_host = by_host
        self._in_all = in_all
        #: of each event loop with work, because a semaphore belongs to one
        self._loops: dict[asyncio.AbstractEventLoop, _Hosts] = {}

    @asynccontextmanager
    async def at(self, url: str) -> AsyncIterator[None]:
        """Waits for a turn at the host of a URL or of `host:port`, and holds it while the context is open."""
        loop = asyncio.get_running_loop()
        hosts = self._loops.get(loop)
        if hosts is None:
            hosts = self._loops[loop] = _Hosts(self._in_all)
        place = place_of(url)
        name = url if place is None else place.host
        one = hosts.found.get(name)
        if one is None:
            one = hosts.found[name] = _Host(self.by_host)
        one.users += 1
        try:
            # First that of the host: a turn of all hosts is for work that can begin.
            async with one.semaphore, hosts.semaphore:
                yield
        finally:
            one.users -= 1
            if not one.users:
                del hosts.found[name]
            if not hosts.found:
                del self._loops[loop]


class _Hosts:
    """The hosts with work, by name."""

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.found: dict[str, _Host] = {}


class _Host:
    """users: those that have a turn or wait for one."""

    __slots__ = ("semaphore", "users")

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.users = 0


#: for the cards, the test connections and the questions to agents
QUESTIONS: Final = Turns(by_host=16, in_all=128)
#: for agents of which the card is read and the interfaces are tried
AGENTS: Final = Turns(by_host=8, in_all=64)


async def ends_within(task: asyncio.Future[Any], seconds: float) -> bool:
    """Waits until a task has ended, at most some seconds. Returns whether it has. A part of the time in which
    the loop was held counts as one part, however long it was.
    """
    for _ in range(_PARTS):
        if task.done():
            return True
        await asyncio.wait({task}, timeout=seconds / _PARTS)
    return task.done()


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Raises TimeoutError, and cancels it, if it has not ended within the seconds,
    as `ends_within` counts them.
    """
    task = asyncio.ensure_future(work)
    try:
        if not await ends_within(task, seconds):
            raise TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
