"""The statements that a read of PostgreSQL takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import HERE, WORKING, Author


@contextmanager
def _noted(engine: Any) -> Iterator[list[bool]]:
    """For each statement whether it is without a transaction."""
    noted: list[bool] = []

    def note(_: Any, cursor: Any, *__: Any) -> None:
        noted.append(cursor.connection.autocommit)

    event.listen(engine, "before_cursor_execute", note)
    yield noted
    event.remove(engine, "before_cursor_execute", note)


async def test_a_task_is_read_with_one_statement_and_many_with_few(postgres_url: str) -> None:
    async with open_sql_store(postgres_url, StoreOptions(lease=600.0)) as store:
        # Its first round would be counted on a busy machine.
        await store.janitor.close()
        for number in range(40):
            author = Author(store).begin(f"t{number}")
            author.chunk("x" * 1000)
            await author.sync()
            if number % 2:
                author.status(WORKING)
                await author.sync()
        with _noted(store._database.engine) as noted:
            assert await store.get(HERE, "t0") is not None
            assert noted == [True]
            # The events that are not in the body yet.
            assert await store.get(HERE, "t1") is not None
            assert noted == [True] * 3
            found = await store.get_many([(HERE, f"t{number}") for number in range(40)])
            assert [one.last for one in found if one] == [2, 3] * 20
            assert noted == [True] * 6
