"""The same message on several replicas of one PostgreSQL at once: the second replica gets the result of the first."""

import asyncio
from typing import Any

import psycopg
import pytest

from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import Sent, VersionConflictError
from a2a_bridge.testing.store_scene import HERE, PATIENCE

_PUT = "INSERT INTO sends VALUES (%s, %s, 'm', '1', 'theirs', '', 'other', 1e10)"
_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_message_that_another_one_is_just_writing(postgres_url: str, commits: bool) -> None:
    async with open_store(postgres_url) as store:
        with psycopg.connect(postgres_url) as other, psycopg.connect(postgres_url, autocommit=True) as watch:
            other.execute(_PUT, HERE)
            reserving = asyncio.create_task(store.sends.reserve(HERE, "m", b"1", "mine"))
            async with asyncio.timeout(PATIENCE):
                while watch.execute(_WAITS).fetchone() != (1,):  # noqa: ASYNC110  there is no notification
                    await asyncio.sleep(0)
                if commits:
                    other.commit()
                else:
                    other.rollback()
                assert await reserving == (Sent(b"1", "theirs") if commits else None)
        known = await store.sends.reserve(HERE, "m", b"1", "later")
        assert known == Sent(b"1", "theirs" if commits else "mine")


@pytest.mark.parametrize("when", ["before it reads", "before it writes"])
async def test_a_message_that_a_live_replica_has_taken_over_is_left_to_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async with open_store(postgres_url) as one, open_store(postgres_url) as two:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(_PUT, HERE)
        dead = Sent(b"1", "theirs")
        read = one.records.read_sent  # type: ignore[attr-defined]

        async def read_late(*arguments: Any) -> Any:
            row = None if when == "before it reads" else await read(*arguments)
            if await two.sends.reserve(HERE, "m", b"1", "theirs", instead=dead) is None:
                monkeypatch.undo()
            return row or await read(*arguments)

        monkeypatch.setattr(one.records, "read_sent", read_late)  # type: ignore[attr-defined]
        known = await one.sends.reserve(HERE, "m", b"1", "theirs", instead=dead)
        assert known == dead._replace(holder=two.me())  # type: ignore[attr-defined]


async def test_one_that_was_taken_for_dead_leaves_a_message_to_its_new_replica(postgres_url: str) -> None:
    async with open_store(postgres_url) as one, open_store(postgres_url) as two:
        assert await one.sends.reserve(HERE, "m", b"1", "t") is None
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # As `two` does when it finds that the holder is dead.
            connection.execute("UPDATE sends SET holder = %s", [two.me()])  # type: ignore[attr-defined]
        with pytest.raises(VersionConflictError):
            await one.sends.store_response(HERE, "m", b"late")
        await one.sends.forget(HERE, "m")
        assert await one.sends.reserve(HERE, "m", b"1", "v") == Sent(b"1", "t", b"", two.me())  # type: ignore[attr-defined]
        await two.sends.store_response(HERE, "m", b"answer")
        with pytest.raises(VersionConflictError):
            await one.sends.store_response(HERE, "m", b"late")
        await two.sends.forget(HERE, "m")
        assert await one.sends.reserve(HERE, "m", b"1", "v") is None
