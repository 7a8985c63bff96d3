"""StoreContract: the guarantees of any store that the engine needs. It tests neither speed nor crashes.

`DurableStoreContract` includes it. Subclass one with `opened`; the subclass's name must start with `Test`.
Third-party stores need nothing else of this package.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Registered, Sent, Store, VersionConflictError
from a2a_bridge.testing.store_drivers import DriverContract
from a2a_bridge.testing.store_lists import ListContract
from a2a_bridge.testing.store_reading import ReadingContract
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
    pages,
    rest,
    take,
)
from a2a_bridge.testing.store_sends import PushContract, SendsContract
from a2a_bridge.testing.store_writing import WritingContract


class StoreContract(
    WritingContract, ListContract, ReadingContract, SendsContract, PushContract, DriverContract
):
    """The guarantees of any store."""


class DurableStoreContract(StoreContract):
    """Also the guarantees after the death of the process. Subclass it with `opened` and `survivor`."""

    #: False for a store whose push configs and notifications end with the process, as those of StoreBase do
    #: unless it is given others
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
    """Also the guarantees between processes that share a store. Subclass it with `beside` too.

    The `survivor` uses the same data as `store` here, and `store` itself continues, like a process that was
    cut off for too long.
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
