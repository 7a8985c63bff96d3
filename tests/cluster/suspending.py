"""A replica that stops in the middle of a transaction, and what the healthy ones do meanwhile.

Rules:
1. The moment is found by trial: the replica is stopped, and goes on at once if the database shows no open
   transaction that waits for it.
2. Meanwhile a healthy replica answers each message within a lease, and rejects none.
3. Once the replica was declared dead, the others have its tasks within a lease.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from a2a_bridge.core.errors import A2AError
from tests.cluster.faults import LEASE

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
    """Stops a replica in the middle of a transaction. Returns False if that did not succeed; it is stopped then,
    too.
    """
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
