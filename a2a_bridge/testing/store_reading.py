"""The tests of StoreContract about lists (order, pages, filters, tokens) and subscriptions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import GapError, Scope, Store, TaskQuery
from a2a_bridge.testing.samples import full
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
    OpensStores,
    found,
    ids,
    pages,
    rest,
    take,
)


class ListContract(OpensStores):
    """Order, pages, filters."""

    async def _several(self, store: Store, *times: int, scope: Scope = HERE) -> list[Author]:
        return [
            await Author(store, scope).begin(f"{scope.owner}{number}", NOON + time).sync()
            for number, time in enumerate(times)
        ]

    async def test_lists_begin_with_the_newest(self, store: Store) -> None:
        authors = await self._several(store, 0, 1, -1, -(10**9))
        assert ids(await pages(store)) == ["ann1", "ann0", "ann2", "ann3"]
        authors[3].status(WORKING, NOON + 2)
        await authors[3].sync()
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
            # A task that was returned and one that was not move to the front, and a new one is created.
            await Author(store).begin(f"new{round_}", NOON + 1000 + round_).sync()
            for number in (11 - round_, round_):
                authors[number].status(WORKING, NOON + 100 + 2 * round_)
                await authors[number].sync()
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
            await Author(store).begin(task_id, NOON + time, context_id=context_id, state=state).sync()
        for query, wanted in (
            ({"context_id": "x"}, ["b", "a"]),
            ({"context_id": "z"}, []),
            ({"state": COMPLETED}, ["c", "b"]),
            ({"state": FAILED}, []),
            ({"since": NOON + 2}, ["d", "c"]),
            ({"since": NOON + 4}, []),
            ({"since": 2**63 - 2}, []),  # up to 64 bits, and beyond
            ({"since": 253_402_300_799 * 10**9}, []),
            ({"since": 0}, ["d", "c", "b", "a"]),
            ({"state": COMPLETED, "context_id": "y", "since": NOON}, ["c"]),
        ):
            for size in (1, 50):
                read = await pages(store, **query, page_size=size)
                assert ids(read) == wanted, query
                assert read[0].total == len(wanted)

    @pytest.mark.parametrize("seed", [1, 2])
    async def test_lists_equal_a_scan(self, store: Store, seed: int) -> None:
        """Tasks come and change between lists; pages and totals are those of a scan over all tasks."""
        choose = random.Random(seed)  # noqa: S311  no secret
        authors: list[Author] = []
        states = [WORKING, INPUT, COMPLETED]
        for round_ in range(6):
            for author in choose.sample(authors, len(authors) // 3):
                if author.task.status.state != COMPLETED:
                    author.status(choose.choice(states), NOON + choose.randrange(40))
            for number in range(12):
                time, state = NOON + choose.randrange(40), choose.choice(states)
                scope = choose.choice([HERE, HERE, ELSEWHERE[0]])
                task_id, context = f"t{round_}-{number}", choose.choice(["", "x", "x", "y"])
                authors.append(Author(store, scope).begin(task_id, time, context_id=context, state=state))
            await asyncio.gather(*(author.sync() for author in authors))
            for _ in range(12):
                query = TaskQuery(
                    context_id=choose.choice(["", "x", "x", "y", "z"]),
                    state=choose.choice([hub.TASK_STATE_UNSPECIFIED, *states]),
                    since=choose.choice([None, NOON + choose.randrange(-1, 41)]),
                )
                scanned = sorted(
                    (author.task.status.timestamp.ToNanoseconds(), author.task.id)
                    for author in authors
                    if author.scope == HERE
                    and query.context_id in ("", author.task.context_id)
                    and query.state in (0, author.task.status.state)
                    and (query.since or 0) <= author.task.status.timestamp.ToNanoseconds()
                )
                options: dict[str, Any] = {
                    "context_id": query.context_id,
                    "state": query.state,
                    "since": query.since,
                }
                read = await pages(store, page_size=choose.choice([1, 5, 100]), **options)
                assert ids(read) == [task_id for _, task_id in reversed(scanned)], query
                assert {page.total for page in read} == {len(scanned)}, query

    async def test_artifacts_come_when_asked_for(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(WORKING, text="said")
        author.status(WORKING)
        author.chunk("x")
        await author.sync()
        bare = author.copy()
        bare.ClearField("artifacts")
        assert (await store.list(HERE, TaskQuery())).tasks == [bare]
        assert (await store.list(HERE, TaskQuery(artifacts=True))).tasks == [author.task]

    async def test_many_tasks_are_read_together(self, store: Store) -> None:
        """In the order of the question, large ones too, and each only for its scope."""
        mib = 1 << 20
        authors = {}
        for number, size in enumerate([10, 2 * mib, 3 * mib, 10]):
            author = authors[f"t{number}"] = Author(store, ELSEWHERE[number]).begin(f"t{number}")
            await author.sync()
            author.chunk("x" * size)
            author.status(COMPLETED if number == 3 else INPUT)
            await author.sync()
        wanted = [(ELSEWHERE[int(name[1])], name) for name in ("t2", "t3", "t0", "t1", "t0")]
        read = await store.get_many([*wanted[:2], (HERE, "t0"), (HERE, "none"), *wanted[2:]])
        assert read[2:4] == [None, None]
        tasks = [one.task for one in read if one is not None]
        assert tasks == [authors[name].task for _, name in wanted]
        alone = [await found(store, name, scope) for scope, name in wanted]
        assert [(one.version, one.last) for one in read if one] == [(one.version, one.last) for one in alone]
        assert await store.get_many([]) == []

    async def test_large_tasks_end_a_page(self, store: Store) -> None:
        """A page stays below what gRPC clients accept; a task that does not is alone."""
        mib = 1 << 20
        sizes = [mib, mib, mib, mib, 5 * mib, mib, 10, 10]
        for number, size in enumerate(sizes):
            author = Author(store).begin(f"t{number}", NOON - number)
            author.chunk("x" * size)
            await author.sync()
        read = await pages(store, artifacts=True)
        assert [[one.id for one in page.tasks] for page in read] == [
            ["t0", "t1", "t2"],
            ["t3"],
            ["t4"],
            ["t5", "t6", "t7"],
        ]
        assert {page.total for page in read} == {len(sizes)}
        assert len(await pages(store)) == 1  # without their artifacts they are small
        assert [len(page.tasks) for page in await pages(store, artifacts=True, page_size=2)] == [
            2,
            2,
            1,
            2,
            1,
        ]

    async def test_histories_are_cut(self, store: Store) -> None:
        author = Author(store).begin("t")
        for text in ("one", "two", "three"):
            author.status(WORKING, text=text)
        await author.sync()
        texts = ["one", "two"]
        assert [one.parts[0].text for one in author.task.history][-2:] == texts
        for length, wanted in ((None, author.task.history), (1, author.task.history[-1:]), (0, [])):
            (task,) = (await store.list(HERE, TaskQuery(history_length=length))).tasks
            assert list(task.history) == list(wanted)

    @pytest.mark.parametrize("token", ["x", "AAAA", "é", "a.b.c", "=" * 8, "0" * 500])
    async def test_bad_tokens_are_rejected(self, store: Store, token: str) -> None:
        await Author(store).begin("t").sync()
        await _assert_rejected(store, HERE, TaskQuery(page_token=token))

    async def test_tokens_are_for_their_query_and_scope(self, store: Store) -> None:
        for scope in (HERE, ELSEWHERE[0]):
            await self._several(store, 0, 1, 2, scope=scope)
        token = (await store.list(HERE, TaskQuery(page_size=1))).next_page_token
        assert token
        await _assert_rejected(store, ELSEWHERE[0], TaskQuery(page_size=1, page_token=token))
        await _assert_rejected(store, HERE, TaskQuery(page_size=1, page_token=token, context_id="c"))
        await _assert_rejected(store, HERE, TaskQuery(page_size=1, page_token=token + "A"))


async def _assert_rejected(store: Store, scope: Scope, query: TaskQuery) -> None:
    with pytest.raises(A2AError) as caught:
        await store.list(scope, query)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [one.field for one in caught.value.violations] == ["pageToken"]


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
