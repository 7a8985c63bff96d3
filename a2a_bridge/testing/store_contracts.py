"""TaskStoreContract and PushConfigStoreContract: what the engine relies on in any store. Not how fast it is.

Rules:
1. What belongs to another scope looks exactly like what does not exist.
2. Stores keep and give copies.
3. Of two changes to one version of a task, one is lost, and its author learns of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.ports import PushConfigStore, Scope, TaskPage, TaskQuery, TaskStore, VersionConflict
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import full, minimal

HERE = Scope("acme", "ann")
ELSEWHERE = [Scope("acme", "bob"), Scope("other", "ann"), Scope(), Scope("", "ann"), Scope("acme", "")]
#: nanoseconds since the epoch; an odd number, so that rounding shows
NOON = 1_700_000_000_123_456_789


def task(task_id: str, time: int = NOON, context_id: str = "c", **status: Any) -> hub.Task:
    """A task with a status of `time`, in nanoseconds since the epoch."""
    made = hub.Task(id=task_id, context_id=context_id, status=hub.TaskStatus(**status))
    made.status.timestamp.FromNanoseconds(time)
    if not status:
        made.status.state = hub.TASK_STATE_WORKING
    return made


async def pages(store: TaskStore, scope: Scope, **query: Any) -> list[TaskPage]:
    """All pages of a query."""
    found = [await store.list(scope, TaskQuery(**query))]
    while found[-1].next_page_token:
        assert len(found) < 100
        found.append(await store.list(scope, TaskQuery(**query, page_token=found[-1].next_page_token)))
    return found


def ids(found: list[TaskPage]) -> list[str]:
    """The tasks of some pages in order."""
    return [one.id for page in found for one in page.tasks]


class TaskStoreContract:
    """Subclass it with `opened`; the subclass's name must start with `Test`."""

    def opened(self) -> AbstractAsyncContextManager[TaskStore]:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[TaskStore]:
        async with self.opened() as store:
            yield store

    @pytest.mark.parametrize("made", [full(hub.Task), minimal(hub.Task)], ids=["full", "minimal"])
    async def test_a_task_comes_back_whole(self, store: TaskStore, made: hub.Task) -> None:
        version = await store.create(HERE, made)
        assert await store.get(HERE, made.id) == (made, version)

    async def test_a_large_task_comes_back_whole(self, store: TaskStore) -> None:
        made = task("t")
        made.artifacts.add(artifact_id="a").parts.add(raw=bytes(range(256)) * 8192)
        await store.create(HERE, made)
        stored = await store.get(HERE, "t")
        assert stored is not None
        assert stored.task == made

    async def test_what_is_not_there(self, store: TaskStore) -> None:
        assert await store.get(HERE, "t") is None
        assert await store.list(HERE, TaskQuery()) == ([], "", 0)

    async def test_stores_keep_and_give_copies(self, store: TaskStore) -> None:
        made = task("t")
        version = await store.create(HERE, made)
        made.context_id = "changed"
        first = await store.get(HERE, "t")
        assert first is not None
        assert first.task.context_id == "c"
        first.task.context_id = "changed"
        (listed,) = (await store.list(HERE, TaskQuery())).tasks
        listed.context_id = "changed"
        assert await store.get(HERE, "t") == (task("t"), version)

    async def test_an_id_is_given_once(self, store: TaskStore) -> None:
        await store.create(HERE, task("t"))
        with pytest.raises(VersionConflict):
            await store.create(HERE, task("t", context_id="another"))
        stored = await store.get(HERE, "t")
        assert stored is not None
        assert stored.task.context_id == "c"

    async def test_updates_name_the_version_they_change(self, store: TaskStore) -> None:
        first = await store.create(HERE, task("t"))
        second = await store.update(HERE, task("t", NOON + 1), first)
        third = await store.update(HERE, task("t", NOON + 2), second)
        assert len({first, second, third}) == 3
        for old in (first, second):
            with pytest.raises(VersionConflict):
                await store.update(HERE, task("t", NOON + 3), old)
        assert await store.get(HERE, "t") == (task("t", NOON + 2), third)

    async def test_what_is_not_there_cannot_be_updated(self, store: TaskStore) -> None:
        version = await store.create(HERE, task("t"))
        with pytest.raises(VersionConflict):
            await store.update(HERE, task("u"), version)
        assert await store.get(HERE, "u") is None

    async def test_one_of_many_updates_wins(self, store: TaskStore) -> None:
        version = await store.create(HERE, task("t"))
        results = await asyncio.gather(
            *(store.update(HERE, task("t", NOON + number), version) for number in range(10)),
            return_exceptions=True,
        )
        won = [result for result in results if isinstance(result, int)]
        assert len(won) == 1
        assert all(isinstance(result, int | VersionConflict) for result in results)
        stored = await store.get(HERE, "t")
        assert stored == (task("t", NOON + results.index(won[0])), won[0])

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_other_scopes_see_nothing(self, store: TaskStore, scope: Scope) -> None:
        version = await store.create(HERE, task("t"))
        await store.create(scope, task("own"))
        assert await store.get(scope, "t") is None
        assert ids(await pages(store, scope)) == ["own"]
        assert ids(await pages(store, HERE)) == ["t"]
        with pytest.raises(VersionConflict):
            await store.update(scope, task("t", NOON + 1), version)
        assert await store.get(HERE, "t") == (task("t"), version)

    async def test_lists_begin_with_the_newest(self, store: TaskStore) -> None:
        for task_id, time in (("b", NOON), ("c", NOON + 1), ("a", NOON - 1), ("d", NOON - 10**9)):
            version = await store.create(HERE, task(task_id, time))
        assert ids(await pages(store, HERE)) == ["c", "b", "a", "d"]
        await store.update(HERE, task("d", NOON + 2), version)
        assert ids(await pages(store, HERE)) == ["d", "c", "b", "a"]

    @pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 100])
    async def test_pages_have_everything_once(self, store: TaskStore, size: int) -> None:
        for number in range(8):
            await store.create(HERE, task(f"t{number}", NOON + number // 3))
        whole = ids(await pages(store, HERE))
        found = await pages(store, HERE, page_size=size)
        assert ids(found) == whole
        assert sorted(whole) == [f"t{number}" for number in range(8)]
        assert {page.total for page in found} == {8}
        assert [len(page.tasks) for page in found[:-1]] == [size] * (len(found) - 1)
        assert found[-1].tasks

    async def test_pages_stay_true_while_tasks_come(self, store: TaskStore) -> None:
        for number in range(4):
            await store.create(HERE, task(f"t{number}", NOON + number))
        first = await store.list(HERE, TaskQuery(page_size=2))
        await store.create(HERE, task("new", NOON + 100))
        second = await store.list(HERE, TaskQuery(page_size=2, page_token=first.next_page_token))
        assert ids([first, second]) == ["t3", "t2", "t1", "t0"]

    async def test_filters(self, store: TaskStore) -> None:
        working, done = hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED
        await store.create(HERE, task("a", NOON, "x", state=working))
        await store.create(HERE, task("b", NOON + 1, "x", state=done))
        await store.create(HERE, task("c", NOON + 2, "y", state=done))
        await store.create(HERE, task("d", NOON + 3, "y", state=working))
        for query, wanted in (
            ({"context_id": "x"}, ["b", "a"]),
            ({"context_id": "z"}, []),
            ({"state": done}, ["c", "b"]),
            ({"state": hub.TASK_STATE_FAILED}, []),
            ({"since": NOON + 2}, ["d", "c"]),
            ({"since": NOON + 4}, []),
            ({"since": 0}, ["d", "c", "b", "a"]),
            ({"state": done, "context_id": "y", "since": NOON}, ["c"]),
        ):
            for size in (1, 50):
                found = await pages(store, HERE, **query, page_size=size)
                assert ids(found) == wanted, query
                assert found[0].total == len(wanted)

    async def test_artifacts_come_when_asked_for(self, store: TaskStore) -> None:
        made = task("t")
        made.artifacts.add(artifact_id="a").parts.add(text="x")
        made.history.add(message_id="m")
        await store.create(HERE, made)
        bare = hub.Task.FromString(made.SerializeToString())
        bare.ClearField("artifacts")
        assert (await store.list(HERE, TaskQuery())).tasks == [bare]
        assert (await store.list(HERE, TaskQuery(artifacts=True))).tasks == [made]

    @pytest.mark.parametrize("token", ["x", "AAAA", "é", "a.b.c", "=" * 8, "0" * 500])
    async def test_bad_tokens_are_refused(self, store: TaskStore, token: str) -> None:
        await store.create(HERE, task("t"))
        await _assert_refused(store, HERE, TaskQuery(page_token=token))

    async def test_tokens_are_for_their_query_and_scope(self, store: TaskStore) -> None:
        for scope in (HERE, ELSEWHERE[0]):
            for number in range(3):
                await store.create(scope, task(f"{scope.owner}{number}", NOON + number))
        token = (await store.list(HERE, TaskQuery(page_size=1))).next_page_token
        assert token
        await _assert_refused(store, ELSEWHERE[0], TaskQuery(page_size=1, page_token=token))
        await _assert_refused(store, HERE, TaskQuery(page_size=1, page_token=token, context_id="c"))
        await _assert_refused(store, HERE, TaskQuery(page_size=1, page_token=token + "A"))

    @pytest.mark.parametrize("seed", [1, 2, 3])
    async def test_any_history_gives_what_a_dictionary_would(self, store: TaskStore, seed: int) -> None:
        choose = random.Random(seed)  # noqa: S311  a test, not a secret
        scopes = [HERE, ELSEWHERE[0]]
        model: dict[tuple[Scope, str], tuple[hub.Task, int]] = {}
        for step in range(150):
            scope, task_id = (
                choose.choice(scopes),
                f"{step if choose.random() < 0.3 else choose.randrange(9)}",
            )
            made = task(task_id, NOON + choose.randrange(20), choose.choice("xy"))
            known = model.get((scope, task_id))
            if known is not None:
                version = await store.update(scope, made, known[1])
            elif any(name == task_id for _, name in model):
                continue
            else:
                version = await store.create(scope, made)
            model[scope, task_id] = made, version
        for scope in scopes:
            mine = [made for (owner, _), (made, _) in model.items() if owner == scope]
            times = [one.status.timestamp.ToNanoseconds() for one in mine]
            found = [one for page in await pages(store, scope, page_size=4) for one in page.tasks]
            assert sorted(one.id for one in found) == sorted(one.id for one in mine)
            assert [one.status.timestamp.ToNanoseconds() for one in found] == sorted(times, reverse=True)
            for one in mine:
                assert await store.get(scope, one.id) == model[scope, one.id]


async def _assert_refused(store: TaskStore, scope: Scope, query: TaskQuery) -> None:
    with pytest.raises(A2AError) as caught:
        await store.list(scope, query)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [one.field for one in caught.value.violations] == ["pageToken"]


def config(
    task_id: str, config_id: str, url: str = "https://hook.example/"
) -> hub.TaskPushNotificationConfig:
    """A push config."""
    return hub.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url)


class PushConfigStoreContract:
    """Subclass it with `opened`; the subclass's name must start with `Test`."""

    def opened(self) -> AbstractAsyncContextManager[PushConfigStore]:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[PushConfigStore]:
        async with self.opened() as store:
            yield store

    async def test_a_config_comes_back_whole(self, store: PushConfigStore) -> None:
        made = full(hub.TaskPushNotificationConfig)
        await store.put(HERE, made)
        assert await store.get(HERE, made.task_id, made.id) == made
        assert await store.list(HERE, made.task_id) == [made]

    async def test_what_is_not_there(self, store: PushConfigStore) -> None:
        await store.put(HERE, config("t", "p"))
        assert await store.get(HERE, "t", "q") is None
        assert await store.get(HERE, "u", "p") is None
        assert await store.list(HERE, "u") == []
        await store.delete(HERE, "t", "q")
        await store.delete(HERE, "u", "p")
        assert await store.list(HERE, "t") == [config("t", "p")]

    async def test_stores_keep_and_give_copies(self, store: PushConfigStore) -> None:
        made = config("t", "p")
        await store.put(HERE, made)
        made.url = "changed"
        got = await store.get(HERE, "t", "p")
        assert got is not None
        got.url = "changed"
        (await store.list(HERE, "t"))[0].url = "changed"
        assert await store.get(HERE, "t", "p") == config("t", "p")

    async def test_a_config_takes_the_place_of_the_one_before(self, store: PushConfigStore) -> None:
        for name in ("c", "a", "b"):
            await store.put(HERE, config("t", name))
        await store.put(HERE, config("t", "c", "https://new.example/"))
        assert await store.list(HERE, "t") == [
            config("t", "c", "https://new.example/"),
            config("t", "a"),
            config("t", "b"),
        ]

    async def test_deleting(self, store: PushConfigStore) -> None:
        for name in "ab":
            await store.put(HERE, config("t", name))
        await store.delete(HERE, "t", "a")
        await store.delete(HERE, "t", "a")
        assert await store.get(HERE, "t", "a") is None
        assert await store.list(HERE, "t") == [config("t", "b")]
        await store.delete(HERE, "t", "b")
        assert await store.list(HERE, "t") == []

    @pytest.mark.parametrize("scope", ELSEWHERE)
    async def test_other_scopes_see_nothing(self, store: PushConfigStore, scope: Scope) -> None:
        await store.put(HERE, config("t", "p"))
        assert await store.get(scope, "t", "p") is None
        assert await store.list(scope, "t") == []
        await store.delete(scope, "t", "p")
        await store.put(scope, config("t", "p", "https://own.example/"))
        assert await store.list(HERE, "t") == [config("t", "p")]
