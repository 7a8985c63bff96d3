"""The tests of StoreContract about writers (numbers, leases, versions, visibility), sent messages, push."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Registered, Scope, Sent, Store, TaskPage, TaskQuery, VersionConflictError
from a2a_bridge.testing.samples import full, minimal
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    ELSEWHERE,
    FAILED,
    HERE,
    INPUT,
    NOON,
    ODD,
    PATIENCE,
    WORKING,
    Author,
    OpensStores,
    found,
    ids,
    made,
    pages,
    reserve,
)


class WritingContract(OpensStores):
    """One writer, numbers, versions."""

    @pytest.mark.parametrize("task", [full(hub.Task), minimal(hub.Task)], ids=["full", "minimal"])
    async def test_a_task_comes_back_whole(self, store: Store, task: hub.Task) -> None:
        await Author(store).begin(task).sync()
        stored = await found(store, task.id)
        assert (stored.task, stored.last, stored.holder) == (task, 1, "")

    async def test_a_large_task_comes_back_whole(self, store: Store) -> None:
        task = made("t")
        task.artifacts.add(artifact_id="a").parts.add(raw=bytes(range(256)) * 8192)
        author = Author(store).begin(task)
        author.chunk("x" * 300_000)
        await author.sync()
        assert (await found(store, "t")).task == author.task

    async def test_unknown_paths(self, store: Store) -> None:
        assert await store.get(HERE, "t") is None
        assert await store.list(HERE, TaskQuery()) == TaskPage([], "", 0)
        assert await store.task_at(HERE, "t", 1) is None

    async def test_a_store_that_works_rejects_nothing(self, store: Store) -> None:
        assert store.rejection() is None

    async def test_a_writer_without_changes_leaves_nothing(self, store: Store) -> None:
        writer = store.create(HERE, "t", lambda: None)
        assert (writer.last, writer.pending) == (0, False)
        writer.release()
        assert await store.get(HERE, "t") is None
        await Author(store).begin("t").sync()

    async def test_events_are_numbered_from_one(self, store: Store) -> None:
        author = Author(store).begin("t")
        assert author.writer.last == 1
        numbers = [author.status(WORKING), author.chunk("x"), author.chunk("y"), author.status(COMPLETED)]
        assert numbers == [2, 3, 4, 5]
        assert author.writer.last == 5
        await author.sync()
        assert (await found(store, "t")).last == 5

    async def test_after_the_wait_nothing_is_pending(self, store: Store) -> None:
        author = Author(store).begin("t")
        for number in range(50):
            author.chunk(str(number))
            if number % 10 == 0:
                await author.sync()
                assert not author.writer.pending
                stored = await found(store, "t")
                assert (stored.task, stored.last) == (author.task, number + 2)

    async def test_a_working_copy_is_the_task_for_its_next_writer(self, store: Store) -> None:
        """A large task keeps its working copy from turn to turn, and only for its own scope."""
        author = Author(store).begin("t", state=INPUT)
        for turn in range(4):
            if turn:
                stored = await store.working_copy(HERE, "t")
                assert stored is not None
                assert (stored.task, stored.last) == (author.task, author.writer.last)
                author = await Author(store).open(stored)
            author.amend(f"m{turn}")
            author.chunk("x" * 20_000)
            author.status(INPUT, text=f"q{turn}")
            await author.release()
            read = await found(store, "t")
            assert (read.task, read.last) == (author.task, author.writer.last)
            read.task.Clear()  # a copy
            assert await store.working_copy(ELSEWHERE[0], "t") is None
        assert [one.message_id for one in author.task.history][:4] == ["m0", "s3", "m1", "s5"]
        # Another writer changes it meanwhile; the copy of before is of no use.
        before = await store.working_copy(HERE, "t")
        assert before is not None
        other = await Author(store).reopen("t")
        other.status(INPUT, text="meanwhile")
        await other.release()
        with pytest.raises(VersionConflictError):
            await Author(store).open(before)
        after = await store.working_copy(HERE, "t")
        assert after is not None
        assert after.task.status.message.parts[0].text == "meanwhile"
        last = await Author(store).open(after)
        last.status(COMPLETED)
        await last.sync()
        assert (await found(store, "t")).task == last.task

    async def test_waiters_are_called_in_order_and_at_once_if_all_is_durable(self, store: Store) -> None:
        results: list[Any] = []
        author = Author(store).begin("t")
        author.writer.when_synced(lambda error: results.append(("a", error)))
        author.chunk("x")
        author.writer.when_synced(lambda error: results.append(("b", error)))
        author.writer.when_synced(lambda error: results.append(("c", error)))
        await author.sync()
        assert results == [("a", None), ("b", None), ("c", None)]
        author.writer.when_synced(lambda error: results.append(("d", error)))
        assert results[3:] == [("d", None)]

    async def test_many_may_wait_for_many(self, store: Store) -> None:
        authors = [Author(store).begin(f"t{number}") for number in range(30)]
        for author in authors:
            author.status(COMPLETED)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(author.writer.sync() for author in authors for _ in range(3)))
        assert len(ids(await pages(store))) == 30

    async def test_a_cancelled_wait_does_not_affect_others(self, store: Store) -> None:
        author = Author(store).begin("t")
        waiting = asyncio.create_task(author.writer.sync())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        await author.sync()
        assert (await found(store, "t")).task == author.task

    async def test_a_writer_may_continue_when_there_is_room(self, store: Store) -> None:
        author = Author(store).begin("t")
        async with asyncio.timeout(PATIENCE):
            for number in range(600):
                author.chunk(str(number % 10))
                if author.writer.crowded:  # otherwise nothing may have to wait
                    await author.writer.room()
        assert not author.writer.crowded
        await author.sync()
        assert (await found(store, "t")).last == 601

    async def test_stores_give_copies(self, store: Store) -> None:
        author = await Author(store).begin("t").sync()
        for read in (await found(store, "t"), (await store.list(HERE, TaskQuery(artifacts=True))).tasks):
            task = read[0]
            task.context_id = "changed"
            task.artifacts.add(artifact_id="smuggled")
        assert (await found(store, "t")).task == author.task
        await author.release()
        kept = author.copy()
        author.task.context_id = "changed"
        (await found(store, "t")).task.context_id = "changed"
        assert (await found(store, "t")).task == kept

    async def test_a_message_that_joins_is_no_event(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(INPUT, text="well?")
        author.amend("m-2")
        assert author.writer.last == 2
        await author.sync()
        stored = await found(store, "t")
        assert (stored.task, stored.last) == (author.task, 2)
        assert [one.message_id for one in stored.task.history] == ["s2", "m-2"]
        author.chunk("x")
        await author.sync()
        assert (await found(store, "t")).task == author.task

    async def test_a_snapshot_takes_the_place_of_the_task(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.chunk("x")
        author.task.CopyFrom(made("t", NOON + 1, state=INPUT))
        author.writer.append(hub.StreamResponse(task=author.task), author.task)
        author.chunk("y")
        await author.sync()
        assert (await found(store, "t")).task == author.task

    async def test_an_id_is_given_once(self, store: Store) -> None:
        first = await Author(store).begin("t").sync()
        second = Author(store).begin("t", context_id="another")
        assert second.status(COMPLETED) == second.writer.last
        with pytest.raises(VersionConflictError):
            await second.sync()
        assert (first.lost, second.lost) == (0, 1)
        assert (await found(store, "t")).task == first.task
        first.status(COMPLETED)
        await first.sync()

    async def test_of_two_concurrent_beginners_one_succeeds(self, store: Store) -> None:
        authors = [Author(store).begin("t", context_id=name) for name in "ab"]
        results = await asyncio.gather(*(one.writer.sync() for one in authors), return_exceptions=True)
        won = [author for author, error in zip(authors, results, strict=True) if error is None]
        assert len(won) == 1
        assert [type(error) for error in results if error is not None] == [VersionConflictError]
        assert (await found(store, "t")).task == won[0].task

    async def test_a_task_continues_after_a_rest(self, store: Store) -> None:
        author = Author(store).begin("t")
        for round_ in range(5):
            author.status(INPUT)
            await author.release()
            author = await Author(store).reopen("t")
            assert author.writer.last == 2 * round_ + 2
            assert author.status(WORKING) == 2 * round_ + 3
        author.status(COMPLETED)
        await author.sync()
        stored = await found(store, "t")
        assert (stored.last, stored.task) == (12, author.task)

    async def test_a_hold_may_be_given_up_with_everything_still_on_its_way(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.chunk("x")
        author.status(INPUT)
        author.writer.release()
        async with asyncio.timeout(PATIENCE):
            while (stored := await store.get(HERE, "t")) is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0)
            again = await Author(store).reopen("t")
        assert (again.task, stored.last, author.lost) == (author.task, 3, 0)

    async def test_a_held_task_cannot_be_opened_again(self, store: Store) -> None:
        author = await Author(store).begin("t").sync()
        with pytest.raises(VersionConflictError):
            await Author(store).reopen("t")
        old = await found(store, "t")
        author.status(INPUT)
        await author.release()
        with pytest.raises(VersionConflictError):
            await Author(store).open(old)
        again = await Author(store).reopen("t")
        for stale in (old, await found(store, "t")):
            with pytest.raises(VersionConflictError):
                await Author(store).open(stale)
        again.status(COMPLETED)
        await again.sync()
        assert (author.lost, again.lost) == (0, 0)

    async def test_one_of_many_gets_the_hold(self, store: Store) -> None:
        await (await Author(store).begin("t", state=INPUT).sync()).release()
        stored = await found(store, "t")
        results = await asyncio.gather(
            *(Author(store).open(stored) for _ in range(10)), return_exceptions=True
        )
        won = [one for one in results if isinstance(one, Author)]
        assert len(won) == 1
        assert all(isinstance(one, Author | VersionConflictError) for one in results)
        won[0].status(COMPLETED)
        await won[0].sync()

    async def test_an_unknown_task_cannot_be_opened(self, store: Store) -> None:
        stored = await found((await Author(store).begin("t").release()).store, "t")
        for scope in ELSEWHERE:
            with pytest.raises(VersionConflictError):
                await Author(store, scope).open(stored)
        stored.task.id = "u"
        with pytest.raises(VersionConflictError):
            await Author(store).open(stored)

    async def test_an_ended_task_has_no_holder(self, store: Store) -> None:
        author = Author(store).begin("t")
        author.status(FAILED)
        await author.sync()
        author.writer.release()
        stored = await found(store, "t")
        assert (stored.task, stored.last, stored.holder) == (author.task, 2, "")
        assert list(await store.orphans(10)) == []

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_other_scopes_see_nothing(self, store: Store, scope: Scope) -> None:
        await Author(store).begin("t").sync()
        await Author(store, scope).begin("own").sync()
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
                task = made(f"t{step}", NOON + choose.randrange(20), choose.choice("xy"))
                # A store may write the changes of a large task apart from it.
                task.metadata["text"] = "x" * choose.choice([0, 60_000])
                author.begin(task)
            author = authors[choose.choice(list(authors))]
            match choose.randrange(12):
                case 0:
                    author.status(INPUT, NOON + choose.randrange(20), choose.choice(["", "well?"]))
                case 1:
                    author.amend(f"m{step}")
                case 2:
                    await author.release()
                    await author.reopen(author.task.id)
                case 3:
                    await author.sync()
                    assert (await found(store, author.task.id, author.scope)).task == author.task
                case 4 | 5:
                    author.status(WORKING, NOON + choose.randrange(20))
                case 6:
                    await asyncio.sleep(0)
                case _:
                    author.chunk("x" * choose.randrange(300), choose.choice("ab"))
        for author in authors.values():
            await author.sync()
            stored = await found(store, author.task.id, author.scope)
            assert (stored.task, stored.last) == (author.task, author.writer.last)
        listed = [one for page in await pages(store, artifacts=True, page_size=4) for one in page.tasks]
        mine = {one.task.id: one.task for one in authors.values() if one.scope == HERE}
        assert {one.id: one for one in listed} == mine
        times = [one.status.timestamp.ToNanoseconds() for one in listed]
        assert times == sorted(times, reverse=True)


class SendsContract(OpensStores):
    """The register of sent messages."""

    async def test_a_message_is_new_once(self, store: Store) -> None:
        assert await reserve(store, HERE, "m", b"1", "t") is None
        for digest, task_id in ((b"1", "t"), (b"2", "u")):
            known = await reserve(store, HERE, "m", digest, task_id)
            assert known == Sent(b"1", "t")
        assert await reserve(store, HERE, "other", b"1", "t") is None

    async def test_of_many_at_once_one_is_new(self, store: Store) -> None:
        sent = await asyncio.gather(*(reserve(store, HERE, "m", b"1", f"t{number}") for number in range(10)))
        assert sent.count(None) == 1
        assert [one for one in sent if one is not None] == [Sent(b"1", f"t{sent.index(None)}")] * 9

    async def test_a_direct_answer_is_kept(self, store: Store) -> None:
        await reserve(store, HERE, "m", b"1", "t")
        await store.sends.store_response(HERE, "m", b"\x00answer")
        assert await reserve(store, HERE, "m", b"1", "u") == Sent(b"1", "t", b"\x00answer")

    async def test_a_rejected_message_may_be_repeated(self, store: Store) -> None:
        await reserve(store, HERE, "m", b"1", "t")
        await store.sends.forget(HERE, "m")
        await store.sends.forget(HERE, "m")
        assert await reserve(store, HERE, "m", b"2", "u") is None

    async def test_an_empty_result_is_replaced_by_the_next(self, store: Store) -> None:
        await reserve(store, HERE, "m", b"1", "t")
        known = await reserve(store, HERE, "m", b"1", "u")
        assert known is not None
        taken = await asyncio.gather(
            *(reserve(store, HERE, "m", b"1", f"u{number}", instead=known) for number in range(5))
        )
        assert taken.count(None) == 1
        assert {one.task_id for one in taken if one is not None} == {f"u{taken.index(None)}"}

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_a_message_is_its_scopes(self, store: Store, scope: Scope) -> None:
        assert await reserve(store, HERE, "m", b"1", "t") is None
        assert await reserve(store, scope, "m", b"2", "u") is None
        await store.sends.forget(scope, "m")
        assert await reserve(store, HERE, "m", b"1", "x") == Sent(b"1", "t")

    @pytest.mark.parametrize("name", ODD)
    async def test_any_name_will_do_for_messages(self, store: Store, name: str) -> None:
        scope = Scope(name, name)
        assert await reserve(store, scope, name, b"1", name) is None
        known = await reserve(store, scope, name, b"1", name)
        assert known == Sent(b"1", name)
        assert await reserve(store, scope, name, b"1", f"{name}2", instead=known) is None
        await store.sends.store_response(scope, name, b"answer")
        assert await reserve(store, scope, name, b"1", name) == Sent(b"1", f"{name}2", b"answer")
        await store.sends.forget(scope, name)
        assert await reserve(store, scope, name, b"2", name) is None


class PushContract(OpensStores):
    """Push configs, and the events that go to the outbox. Delivery has its own tests."""

    async def test_configs(self, store: Store) -> None:
        await Author(store).begin("t").sync()
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
        await author.sync()
        await silent.sync()
        entries = await store.outbox.entries()
        assert [(one.scope, one.task_id, one.config_id, one.sequence) for one in entries] == [
            (HERE, "t", "p", number) for number in (1, 2, 3)
        ]
