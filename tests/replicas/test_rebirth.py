"""A replica that was declared dead joins again, also if the answer to its request is lost."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import OperationalError

from a2a_bridge.hosting.stores.sql import replicas
from a2a_bridge.hosting.stores.sql.replicas import Replicas


class Table:
    """The tables as far as a link uses them. cuts: where the connection breaks at the next joining."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.askers: list[str] = []
        self.cuts = ""

    async def run(self, statement: str, values: Any, _: float = 0) -> list[tuple[Any, ...]]:
        me = values.get("me")
        if statement is replicas._JOIN:
            cuts, self.cuts = self.cuts, ""
            if cuts == "before":
                raise OperationalError("cut")
            self.rows[me] = 0
            self.askers = [me if one == values["before"] else one for one in self.askers]
            if cuts == "after":
                raise OperationalError("cut")
            return [(me,)]
        if statement is replicas._BEAT:
            if me in self.rows:
                self.rows[me] += 1
            return list(self.rows.items())
        return []


class ReplicaThread:
    def call_in_store_loop(self, what: Any, *arguments: Any) -> None:
        what(*arguments)


@pytest.mark.parametrize("cuts", ["", "before", "after"])
async def test_a_connection_that_breaks_when_a_replica_joins_again(cuts: str) -> None:
    one = Replicas("postgresql://nowhere", ReplicaThread())
    table = one._link = Table()
    lost: list[bool] = []
    one.on_lost(lambda: lost.append(True))
    await one._register()
    await one._beat()
    first = one.me
    table.askers = [first]
    table.rows.clear()
    table.cuts = cuts
    if cuts:
        with pytest.raises(OperationalError):
            await one._beat()
    for _ in range(3):
        await one._beat()
    assert one.me != first
    assert list(table.rows) == [one.me] == table.askers
    assert lost == [True]
