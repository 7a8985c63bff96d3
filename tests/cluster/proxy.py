"""A TCP proxy that cuts, delays and swallows what passes."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

from a2a_bridge.core.errors import A2AError

Opening = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Proxy:
    """Passes connections to 127.0.0.1 on to what `opening` opens."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay = 0.0
        #: cleared while everything that passes is kept back, and nothing says so
        self.passes = asyncio.Event()
        self.passes.set()
        self._rejects = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Breaks all connections, and further ones, until `mend`."""
        self._rejects = True
        for one in self._pairs:
            one.cancel()

    def hole(self) -> None:
        self.passes.clear()

    def mend(self) -> None:
        self._rejects = False
        self.delay = 0.0
        if not self.passes.is_set():
            # What a black hole has swallowed never arrives.
            for one in self._pairs:
                one.cancel()
            self.passes.set()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def _accept(self, near: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        writers = [near_writer]
        try:
            if self._rejects:
                return
            far, far_writer = await self._opening()
            writers.append(far_writer)
            await asyncio.gather(self._copy(near, far_writer), self._copy(far, near_writer))
        except (OSError, asyncio.CancelledError):
            pass  # broken by one side, or by a fault
        finally:
            self._pairs.discard(task)
            for writer in writers:
                writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.passes.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()


# The faults of real replicas, by name, and the runs that repeat one of them.


#: seconds, of each replica
LEASE = 4

#: of faults
KINDS = (
    "cut",
    "hole",
    "slow",
    "lonely",
    "far",
    "all buses",
    "nats stopped",
    "nats killed",
    "database",
    "pause",
    "suspended",
    "vanished",
    "kill",
    "restart",
)


class Repeated(NamedTuple):
    """The same fault many times, at one replica after the other. pause: seconds after each."""

    kind: str
    times: int
    seconds: float = 0.0
    pause: float = 0.0


RUNS: Mapping[str, Repeated] = {
    # Ten times each of three.
    "rolling": Repeated("restart", 30),
    # The next one after the takeover.
    "kills": Repeated("kill", 10, pause=2 * LEASE),
    "stops": Repeated("pause", 3, 30.0, 2 * LEASE),
    "cuts": Repeated("lonely", 3, 30.0, 2 * LEASE),
    # Inside a transaction: the process is stopped, or its connection is cut without a word.
    "suspended": Repeated("suspended", 6, 15.0, 2 * LEASE),
    "vanished": Repeated("vanished", 6, 15.0, 2 * LEASE),
    "latency": Repeated("far", 3, 30.0),
}


# A replica that stops in the middle of a transaction, and what the healthy ones do meanwhile.


#: sessions of replicas that wait for the next statement of a transaction; other replicas need less time for one
_INSIDE = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name LIKE 'a2a-bridge %' AND backend_type = 'client backend'
      AND (state LIKE 'idle in transaction%' OR (state = 'active' AND wait_event = 'ClientRead'))
      AND xact_start < clock_timestamp() - interval '60 ms'
"""
#: seconds after which an open transaction is one of the stopped replica
_SHOWS = 0.08
_ORPHANS = "SELECT count(*) FROM tasks WHERE holder <> '' AND holder NOT IN (SELECT id FROM replicas)"
_ALIVE = "SELECT count(*) FROM replicas"
#: attempts to find the moment
_TRIES = 100
#: seconds for a message at a healthy replica
_PATIENCE = float(LEASE)


async def stop_inside(
    url: str, stop: Callable[[], None], go_on: Callable[[], None], chance: random.Random
) -> bool:
    """Stops a replica in the middle of a transaction. Returns whether it was in one."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watch:
        for left in reversed(range(_TRIES)):
            stop()
            await asyncio.sleep(_SHOWS)
            if await _number(watch, _INSIDE):
                return True
            if left:
                go_on()
                await asyncio.sleep(chance.uniform(0.001, 0.03))
    return False


async def healthy(url: str, seconds: float, send: Callable[[], Awaitable[Any]], alive: int) -> list[str]:
    """What is wrong with the healthy replicas in that time. send: sends a message to one of them. alive: how many
    replicas there are while the stopped one counts as alive.
    """
    wrong: list[str] = []
    began, until = time.monotonic(), time.monotonic() + seconds
    buried = 0.0
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watch:
        while time.monotonic() < until:
            sent = time.monotonic()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await send()
            except TimeoutError:
                wrong.append(f"a healthy replica has not answered a message for {_PATIENCE} s")
            except A2AError as error:
                wrong.append(
                    f"a healthy replica rejects a message {sent - began:.1f} s after the stop: {error!r}"
                )
            if not buried and await _number(watch, _ALIVE) < alive:
                buried = time.monotonic()
            if buried and time.monotonic() - buried > LEASE and (left := await _number(watch, _ORPHANS)):
                wrong.append(
                    f"{left} tasks have no live holder {time.monotonic() - buried:.1f} s after the death"
                )
            await asyncio.sleep(0.05)
    if not buried and seconds > 2 * LEASE:
        wrong.append(f"the stopped replica was not declared dead in {seconds} s")
    return wrong


async def _number(watch: psycopg.AsyncConnection[Any], query: str) -> int:
    row = await (await watch.execute(query.encode())).fetchone()
    assert row is not None
    return int(row[0])
