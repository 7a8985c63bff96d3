"""A replica that was declared dead joins again, also if the result of its statement is lost."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from a2a_bridge.cluster import cluster as membership
from a2a_bridge.cluster.cluster import Membership
from a2a_bridge.cluster.session import SessionError
from tests.replicas.conftest import LEASE


class Table:
    """The table as far as a session uses it. cuts: where the connection breaks at the next joining."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.cuts = ""

    async def run(self, statement: str, values: Any, _: float = 0) -> list[tuple[Any, ...]]:
        me = values.get("me")
        if statement is membership.JOIN:
            cuts, self.cuts = self.cuts, ""
            if cuts == "before":
                raise SessionError("cut")
            self.rows[me] = 0
            if cuts == "after":
                raise SessionError("cut")
            return [(me,)]
        if statement is membership.BEAT:
            if me in self.rows:
                self.rows[me] += 1
            return list(self.rows.items())
        return []

    async def close(self) -> None:
        pass


class Heard:
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_rename(self, me: str) -> None:
        self.names.append(me)

    def on_members(self, alive: frozenset[str], began: float) -> None:
        pass

    on_orphans = unreachable = tell = lambda self: None


@pytest.mark.parametrize("cuts", ["", "before", "after"])
async def test_a_connection_that_breaks_when_a_replica_joins_again(cuts: str) -> None:
    table, heard, names = Table(), Heard(), count()
    one = Membership(
        table, heard, lambda call, *arguments: call(*arguments), lambda: f"r{next(names)}", lease=LEASE
    )
    await one.join()
    first = one.name
    table.rows.clear()
    table.cuts = cuts
    if cuts:
        with pytest.raises(SessionError):
            await one.beat()
    for _ in range(3):
        await one.beat()
    assert one.name != first
    assert list(table.rows) == [one.name]
    assert heard.names == [one.name]
