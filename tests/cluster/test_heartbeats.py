"""Who is alive, as a replica tells its store, with a clock of the test."""

import asyncio
from typing import Any

from a2a_bridge.cluster.cluster import BURY, Membership
from tests.cluster.virtual_loop import VirtualLoop
from tests.cluster.world import Database

LEASE = 4.0


class Late:
    """A session whose other replica sends its next heartbeat just before it would be declared dead."""

    def __init__(self) -> None:
        self.database = Database()
        self.database.replicas["other"] = 0
        self.buried = 0

    async def run(self, statement: Any, values: Any, _: float = 0, /) -> list[tuple[Any, ...]]:
        if statement is BURY:
            self.buried += 1
            self.database.replicas["other"] += 1
        return self.database.run(statement, values)

    async def close(self) -> None:
        pass


class Told:
    """What Membership calls of a Cluster."""

    def __init__(self) -> None:
        self.alive: list[frozenset[str]] = []
        self.orphans = 0

    def on_members(self, alive: frozenset[str], _: float, /) -> None:
        self.alive.append(alive)

    def on_orphans(self) -> None:
        self.orphans += 1

    def on_rename(self, me: str, /) -> None:
        raise AssertionError(me)

    def unreachable(self) -> None:
        raise AssertionError

    def tell(self) -> None:
        raise AssertionError


def test_a_replica_whose_heartbeat_comes_in_the_last_moment_is_alive() -> None:
    session, told = Late(), Told()
    membership = Membership(
        session, told, lambda function, *values: function(*values), lambda: "me", lease=LEASE
    )

    async def live() -> None:
        await membership.join()
        for _ in range(6):
            await asyncio.sleep(LEASE / 4)
            await membership.beat()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
    assert session.buried == 1
    assert set(told.alive) == {frozenset({"me", "other"})}
    assert told.orphans == 1  # of the start
