"""StoreContract: what the engine relies on in any store. Not how fast it is, nor what becomes of it in a crash.

`DurableStoreContract` has that too. Subclass one with `opened`; the subclass's name must start with `Test`. Stores of
other makers need nothing else of this package.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.ports import Gap, Registered, Scope, Sent, Store, TaskQuery, VersionConflict
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import full, minimal
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    ELSEWHERE,
    FAILED,
    HERE,
    INPUT,
    NOON,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Author,
    found,
    ids,
    made,
    pages,
    rest,
    take,
)


class _Opens:
    """Opens the store under test."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with self.opened() as store:
            yield store


class _Writing(_Opens):
    """One writer, numbers, versions."""

    @pytest.mark.parametrize("task", [full(hub.Task), minimal(hub.Task)], ids=["full", "minimal"])
    async def test_a_task_comes_back_whole(self, store: Store, task: hub.Task) -> None:
        await Author(store).begin(task).synced()
        stored = await found(store, task.id)
        assert (stored.task, stored.last, stored.holder) == (task, 1, "")

    async def test_a_large_task_comes_back_whole(self, store: Store) -> None:
        task = made("t")
        task.artifacts.add(artifact_id="a").parts.add(raw=bytes(range(256)) * 8192)
        author = Author(store).begin(task)
        author.chunk("x" * 300_000)
        await author.synced()
        assert (await found(store, "t")).task == author.task

    async def test_what_is_not_there(self, store: Store) -> None:
        assert await store.get(HERE, "t") is None
        assert await store.list(HERE, TaskQuery()) == ([], "", 0)
        assert await store.task_at(HERE, "t", 1) is None

    async def test_a_store_that_works_refuses_nothing(self, store: Store) -> None:
        assert store.refusal() is None

    async def test_a_writer_that_says_nothing_leaves_nothing(self, store: Store) -> None:
        writer = store.create(HERE, "t", lambda: None)
        assert (writer.last, writer.pending) == (0, False)
        writer.release()
        assert await store.get(HERE, "t") is None
        await Author(store).begin("t").synced()

    async def test_events_are_numbered_from_one(self, store: Store) -> None:
        author = Author(store).begin("t")
        assert author.writer.last == 1
        numbers = [author.status(WORKING), author.chunk("x"), author.chunk("y"), author.status(COMPLETED)]
        assert numbers == [2, 3, 4, 5]
        assert author.writer.last == 5
        await author.synced()
        assert (await found(store, "t")).last == 5

    async def test_after_the_wait_nothing_is_pending(self, store: Store) -> None:
        author = Author(store).begin("t")
        for number in range(50):
            author.chunk(str(number))
            if number % 10 == 0:
                await author.synced()
                assert not author.writer.pending
                stored = await found(store, "t")
                assert (stored.task, stored.last) == (author.task, number + 2)

    async def test_who_waits_is_told_in_order_and_at_once_when_all_is_durable(self, store: Store) -> None:
        told: list[Any] = []
        author = Author(store).begin("t")
        author.writer.when_synced(lambda error: told.append(("a", error)))
        author.chunk("x")
        author.writer.when_synced(lambda error: told.append(("b", error)))
        author.writer.when_synced(lambda error: told.append(("c", error)))
        await author.synced()
        assert told == [("a", None), ("b", None), ("c", None)]
        author.writer.when_synced(lambda error: told.append(("d", error)))
        assert told[3:] == [("d", None)]

    async def test_many_may_wait_for_many(self, store: Store) -> None:
        authors = [Author(store).begin(f"t{number}") for number in range(30)]
        for author in authors:
            author.status(COMPLETED)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(author.writer.synced() for author in authors for _ in range(3)))
        assert len(ids(await pages(store))) == 30

    async def test_a_wait_that_is_given_up_harms_nobody(self, store: Store) -> None:
        author = Author(store).begin("t")
        waiting = asyncio.create_task(author.writer.synced())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        await author.synced()
        assert (await found(store, "t")).task == author.task

    async def test_a_writer_may_go_on_when_there_is_room(self, store: Store) -> None:
        author = Author(store).begin("t")
        async with asyncio.timeout(PATIENCE):
            for number in range(600):
                author.chunk(str(number % 10))
                await author.writer.room()
        await author.synced()
        assert (await found(store, "t")).last == 601

    async def test_stores_give_copies(self, store: Store) -> None:
        author = await Author(store).begin("t").synced()
        for read in (await found(store, "t"), (await store.list(HERE, TaskQuery(artifacts=True))).tasks):
            task = read[0]
            task.context_id = "changed"
            task.artifacts.add(artifact_id="smuggled")
        assert (await found(store, "t")).task == author.task
        await author.released()
        kept = author.copy()
        author.task.context_id = "changed"
        (await found(store, "t")).task.context_id = "changed"
        assert (await found(store, "t")).task == kept

    async def test_a_message_that_joins_is_no_event(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(INPUT, text="well?")
        author.amend("m-2")
        assert author.writer.last == 2
        await author.synced()
        stored = await found(store, "t")
        assert (stored.task, stored.last) == (author.task, 2)
        assert [one.message_id for one in stored.task.history] == ["s2", "m-2"]
        author.chunk("x")
        await author.synced()
        assert (await found(store, "t")).task == author.task

    async def test_a_snapshot_takes_the_place_of_the_task(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.chunk("x")
        author.task.CopyFrom(made("t", NOON + 1, state=INPUT))
        author.writer.append(hub.StreamResponse(task=author.task), author.task)
        author.chunk("y")
        await author.synced()
        assert (await found(store, "t")).task == author.task

    async def test_an_id_is_given_once(self, store: Store) -> None:
        first = await Author(store).begin("t").synced()
        second = Author(store).begin("t", context_id="another")
        second.status(COMPLETED)
        with pytest.raises(VersionConflict):
            await second.synced()
        assert (first.lost, second.lost) == (0, 1)
        assert (await found(store, "t")).task == first.task
        first.status(COMPLETED)
        await first.synced()

    async def test_of_two_who_begin_the_same_at_once_one_does(self, store: Store) -> None:
        authors = [Author(store).begin("t", context_id=name) for name in "ab"]
        results = await asyncio.gather(*(one.writer.synced() for one in authors), return_exceptions=True)
        won = [author for author, error in zip(authors, results, strict=True) if error is None]
        assert len(won) == 1
        assert [type(error) for error in results if error is not None] == [VersionConflict]
        assert (await found(store, "t")).task == won[0].task

    async def test_a_task_goes_on_after_a_rest(self, store: Store) -> None:
        author = Author(store).begin("t")
        for round_ in range(5):
            author.status(INPUT)
            await author.released()
            author = await Author(store).reopen("t")
            assert author.writer.last == 2 * round_ + 2
            assert author.status(WORKING) == 2 * round_ + 3
        author.status(COMPLETED)
        await author.synced()
        stored = await found(store, "t")
        assert (stored.last, stored.task) == (12, author.task)

    async def test_a_hold_may_be_given_up_with_everything_still_on_its_way(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.chunk("x")
        author.status(INPUT)
        author.writer.release()
        async with asyncio.timeout(PATIENCE):
            while (stored := await store.get(HERE, "t")) is None:  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(0)
            again = await Author(store).reopen("t")
        assert (again.task, stored.last, author.lost) == (author.task, 3, 0)

    async def test_what_is_held_is_held(self, store: Store) -> None:
        author = await Author(store).begin("t").synced()
        with pytest.raises(VersionConflict):
            await Author(store).reopen("t")
        old = await found(store, "t")
        author.status(INPUT)
        await author.released()
        with pytest.raises(VersionConflict):
            await Author(store).open(old)
        again = await Author(store).reopen("t")
        for stale in (old, await found(store, "t")):
            with pytest.raises(VersionConflict):
                await Author(store).open(stale)
        again.status(COMPLETED)
        await again.synced()
        assert (author.lost, again.lost) == (0, 0)

    async def test_one_of_many_gets_the_hold(self, store: Store) -> None:
        await (await Author(store).begin("t", state=INPUT).synced()).released()
        stored = await found(store, "t")
        results = await asyncio.gather(
            *(Author(store).open(stored) for _ in range(10)), return_exceptions=True
        )
        won = [one for one in results if isinstance(one, Author)]
        assert len(won) == 1
        assert all(isinstance(one, Author | VersionConflict) for one in results)
        won[0].status(COMPLETED)
        await won[0].synced()

    async def test_nobody_can_open_what_is_not_there(self, store: Store) -> None:
        stored = await found((await Author(store).begin("t").released()).store, "t")
        for scope in ELSEWHERE:
            with pytest.raises(VersionConflict):
                await Author(store, scope).open(stored)
        stored.task.id = "u"
        with pytest.raises(VersionConflict):
            await Author(store).open(stored)

    async def test_an_ended_task_is_held_by_nobody(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(FAILED)
        await author.synced()
        author.writer.release()
        assert await found(store, "t") == (author.task, (await found(store, "t")).version, 2, "")
        assert list(await store.orphans(10)) == []

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_other_scopes_see_nothing(self, store: Store, scope: Scope) -> None:
        await Author(store).begin("t").synced()
        await Author(store, scope).begin("own").synced()
        assert await store.get(scope, "t") is None
        assert await store.task_at(scope, "t", 1) is None
        assert ids(await pages(store, scope)) == ["own"]
        assert ids(await pages(store, HERE)) == ["t"]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    async def test_any_history_adds_up(self, store: Store, seed: int) -> None:
        choose = random.Random(seed)  # noqa: S311  a test, not a secret
        authors: dict[str, Author] = {}
        for step in range(200):
            if len(authors) < 2 or choose.random() < 0.05:
                author = authors[f"t{step}"] = Author(store, choose.choice([HERE, ELSEWHERE[0]]))
                author.begin(f"t{step}", NOON + choose.randrange(20), context_id=choose.choice("xy"))
            author = authors[choose.choice(list(authors))]
            match choose.randrange(12):
                case 0:
                    author.status(INPUT, NOON + choose.randrange(20), choose.choice(["", "well?"]))
                case 1:
                    author.amend(f"m{step}")
                case 2:
                    await author.released()
                    await author.reopen(author.task.id)
                case 3:
                    await author.synced()
                    assert (await found(store, author.task.id, author.scope)).task == author.task
                case 4 | 5:
                    author.status(WORKING, NOON + choose.randrange(20))
                case 6:
                    await asyncio.sleep(0)
                case _:
                    author.chunk("x" * choose.randrange(300), choose.choice("ab"))
        for author in authors.values():
            await author.synced()
            stored = await found(store, author.task.id, author.scope)
            assert (stored.task, stored.last) == (author.task, author.writer.last)
        listed = [one for page in await pages(store, artifacts=True, page_size=4) for one in page.tasks]
        mine = {one.task.id: one.task for one in authors.values() if one.scope == HERE}
        assert {one.id: one for one in listed} == mine
        times = [one.status.timestamp.ToNanoseconds() for one in listed]
        assert times == sorted(times, reverse=True)


class _Lists(_Opens):
    """Order, pages, filters."""

    async def _several(self, store: Store, *times: int, scope: Scope = HERE) -> list[Author]:
        return [
            await Author(store, scope).begin(f"{scope.owner}{number}", NOON + time).synced()
            for number, time in enumerate(times)
        ]

    async def test_lists_begin_with_the_newest(self, store: Store) -> None:
        authors = await self._several(store, 0, 1, -1, -(10**9))
        assert ids(await pages(store)) == ["ann1", "ann0", "ann2", "ann3"]
        authors[3].status(WORKING, NOON + 2)
        await authors[3].synced()
        assert ids(await pages(store)) == ["ann3", "ann1", "ann0", "ann2"]

    @pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 100])
    async def test_pages_have_everything_once(self, store: Store, size: int) -> None:
        await self._several(store, *(number // 3 for number in range(8)))
        whole = ids(await pages(store))
        read = await pages(store, page_size=size)
        assert ids(read) == whole
        assert sorted(whole) == [f"ann{number}" for number in range(8)]
        assert {page.total for page in read} == {8}
        assert [len(page.tasks) for page in read[:-1]] == [size] * (len(read) - 1)
        assert read[-1].tasks

    async def test_pages_stay_true_while_tasks_come_and_change(self, store: Store) -> None:
        authors = await self._several(store, *range(12))
        token, seen = "", []
        for round_ in range(4):
            page = await store.list(HERE, TaskQuery(page_size=3, page_token=token))
            token = page.next_page_token
            seen += [one.id for one in page.tasks]
            # One that was shown and one that was not move to the front, and a new one comes.
            await Author(store).begin(f"new{round_}", NOON + 1000 + round_).synced()
            for number in (11 - round_, round_):
                authors[number].status(WORKING, NOON + 100 + 2 * round_)
                await authors[number].synced()
        assert len(seen) == len(set(seen))
        assert not [one for one in seen if one.startswith("new")]
        moved = {f"ann{number}" for number in range(3)}
        assert {f"ann{number}" for number in range(12)} - set(seen) <= moved

    async def test_filters(self, store: Store) -> None:
        for task_id, time, context_id, state in (
            ("a", 0, "x", WORKING),
            ("b", 1, "x", COMPLETED),
            ("c", 2, "y", COMPLETED),
            ("d", 3, "y", WORKING),
        ):
            await Author(store).begin(task_id, NOON + time, context_id=context_id, state=state).synced()
        for query, wanted in (
            ({"context_id": "x"}, ["b", "a"]),
            ({"context_id": "z"}, []),
            ({"state": COMPLETED}, ["c", "b"]),
            ({"state": FAILED}, []),
            ({"since": NOON + 2}, ["d", "c"]),
            ({"since": NOON + 4}, []),
            ({"since": 0}, ["d", "c", "b", "a"]),
            ({"state": COMPLETED, "context_id": "y", "since": NOON}, ["c"]),
        ):
            for size in (1, 50):
                read = await pages(store, **query, page_size=size)
                assert ids(read) == wanted, query
                assert read[0].total == len(wanted)

    async def test_artifacts_come_when_asked_for(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(WORKING, text="said")
        author.status(WORKING)
        author.chunk("x")
        await author.synced()
        bare = author.copy()
        bare.ClearField("artifacts")
        assert (await store.list(HERE, TaskQuery())).tasks == [bare]
        assert (await store.list(HERE, TaskQuery(artifacts=True))).tasks == [author.task]

    @pytest.mark.parametrize("token", ["x", "AAAA", "é", "a.b.c", "=" * 8, "0" * 500])
    async def test_bad_tokens_are_refused(self, store: Store, token: str) -> None:
        await Author(store).begin("t").synced()
        await _assert_refused(store, HERE, TaskQuery(page_token=token))

    async def test_tokens_are_for_their_query_and_scope(self, store: Store) -> None:
        for scope in (HERE, ELSEWHERE[0]):
            await self._several(store, 0, 1, 2, scope=scope)
        token = (await store.list(HERE, TaskQuery(page_size=1))).next_page_token
        assert token
        await _assert_refused(store, ELSEWHERE[0], TaskQuery(page_size=1, page_token=token))
        await _assert_refused(store, HERE, TaskQuery(page_size=1, page_token=token, context_id="c"))
        await _assert_refused(store, HERE, TaskQuery(page_size=1, page_token=token + "A"))


class _Reading(_Opens):
    """Subscriptions."""

    async def _written(self, store: Store, *, end: hub.TaskState | None) -> Author:
        author = Author(store).begin("t", state=SUBMITTED)
        author.status(WORKING)
        for text in "xyz":
            author.chunk(text)
        if end is not None:
            author.status(end)
        return await author.synced()

    @pytest.mark.parametrize("rests", ["held", "released", "ended"])
    async def test_reading_begins_after_any_event(self, store: Store, rests: str) -> None:
        author = await self._written(store, end=COMPLETED if rests == "ended" else INPUT)
        if rests == "released":
            await author.released()
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
        await self._written(store, end=FAILED)
        for after in range(7):
            assert len(await rest(store.subscribe("t", after))) == 6 - after

    async def test_reading_may_begin_before_the_task(self, store: Store) -> None:
        reader = store.subscribe("t", 0)
        waiting = asyncio.create_task(rest(reader))
        await asyncio.sleep(0)
        await self._written(store, end=COMPLETED)
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
        await author.synced()
        reader = store.subscribe("t", 0)
        assert len(await take(reader, 2)) == 2
        reader.close()

    async def test_what_is_read_can_be_looked_up(self, store: Store) -> None:
        """Nothing is shown before it is there."""
        reader = store.subscribe("t", 0)
        author = Author(store).begin("t")
        number = 0
        async with asyncio.timeout(PATIENCE):
            for round_ in range(20):
                author.chunk(str(round_))
                number += len(await reader.take())
                assert (await found(store, "t")).last >= number
        reader.close()

    async def test_positions_tell_what_a_reader_has_seen(self, store: Store) -> None:
        author = await self._written(store, end=None)
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

    async def test_an_end_with_an_error_comes_after_what_there_was(self, store: Store) -> None:
        author = await self._written(store, end=None)
        reader, other = store.subscribe("t", 0), store.subscribe("u", 0)
        store.end("t", A2AError(Reason.UNAVAILABLE, "over"))
        assert await take(reader, 5) == [("task", SUBMITTED), WORKING, "x", "y", "z"]
        with pytest.raises(A2AError) as caught:
            await take(reader, 1)
        assert caught.value.reason is Reason.UNAVAILABLE
        await Author(store).begin("u").synced()
        assert await take(other, 1) == [("task", WORKING)]
        other.close()
        again = store.subscribe("t", 5)
        author.chunk("later")
        assert await take(again, 1) == ["later"]
        again.close()

    async def test_an_end_wakes_who_waits(self, store: Store) -> None:
        waiting = asyncio.create_task(store.subscribe("t", 0).take())
        await asyncio.sleep(0)
        store.end("t", A2AError(Reason.UNAVAILABLE))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(A2AError):
                await waiting

    @pytest.mark.parametrize("end", [None, COMPLETED])
    async def test_beyond_the_end_is_a_gap(self, store: Store, end: hub.TaskState | None) -> None:
        author = await self._written(store, end=end)
        for after in (author.writer.last + 1, 10**6, 10**18):
            reader = store.subscribe("t", after)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(Gap):
                    await reader.take()
            reader.close()

    async def test_the_task_after_each_event(self, store: Store) -> None:
        author = Author(store).begin("t", state=SUBMITTED)
        seen = [author.copy()]
        for number in range(12):
            (author.status(WORKING, text=str(number)) if number % 5 == 0 else author.chunk(str(number)))
            seen.append(author.copy())
            if number % 4 == 0:
                await author.synced()
        await author.synced()
        for number, task in enumerate(seen, 1):
            assert await store.task_at(HERE, "t", number) == task
        assert await store.task_at(HERE, "t", 99) == author.task


class _Sends(_Opens):
    """The register of messages that were sent."""

    async def test_a_message_is_new_once(self, store: Store) -> None:
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        for digest, task_id in ((b"1", "t"), (b"2", "u")):
            known = await store.sends.reserve(HERE, "m", digest, task_id)
            assert known == Sent(b"1", "t")
        assert await store.sends.reserve(HERE, "other", b"1", "t") is None

    async def test_of_many_at_once_one_is_new(self, store: Store) -> None:
        sent = await asyncio.gather(
            *(store.sends.reserve(HERE, "m", b"1", f"t{number}") for number in range(10))
        )
        assert sent.count(None) == 1
        assert [one for one in sent if one is not None] == [Sent(b"1", f"t{sent.index(None)}")] * 9

    async def test_a_direct_answer_is_kept(self, store: Store) -> None:
        await store.sends.reserve(HERE, "m", b"1", "t")
        await store.sends.answered(HERE, "m", b"\x00answer")
        assert await store.sends.reserve(HERE, "m", b"1", "u") == Sent(b"1", "t", b"\x00answer")

    async def test_what_was_refused_may_come_again(self, store: Store) -> None:
        await store.sends.reserve(HERE, "m", b"1", "t")
        await store.sends.forget(HERE, "m")
        await store.sends.forget(HERE, "m")
        assert await store.sends.reserve(HERE, "m", b"2", "u") is None

    async def test_what_came_to_nothing_is_replaced_by_one(self, store: Store) -> None:
        await store.sends.reserve(HERE, "m", b"1", "t")
        known = await store.sends.reserve(HERE, "m", b"1", "u")
        assert known is not None
        taken = await asyncio.gather(
            *(store.sends.reserve(HERE, "m", b"1", f"u{number}", instead=known) for number in range(5))
        )
        assert taken.count(None) == 1
        assert {one.task_id for one in taken if one is not None} == {f"u{taken.index(None)}"}

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_a_message_is_its_scopes(self, store: Store, scope: Scope) -> None:
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        assert await store.sends.reserve(scope, "m", b"2", "u") is None
        await store.sends.forget(scope, "m")
        assert await store.sends.reserve(HERE, "m", b"1", "x") == Sent(b"1", "t")


class _Pushing(_Opens):
    """Push configs, and what goes to the outbox with an event. Delivery has its own tests."""

    async def test_configs(self, store: Store) -> None:
        await Author(store).begin("t").synced()
        whole = Registered(full(hub.TaskPushNotificationConfig), "0.3", "{}")
        whole.config.task_id = "t"
        await store.push_configs.put(HERE, whole)
        other = Registered(hub.TaskPushNotificationConfig(task_id="t", id="b", url="https://hook.example/"))
        await store.push_configs.put(HERE, other)
        assert await store.push_configs.get(HERE, "t", whole.config.id) == whole
        assert await store.push_configs.list(HERE, "t") == [whole, other]
        changed = other._replace(version="0.3")
        await store.push_configs.put(HERE, changed)
        await store.push_configs.delete(HERE, "t", whole.config.id)
        await store.push_configs.delete(HERE, "t", "none")
        assert await store.push_configs.list(HERE, "t") == [changed]
        for scope in ELSEWHERE:
            assert await store.push_configs.get(scope, "t", "b") is None
            assert await store.push_configs.list(scope, "t") == []
            await store.push_configs.delete(scope, "t", "b")
        assert await store.push_configs.get(HERE, "t", "b") == changed

    async def test_events_of_tasks_with_configs_go_to_the_outbox(self, store: Store) -> None:
        config = hub.TaskPushNotificationConfig(task_id="t", id="p", url="https://hook.example/")
        await store.push_configs.put(HERE, Registered(config))
        author = Author(store, push=True).begin("t")
        author.chunk("x")
        silent = Author(store).begin("u")
        author.status(COMPLETED)
        await author.synced()
        await silent.synced()
        letters = await store.outbox.letters()
        assert [(one.scope, one.task_id, one.config_id, one.sequence) for one in letters] == [
            (HERE, "t", "p", number) for number in (1, 2, 3)
        ]


class StoreContract(_Writing, _Lists, _Reading, _Sends, _Pushing):
    """What the engine relies on in any store."""


class DurableStoreContract(StoreContract):
    """Also what becomes of things when the process dies. Subclass it with `opened` and `survivor`."""

    def survivor(self, store: Store) -> AbstractAsyncContextManager[Store]:
        """The same data opened by another process, after that of `store` was killed at this moment."""
        raise NotImplementedError

    async def test_what_was_waited_for_survives(self, store: Store) -> None:
        author = Author(store).begin("t", state=SUBMITTED)
        author.status(WORKING)
        author.chunk("x")
        await author.synced()
        ended = Author(store).begin("u")
        ended.status(COMPLETED)
        await ended.synced()
        async with self.survivor(store) as other:
            stored = await found(other, "t")
            assert (stored.task, stored.last, stored.holder) == (author.task, 3, "")
            assert await take(other.subscribe("t", 0), 3) == [("task", SUBMITTED), WORKING, "x"]
            assert await rest(other.subscribe("u", 1)) == [COMPLETED]
            assert ids(await pages(other)) == ids(await pages(store))

    async def test_what_was_read_survives(self, store: Store) -> None:
        reader = store.subscribe("t", 0)
        author = Author(store).begin("t")
        for number in range(40):
            author.chunk(str(number))
        async with asyncio.timeout(PATIENCE):
            read = [one for _ in range(2) for one in await reader.take()]
            async with self.survivor(store) as other:
                again = other.subscribe("t", 0)
                whole = list(await again.take())
                while len(whole) < len(read):
                    whole += await again.take()
        assert whole[: len(read)] == read
        reader.close()

    async def test_what_the_dead_held_is_found_and_taken_over(self, store: Store) -> None:
        held = await Author(store).begin("held").synced()
        await (await Author(store).begin("rests", state=INPUT).synced()).released()
        ended = Author(store).begin("ended")
        ended.status(COMPLETED)
        await ended.synced()
        assert list(await store.orphans(10)) == []
        async with self.survivor(store) as other:
            assert list(await other.orphans(10)) == [(HERE, "held")]
            taken = await Author(other).reopen("held")
            assert list(await other.orphans(10)) == []
            reader = other.subscribe("held", 1)
            assert taken.status(FAILED) == 2
            await taken.synced()
            assert await rest(reader) == [FAILED]
            assert (await found(other, "held")).task == taken.task
            assert taken.task != held.task

    async def test_orphans_come_in_portions(self, store: Store) -> None:
        for number in range(5):
            await Author(store, ELSEWHERE[number % 2]).begin(f"t{number}").synced()
        async with self.survivor(store) as other:
            seen = set()
            for size in (2, 2, 1):
                orphans = await other.orphans(2)
                assert len(orphans) == size
                for scope, task_id in orphans:
                    author = await Author(other, scope).reopen(task_id)
                    author.status(FAILED)
                    await author.synced()
                    seen.add(task_id)
        assert seen == {f"t{number}" for number in range(5)}

    async def test_messages_that_were_sent_survive(self, store: Store) -> None:
        await store.sends.reserve(HERE, "m", b"1", "t")
        await store.sends.reserve(HERE, "n", b"2", "u")
        await store.sends.answered(HERE, "n", b"answer")
        async with self.survivor(store) as other:
            known = await other.sends.reserve(HERE, "m", b"1", "x")
            assert known == Sent(b"1", "t")
            assert await other.sends.reserve(HERE, "n", b"2", "x") == Sent(b"2", "u", b"answer")
            assert await other.sends.reserve(HERE, "m", b"1", "x", instead=known) is None

    async def test_push_survives(self, store: Store) -> None:
        config = hub.TaskPushNotificationConfig(task_id="t", id="p", url="https://hook.example/")
        await store.push_configs.put(HERE, Registered(config))
        await Author(store, push=True).begin("t").synced()
        async with self.survivor(store) as other:
            assert await other.push_configs.list(HERE, "t") == [Registered(config)]
            assert [one.sequence for one in await other.outbox.letters()] == [1]


class SharedStoreContract(DurableStoreContract):
    """Also what processes that share a store see of each other. Subclass it with `beside` too.

    The `survivor` works on the very data of `store` here, and `store` itself goes on, as a process does that was cut
    off for too long.
    """

    def beside(self, store: Store) -> AbstractAsyncContextManager[Store]:
        """The same data opened by another process, while that of `store` lives."""
        raise NotImplementedError

    async def test_what_another_holds_is_shown_and_left_alone(self, store: Store) -> None:
        author = await Author(store).begin("t").synced()
        async with self.beside(store) as other:
            stored = await found(other, "t")
            assert stored.task == author.task
            assert stored.holder
            assert list(await other.orphans(10)) == []
            with pytest.raises(VersionConflict):
                await Author(other).open(stored)
            author.status(INPUT)
            await author.released()
            again = await Author(other).reopen("t")
            assert (await found(store, "t")).holder not in ("", stored.holder)
            again.status(COMPLETED)
            await again.synced()
            assert (await found(store, "t")).task == again.task
        assert author.lost == 0

    async def test_readers_read_what_another_writes(self, store: Store) -> None:
        async with self.beside(store) as other:
            readers = [one.subscribe("t", 0) for one in (store, other)]
            author = Author(store).begin("t")
            for number in range(40):
                author.chunk(str(number))
            author.status(COMPLETED)
            whole = [("task", WORKING), *(str(number) for number in range(40)), COMPLETED]
            assert await asyncio.gather(*(rest(reader) for reader in readers)) == [whole, whole]

    async def test_a_message_that_another_works_on_says_who(self, store: Store) -> None:
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        async with self.beside(store) as other:
            known = await other.sends.reserve(HERE, "m", b"1", "u")
            assert known is not None
            assert (known.digest, known.task_id, bool(known.holder)) == (b"1", "t", True)

    async def test_who_was_taken_for_dead_has_lost_its_hold(self, store: Store) -> None:
        author = await Author(store).begin("t").synced()
        async with self.survivor(store) as other:
            taken = await Author(other).reopen("t")
            taken.status(INPUT)
            await taken.synced()
            author.status(WORKING)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(VersionConflict):
                    await author.writer.synced()
            assert (author.lost, taken.lost) == (1, 0)
            author.chunk("unheard")
            author.writer.release()
            stored = await found(other, "t")
            assert (stored.task, stored.last) == (taken.task, 2)
            taken.status(FAILED)
            await taken.synced()


async def _assert_refused(store: Store, scope: Scope, query: TaskQuery) -> None:
    with pytest.raises(A2AError) as caught:
        await store.list(scope, query)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [one.field for one in caught.value.violations] == ["pageToken"]
