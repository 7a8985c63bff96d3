"""The part of StoreContract about subscriptions: their start, order and end."""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import GapError, Store
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.store_opening import OpensStores
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    FAILED,
    HERE,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Author,
    found,
    rest,
    take,
)


class ReadingContract(OpensStores):
    """Subscriptions."""

    async def _write(self, store: Store, *, end: hub.TaskState | None) -> Author:
        author = Author(store).begin("t", state=SUBMITTED)
        author.status(WORKING)
        for text in "xyz":
            author.chunk(text)
        if end is not None:
            author.status(end)
        return await author.sync()

    @pytest.mark.parametrize("rests", ["held", "released", "ended"])
    async def test_reading_begins_after_any_event(self, store: Store, rests: str) -> None:
        author = await self._write(store, end=COMPLETED if rests == "ended" else INPUT)
        if rests == "released":
            await author.release()
        whole = [("task", SUBMITTED), WORKING, "x", "y", "z", COMPLETED if rests == "ended" else INPUT]
        for after in range(6):
            reader = store.subscribe("t", after)
            assert await take(reader, 6 - after) == whole[after:]
            reader.close()
        reader = store.subscribe("t", 6)
        if rests == "ended":
            assert await rest(reader) == []
            return
        waiting = asyncio.create_task(take(reader, 1))
        await asyncio.sleep(0)
        if rests == "released":
            await author.reopen("t")
        author.status(WORKING)
        assert await waiting == [WORKING]
        reader.close()

    async def test_reading_ends_with_the_task(self, store: Store) -> None:
        await self._write(store, end=FAILED)
        for after in range(7):
            assert len(await rest(store.subscribe("t", after))) == 6 - after

    async def test_reading_may_begin_before_the_task(self, store: Store) -> None:
        reader = store.subscribe("t", 0)
        waiting = asyncio.create_task(rest(reader))
        await asyncio.sleep(0)
        await self._write(store, end=COMPLETED)
        assert await waiting == [("task", SUBMITTED), WORKING, "x", "y", "z", COMPLETED]

    async def test_events_come_to_all_as_they_are_made(self, store: Store) -> None:
        author = Author(store).begin("t")
        readers = [store.subscribe("t", after) for after in (0, 0, 1)]
        assert await take(readers[0], 1) == [("task", WORKING)]
        for text in "xyz":
            author.chunk(text)
            for reader in readers[::2]:
                assert await take(reader, 1) == [text]
        assert await take(readers[1], 4) == [("task", WORKING), "x", "y", "z"]
        for reader in readers:
            reader.close()

    async def test_an_event_comes_back_whole(self, store: Store) -> None:
        author = Author(store).begin("t")
        event = hub.StreamResponse(status_update=full(hub.TaskStatusUpdateEvent))
        author.task.status.CopyFrom(event.status_update.status)
        author.writer.append(event, author.task)
        reader = store.subscribe("t", 1)
        async with asyncio.timeout(PATIENCE):
            assert list(await reader.take()) == [event]
        reader.close()
        await author.sync()
        reader = store.subscribe("t", 0)
        assert len(await take(reader, 2)) == 2
        reader.close()

    async def test_read_positions_can_be_looked_up(self, store: Store) -> None:
        """Events are not visible before the task is durable."""
        reader = store.subscribe("t", 0)
        author = Author(store).begin("t")
        number = 0
        async with asyncio.timeout(PATIENCE):
            for round_ in range(20):
                author.chunk(str(round_))
                number += len(await reader.take())
                assert (await found(store, "t")).last >= number
        reader.close()

    async def test_positions_are_the_events_that_a_reader_has_seen(self, store: Store) -> None:
        author = await self._write(store, end=None)
        for after in (0, 3):
            reader = store.subscribe("t", after)
            number = after
            async with asyncio.timeout(PATIENCE):
                while number < 5:
                    events = await reader.take()
                    assert reader.position == number
                    number += len(events)
            reader.close()
        author.writer.release()

    async def test_tasks_do_not_mix(self, store: Store) -> None:
        left, right = store.subscribe("left", 0), store.subscribe("right", 0)
        authors = [Author(store).begin("left"), Author(store).begin("right")]
        authors[0].status(COMPLETED)
        authors[1].chunk("x")
        assert await rest(left) == [("task", WORKING), COMPLETED]
        assert await take(right, 2) == [("task", WORKING), "x"]
        right.close()

    async def test_a_given_up_wait_loses_nothing(self, store: Store) -> None:
        author = Author(store).begin("t")
        reader = store.subscribe("t", 1)
        waiting = asyncio.create_task(reader.take())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        author.chunk("x")
        assert await take(reader, 1) == ["x"]
        reader.close()

    async def test_closing(self, store: Store) -> None:
        author = Author(store).begin("t")
        gone, stays = store.subscribe("t", 0), store.subscribe("t", 0)
        author.chunk("x")
        gone.close()
        gone.close()
        author.chunk("y")
        assert await take(stays, 3) == [("task", WORKING), "x", "y"]
        stays.close()

    async def test_many_events_reach_a_reader_that_is_not_quick(self, store: Store) -> None:
        author = Author(store).begin("t")
        reader = store.subscribe("t", 1)
        reading = asyncio.create_task(rest(reader))
        async with asyncio.timeout(PATIENCE):
            for number in range(1500):
                author.chunk(str(number))
                await author.writer.room()
        author.status(COMPLETED)
        assert await reading == [*(str(number) for number in range(1500)), COMPLETED]

    async def test_an_end_with_an_error_comes_after_the_earlier_events(self, store: Store) -> None:
        author = await self._write(store, end=None)
        reader, other = store.subscribe("t", 0), store.subscribe("u", 0)
        store.end("t", A2AError(Reason.UNAVAILABLE, "over"))
        assert await take(reader, 5) == [("task", SUBMITTED), WORKING, "x", "y", "z"]
        with pytest.raises(A2AError) as caught:
            await take(reader, 1)
        assert caught.value.reason is Reason.UNAVAILABLE
        await Author(store).begin("u").sync()
        assert await take(other, 1) == [("task", WORKING)]
        other.close()
        again = store.subscribe("t", 5)
        author.chunk("later")
        assert await take(again, 1) == ["later"]
        again.close()

    async def test_an_end_wakes_waiting_readers(self, store: Store) -> None:
        waiting = asyncio.create_task(store.subscribe("t", 0).take())
        await asyncio.sleep(0)
        store.end("t", A2AError(Reason.UNAVAILABLE))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(A2AError):
                await waiting

    @pytest.mark.parametrize("end", [None, COMPLETED])
    async def test_beyond_the_end_is_a_gap(self, store: Store, end: hub.TaskState | None) -> None:
        author = await self._write(store, end=end)
        for after in (author.writer.last + 1, 10**6, 10**18):
            reader = store.subscribe("t", after)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(GapError):
                    await reader.take()
            reader.close()

    async def test_the_task_after_each_event(self, store: Store) -> None:
        author = Author(store).begin("t", state=SUBMITTED)
        seen = [author.copy()]
        for number in range(12):
            (author.status(WORKING, text=str(number)) if number % 5 == 0 else author.chunk(str(number)))
            seen.append(author.copy())
            if number % 4 == 0:
                await author.sync()
        await author.sync()
        for number, task in enumerate(seen, 1):
            assert await store.task_at(HERE, "t", number) == task
        assert await store.task_at(HERE, "t", 99) == author.task
