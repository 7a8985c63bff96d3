"""StoreContract: the guarantees of any store that the engine needs. It tests neither speed nor crashes.
Subclass it, or DurableStoreContract, which includes it, with `opened`; the subclass's name must start with
`Test`. Third-party stores need nothing else of this package. DriverContract tests a driver of StoreBase: the
rows that it keeps and deletes. It skips a store without a driver.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import GapError, Registered, Sent, Store, TaskQuery, VersionConflictError
from a2a_bridge.stores.records import Expiry
from a2a_bridge.stores.store_base import StoreBase
from a2a_bridge.testing.store_reading import ListContract, ReadingContract
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
from a2a_bridge.testing.store_writing import PushContract, SendsContract, WritingContract

#: seconds; more than any test takes
_HOUR = 3600.0


def _base(store: Store) -> StoreBase:
    """The store, if it has a driver."""
    if not isinstance(store, StoreBase):
        pytest.skip("the store has no driver")
    return store


def _lock(store: Store, name: str) -> AbstractAsyncContextManager[None]:
    assert store.remote is not None
    return store.remote.lock(name)


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
        """An ended task in two scopes, a task that rests, a task that is held, and a message."""
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
        """Deletes everything of these kinds, and data of the other kinds that is an hour old."""
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


class StoreContract(
    WritingContract, ListContract, ReadingContract, SendsContract, PushContract, DriverContract
):
    """The guarantees of any store."""


class DurableStoreContract(StoreContract):
    """Also the guarantees after the death of the process. Subclass it with `opened` and `survivor`."""

    #: False if push configs and notifications end with the process, as StoreBase's do unless it gets others
    keeps_push = True

    def survivor(self, store: Store) -> AbstractAsyncContextManager[Store]:
        """The same data opened by another process, after the process of `store` was killed at this moment."""
        raise NotImplementedError

    async def test_awaited_changes_survive(self, store: Store) -> None:
        author = Author(store).begin("t", state=SUBMITTED)
        author.status(WORKING)
        author.chunk("x")
        await author.sync()
        ended = Author(store).begin("u")
        ended.status(COMPLETED)
        await ended.sync()
        async with self.survivor(store) as other:
            stored = await found(other, "t")
            assert (stored.task, stored.last, stored.holder) == (author.task, 3, "")
            assert await take(other.subscribe("t", 0), 3) == [("task", SUBMITTED), WORKING, "x"]
            assert await rest(other.subscribe("u", 1)) == [COMPLETED]
            assert ids(await pages(other)) == ids(await pages(store))

    async def test_changes_that_are_written_together_survive(self, store: Store) -> None:
        authors = [Author(store).begin(f"t{number}") for number in range(8)]
        await asyncio.gather(
            *(author.sync() for author in authors),
            *(store.sends.reserve(HERE, f"m{number}", b"1", f"t{number}") for number in range(8)),
        )
        async with self.survivor(store) as other:
            for number, author in enumerate(authors):
                assert (await found(other, f"t{number}")).task == author.task
                known = await other.sends.reserve(HERE, f"m{number}", b"1", "x")
                assert known == Sent(b"1", f"t{number}")

    async def test_read_events_survive(self, store: Store) -> None:
        reader = store.subscribe("t", 0)
        author = Author(store).begin("t")
        for number in range(40):
            author.chunk(str(number))
        async with asyncio.timeout(PATIENCE):
            read = list(await reader.take())
            while len(read) < 20:  # how many come at once depends on the store
                read += await reader.take()
            async with self.survivor(store) as other:
                again = other.subscribe("t", 0)
                whole = list(await again.take())
                while len(whole) < len(read):
                    whole += await again.take()
        assert whole[: len(read)] == read
        reader.close()

    async def test_tasks_of_the_dead_are_found_and_taken_over(self, store: Store) -> None:
        held = await Author(store).begin("held").sync()
        await (await Author(store).begin("rests", state=INPUT).sync()).release()
        ended = Author(store).begin("ended")
        ended.status(COMPLETED)
        await ended.sync()
        assert list(await store.orphans(10)) == []
        async with self.survivor(store) as other:
            assert list(await other.orphans(10)) == [(HERE, "held")]
            taken = await Author(other).reopen("held")
            assert list(await other.orphans(10)) == []
            reader = other.subscribe("held", 1)
            assert taken.status(FAILED) == 2
            await taken.sync()
            assert await rest(reader) == [FAILED]
            assert (await found(other, "held")).task == taken.task
            assert taken.task != held.task

    async def test_orphans_come_in_portions(self, store: Store) -> None:
        for number, time in enumerate((1, 4, 0, 3, 2)):
            await Author(store, ELSEWHERE[number % 2]).begin(f"t{number}", NOON + time).sync()
        async with self.survivor(store) as other:
            seen = []
            for size in (2, 2, 1):
                orphans = await other.orphans(2)
                assert len(orphans) == size
                for scope, task_id in orphans:
                    author = await Author(other, scope).reopen(task_id)
                    author.status(FAILED)
                    await author.sync()
                    seen.append(task_id)
        assert seen == ["t1", "t3", "t4", "t0", "t2"]  # the newest status first

    async def test_a_lease_may_come_with_the_first_change(self, store: Store) -> None:
        for task_id in ("ends", "rests"):
            await Author(store).begin(task_id, state=INPUT).sync()
        async with self.survivor(store) as other:
            ends = await Author(other).open(await found(other, "ends"), wait=False)
            rests = await Author(other).open(await found(other, "rests"), wait=False)
            reader = other.subscribe("ends", 1)
            assert ends.status(FAILED) == 2
            rests.writer.release()
            await asyncio.gather(ends.sync(), rests.sync())
            assert await rest(reader) == [FAILED]
            assert list(await other.orphans(10)) == []
            assert (await found(other, "ends")).task == ends.task
            again = await Author(other).reopen("rests")
            again.status(COMPLETED)
            await again.sync()
            assert [one.lost for one in (ends, rests, again)] == [0, 0, 0]

    async def test_messages_that_were_sent_survive(self, store: Store) -> None:
        await store.sends.reserve(HERE, "m", b"1", "t")
        await store.sends.reserve(HERE, "n", b"2", "u")
        await store.sends.store_response(HERE, "n", b"answer")
        async with self.survivor(store) as other:
            known = await other.sends.reserve(HERE, "m", b"1", "x")
            assert known == Sent(b"1", "t")
            assert await other.sends.reserve(HERE, "n", b"2", "x") == Sent(b"2", "u", b"answer")
            assert await other.sends.reserve(HERE, "m", b"1", "x", instead=known) is None

    async def test_push_survives(self, store: Store) -> None:
        if not self.keeps_push:
            pytest.skip("the store keeps push configs and notifications in memory")
        config = hub.TaskPushNotificationConfig(task_id="t", id="p", url="https://hook.example/")
        await store.push_configs.put(HERE, Registered(config))
        await Author(store, push=True).begin("t").sync()
        async with self.survivor(store) as other:
            assert await other.push_configs.list(HERE, "t") == [Registered(config)]
            assert [one.sequence for one in await other.outbox.entries()] == [1]


class SharedStoreContract(DurableStoreContract):
    """Also the guarantees between processes that share a store. Subclass it with `beside` too. The `survivor`
    uses the same data as `store`, which itself continues, like a process that was cut off for too long.
    """

    def beside(self, store: Store) -> AbstractAsyncContextManager[Store]:
        """The same data opened by another process, while the process of `store` lives."""
        raise NotImplementedError

    async def test_tasks_of_another_holder_are_shown_and_not_taken(self, store: Store) -> None:
        author = await Author(store).begin("t").sync()
        async with self.beside(store) as other:
            stored = await found(other, "t")
            assert stored.task == author.task
            assert stored.holder
            assert list(await other.orphans(10)) == []
            with pytest.raises(VersionConflictError):
                await Author(other).open(stored)
            author.status(INPUT)
            await author.release()
            again = await Author(other).reopen("t")
            assert (await found(store, "t")).holder not in ("", stored.holder)
            again.status(COMPLETED)
            await again.sync()
            assert (await found(store, "t")).task == again.task
        assert author.lost == 0

    async def test_readers_get_the_events_of_another_writer(self, store: Store) -> None:
        async with self.beside(store) as other:
            readers = [one.subscribe("t", 0) for one in (store, other)]
            author = Author(store).begin("t")
            for number in range(40):
                author.chunk(str(number))
            author.status(COMPLETED)
            whole = [("task", WORKING), *(str(number) for number in range(40)), COMPLETED]
            assert await asyncio.gather(*(rest(reader) for reader in readers)) == [whole, whole]

    async def test_a_message_in_work_elsewhere_names_the_holder(self, store: Store) -> None:
        assert await store.sends.reserve(HERE, "m", b"1", "t") is None
        async with self.beside(store) as other:
            known = await other.sends.reserve(HERE, "m", b"1", "u")
            assert known is not None
            assert (known.digest, known.task_id, bool(known.holder)) == (b"1", "t", True)

    async def test_a_message_that_comes_to_two_at_once_is_new_once(self, store: Store) -> None:
        async with self.beside(store) as other:
            for number in range(20):
                message_id = f"m{number}"
                sent = await asyncio.gather(
                    *(
                        one.sends.reserve(HERE, message_id, b"1", task)
                        for one, task in ((store, "t"), (other, "u"))
                    )
                )
                assert sent.count(None) == 1
                (known,) = (one for one in sent if one is not None)
                assert (known.task_id, bool(known.holder)) == ("tu"[sent.index(None)], True)
                # The same holds after a failed first attempt.
                sent = await asyncio.gather(
                    *(one.sends.reserve(HERE, message_id, b"1", "x", instead=known) for one in (store, other))
                )
                assert sent.count(None) == 1

    async def test_of_two_that_acquire_a_lease_with_a_change_one_gets_it(self, store: Store) -> None:
        await (await Author(store).begin("t", state=INPUT).sync()).release()
        async with self.beside(store) as other:
            stored = [await found(one, "t") for one in (store, other)]
            authors = [
                await Author(one).open(as_read, wait=False)
                for one, as_read in zip((store, other), stored, strict=True)
            ]
            for author in authors:
                author.status(FAILED)
            ends = await asyncio.gather(*(one.sync() for one in authors), return_exceptions=True)
            assert {type(one) for one in ends} == {Author, VersionConflictError}
            assert sum(one.lost for one in authors) == 1
            assert (await found(store, "t")).last == 2

    async def test_a_lock_has_one_holder_among_all_processes(self, store: Store) -> None:
        async with self.beside(store) as other:
            order: list[int] = []

            async def turn(number: int) -> None:
                async with _lock(store if number % 2 else other, "l"):
                    order.append(number)
                    await other.get(HERE, "t")  # others go on meanwhile
                    order.append(number)

            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(turn(number) for number in range(8)))
                async with _lock(store, "l"), _lock(other, "another"):
                    pass
            assert order[::2] == order[1::2]
            assert sorted(order[::2]) == list(range(8))

    async def test_a_wait_for_a_lock_that_is_cancelled_leaves_it_free(self, store: Store) -> None:
        async with self.beside(store) as other, asyncio.timeout(PATIENCE):
            async with _lock(store, "l"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2), _lock(other, "l"):
                        raise AssertionError("two holders")
            for one in (other, store):
                async with _lock(one, "l"):
                    pass

    async def test_a_lock_of_one_that_was_taken_for_dead_is_free(self, store: Store) -> None:
        async with (
            asyncio.timeout(PATIENCE),
            _lock(store, "l"),
            self.survivor(store) as other,
            _lock(other, "l"),
        ):
            pass

    async def test_who_was_taken_for_dead_has_lost_its_hold(self, store: Store) -> None:
        author = await Author(store).begin("t").sync()
        async with self.survivor(store) as other:
            taken = await Author(other).reopen("t")
            taken.status(INPUT)
            await taken.sync()
            author.status(WORKING)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(VersionConflictError):
                    await author.writer.sync()
            assert (author.lost, taken.lost) == (1, 0)
            author.chunk("unheard")
            author.writer.release()
            stored = await found(other, "t")
            assert (stored.task, stored.last) == (taken.task, 2)
            taken.status(FAILED)
            await taken.sync()
