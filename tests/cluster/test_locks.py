"""Locks among replicas while the database loses statements and their results."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from a2a_bridge.cluster import locks
from a2a_bridge.cluster.locks import ReplicaLocks
from a2a_bridge.cluster.session import SessionError
from tests.patience import PATIENCE


class Table:
    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, bytes]] = {}
        self.alive = {"a", "b"}

    def run(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if statement is locks.SWEEP:
            dead = [name for name, (holder, _) in self.rows.items() if holder not in self.alive]
            return [(name, self.rows.pop(name)) for name in dead]
        name, token = values["name"], values["token"]
        holder, held = self.rows.get(name, ("", b""))
        if statement is locks.RELEASE:
            return [self.rows.pop(name)] if held == token else []
        assert statement is locks.ACQUIRE
        if holder and held != token and holder in self.alive:
            return []
        self.rows[name] = values["me"], token
        return [(name,)]


class Session:
    """Takes the place of PostgresSession. Loses statements and results with the probability `loss`."""

    def __init__(self, table: Table, chance: random.Random) -> None:
        self._table, self._chance = table, chance
        self.loss = 0.0

    async def run(self, statement: str, values: Mapping[str, Any], seconds: float = 5, /) -> list[Any]:
        for _ in range(self._chance.randrange(3)):
            await asyncio.sleep(0)
        if self._chance.random() < self.loss:
            raise SessionError("lost")
        found = self._table.run(statement, values)
        await asyncio.sleep(0)
        if self._chance.random() < self.loss:
            raise SessionError("the result is lost")
        return found

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_SOON", 0.0)
    monkeypatch.setattr(locks, "_LATE", 0.0)


@pytest.mark.parametrize("seed", range(20))
async def test_a_name_has_one_holder_whatever_is_lost(seed: int) -> None:
    chance, table = random.Random(seed), Table()
    made: list[Any] = [Session(table, chance) for _ in "ab"]
    replicas = [ReplicaLocks(made[0], lambda: "a"), ReplicaLocks(made[1], lambda: "b")]
    for session in made:
        session.loss = 0.3
    holders: dict[str, int] = {}
    turns = 0

    async def turn(number: int) -> None:
        nonlocal turns
        name = f"n{number % 3}"
        async with replicas[number % 2].hold(name):
            assert holders.setdefault(name, number) == number
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            del holders[name]
            turns += 1

    async with asyncio.timeout(PATIENCE):
        tasks = [asyncio.create_task(turn(number)) for number in range(24)]
        for cancelled in tasks[::5]:
            asyncio.get_running_loop().call_soon(cancelled.cancel)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for one in replicas:
            await one.close()
    assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
    assert turns >= 19
    assert table.rows == {}


async def test_a_lock_of_a_dead_replica_is_taken_over_and_not_released_by_it() -> None:
    table = Table()
    made: list[Any] = [Session(table, random.Random(1)) for _ in "ab"]
    first, second = ReplicaLocks(made[0], lambda: "a"), ReplicaLocks(made[1], lambda: "b")
    taken = second.hold("n")
    async with asyncio.timeout(PATIENCE):
        async with first.hold("n"):
            waits = asyncio.create_task(taken.__aenter__())
            await asyncio.wait({waits}, timeout=0.05)
            assert not waits.done()
            table.alive.discard("a")
            await waits
            assert table.rows["n"][0] == "b"
        await first.close()
        assert table.rows["n"][0] == "b"
        await taken.__aexit__(None, None, None)
        await second.close()
    assert table.rows == {}


async def test_rows_of_dead_replicas_are_swept_away() -> None:
    table = Table()
    table.rows = {"old": ("dead", b"1"), "new": ("b", b"2")}
    session: Any = Session(table, random.Random(1))
    mine = ReplicaLocks(session, lambda: "a")
    async with asyncio.timeout(PATIENCE), mine.hold("n"):
        assert sorted(table.rows) == ["n", "new"]
    await mine.close()
