"""The part of StoreContract about drivers of StoreBase: what they keep for it, and what they delete.

A store without a driver is not tested here.
"""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import GapError, Sent, Store, TaskQuery
from a2a_bridge.stores.records import Expiry
from a2a_bridge.stores.store_base import StoreBase
from a2a_bridge.testing.store_opening import OpensStores
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    ELSEWHERE,
    HERE,
    INPUT,
    PATIENCE,
    WORKING,
    Author,
    ids,
    pages,
    rest,
    take,
)

#: seconds; more than any test takes
_HOUR = 3600.0


def _base(store: Store) -> StoreBase:
    """The store, if it has a driver."""
    if not isinstance(store, StoreBase):
        pytest.skip("the store has no driver")
    return store


class DriverContract(OpensStores):
    """Checksums; messages, events of ended tasks and ended tasks that expire."""

    async def test_checksums_come_back(self, store: Store) -> None:
        """Without them, StoreBase cannot see damage."""
        author = Author(_base(store)).begin("t")
        await author.sync()
        for text in "xyz":  # no change of the body
            author.chunk(text)
            await author.sync()
        await store.sends.reserve(HERE, "m", b"1", "t")
        await store.sends.store_response(HERE, "m", b"answer")
        records = _base(store).records
        (row,) = await records.read_tasks([(HERE, "t")])
        (listed,) = (await records.find(HERE, TaskQuery(), None)).rows
        _, segments = await records.read_events("t", 0, 1 << 20)
        sent = await records.read_sent(HERE, "m")
        assert row is not None
        assert [one.last for one in segments] == [1, 2, 3, 4]
        for read in (row, listed, *row.tail, *listed.tail, *segments, sent):
            assert read is not None
            assert read.checksum is not None

    async def _scene(self, store: Store) -> None:
        """An ended task in two scopes, one that rests, one that is held, and a message."""
        for scope, task_id in ((HERE, "ended"), (ELSEWHERE[0], "theirs")):
            author = Author(store, scope).begin(task_id)
            author.chunk("x")
            author.status(COMPLETED)
            await author.sync()
        resting = Author(store).begin("rests")
        resting.chunk("x")
        resting.status(INPUT)
        await resting.release()
        held = Author(store).begin("held")
        held.chunk("x")
        await held.sync()
        assert await store.sends.reserve(HERE, "m", b"1", "held") is None

    async def _delete(self, store: Store, *expired: str) -> None:
        """Deletes everything of these kinds, and of the others what is an hour old."""
        ages = [-_HOUR if name in expired else _HOUR for name in ("sends", "events", "tasks")]
        await _base(store).delete_expired(Expiry(*ages))

    async def _assert_living(self, store: Store) -> None:
        """Tasks that have not ended are whole."""
        assert await take(store.subscribe("held", 0), 2) == [("task", WORKING), "x"]
        assert await take(store.subscribe("rests", 0), 3) == [("task", WORKING), "x", INPUT]
        read = await store.get_many([(HERE, "held"), (HERE, "rests")])
        assert [one is not None and len(one.task.artifacts) for one in read] == [1, 1]

    async def test_what_is_young_is_kept(self, store: Store) -> None:
        await self._scene(store)
        await self._delete(store)
        assert sorted(ids(await pages(store))) == ["ended", "held", "rests"]
        assert await rest(store.subscribe("ended", 0)) == [("task", WORKING), "x", COMPLETED]
        await self._assert_living(store)
        assert await store.sends.reserve(HERE, "m", b"1", "u") == Sent(b"1", "held")

    async def test_old_messages_are_forgotten(self, store: Store) -> None:
        await self._scene(store)
        await self._delete(store, "sends")
        assert await store.sends.reserve(HERE, "m", b"2", "u") is None
        assert await rest(store.subscribe("ended", 0)) == [("task", WORKING), "x", COMPLETED]
        await self._assert_living(store)

    async def test_old_events_of_ended_tasks_are_deleted(self, store: Store) -> None:
        await self._scene(store)
        await self._delete(store, "events")
        for after in range(3):
            reader = store.subscribe("ended", after)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(GapError):
                    await reader.take()
            reader.close()
        assert await rest(store.subscribe("ended", 3)) == []  # nothing is missing after the last event
        ended, theirs = await store.get_many([(HERE, "ended"), (ELSEWHERE[0], "theirs")])
        assert ended is not None
        assert (ended.last, ended.task.status.state, len(ended.task.artifacts)) == (3, COMPLETED, 1)
        assert theirs is not None
        assert await store.task_at(HERE, "ended", 1) == ended.task
        assert await store.sends.reserve(HERE, "m", b"1", "u") == Sent(b"1", "held")
        await self._assert_living(store)

    async def test_old_ended_tasks_are_deleted(self, store: Store) -> None:
        await self._scene(store)
        await self._delete(store, "events", "tasks")
        assert await store.get_many([(HERE, "ended"), (ELSEWHERE[0], "theirs")]) == [None, None]
        for state, wanted in ((hub.TASK_STATE_UNSPECIFIED, ["held", "rests"]), (COMPLETED, [])):
            read = await pages(store, state=state)
            assert (sorted(ids(read)), read[0].total) == (wanted, len(wanted))
        await self._assert_living(store)

    async def test_tasks_may_expire_before_their_events(self, store: Store) -> None:
        await self._scene(store)
        await self._delete(store, "tasks")
        assert sorted(ids(await pages(store))) == ["held", "rests"]
        assert await store.get_many([(HERE, "ended")]) == [None]
        # They are gone with the task: a log of the same name begins anew.
        author = await Author(store).begin("ended", state=INPUT).sync()
        author.status(WORKING)
        await author.sync()
        reader = store.subscribe("ended", 0)
        assert await take(reader, 2) == [("task", INPUT), WORKING]
        reader.close()
