"""A PostgreSQL that has no transaction ids left: it reports the error of a value that is too large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.sql import commit
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import Author, take


@contextmanager
def numbers(store: Any, none_left: str, *before: str) -> Iterator[Connection]:
    """A connection of its own, after a function that every write calls for its number: it fails while a
    condition holds, with the error code of a value that is too long. before: statements that it needs.
    """
    engine = create_engine(store._database.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as other:
        for statement in before:
            other.execute(text(statement))
        other.execute(
            text(
                f"CREATE FUNCTION numbers() RETURNS xid8 LANGUAGE plpgsql AS $$ BEGIN IF {none_left} THEN"
                " RAISE 'wraparound' USING ERRCODE = '54000'; END IF; RETURN pg_current_xact_id(); END $$"
            )
        )
        yield other
    engine.dispose()


async def test_a_server_that_has_no_numbers_for_transactions_left_loses_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_NUMBER", "numbers()")
    async with open_sql_store(postgres_url, StoreOptions(ack_timeout=0.1)) as store:
        with numbers(store, "EXISTS (SELECT FROM settings WHERE name = 'none left')") as other:
            author = await Author(store).begin("t").sync()
            other.execute(text("INSERT INTO settings VALUES ('none left', '')"))
            author.chunk("x")
            with pytest.raises(A2AError) as caught:
                await author.sync()
            assert caught.value.reason is Reason.UNAVAILABLE
            other.execute(text("DELETE FROM settings WHERE name = 'none left'"))
        assert await take(store.subscribe("t", 1), 1) == ["x"]
        assert author.lost == 0


async def test_a_server_that_gets_numbers_during_the_search_for_bad_changes_loses_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_NUMBER", "numbers()")
    async with open_sql_store(postgres_url, StoreOptions()) as store:
        # The group fails, then its change alone. A sequence counts in transactions that are rolled back, too.
        with numbers(store, "nextval('calls') < 3", "CREATE SEQUENCE calls START 3") as other:
            author = await Author(store).begin("t").sync()
            other.execute(text("ALTER SEQUENCE calls MINVALUE 1 RESTART WITH 1"))
            author.chunk("x")
            await author.sync()
        assert await take(store.subscribe("t", 1), 1) == ["x"]
        assert author.lost == 0
