"""The bounds of the store in memory: windows of events, logs of tasks without a run."""

import asyncio
import gc
import sys
from dataclasses import replace

import pytest

from a2a_bridge.hosting import Run
from a2a_bridge.hosting.live_task import LiveTask
from a2a_bridge.hosting.pending_send import PendingSend
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import GapError, Registered, TaskQuery
from a2a_bridge.testing.store_scene import COMPLETED, HERE, INPUT, NOON, PATIENCE, WORKING, Author, rest, take
from tests.agents import ScriptedAgent
from tests.hosting.scene import Talk


async def kept(store: MemoryStore, task_id: str, last: int) -> int:
    """The number of a task's newest events that can still be read."""
    for after in range(last + 1):
        reader = store.subscribe(task_id, after)
        try:
            if after < last:
                await take(reader, min(last - after, 32))
            reader.close()
            return last - after
        except GapError:
            continue
    raise AssertionError("not even the end is known")


async def test_the_newest_events_are_kept() -> None:
    store = MemoryStore(window=50)
    author = Author(store).begin("t")
    for number in range(500):
        author.chunk(str(number))
    # The window is cut from time to time, not at each event.
    assert 50 <= await kept(store, "t", 501) <= 82


async def test_large_events_count_by_their_size() -> None:
    store = MemoryStore(window_bytes=10_000)
    author = Author(store).begin("t")
    for _ in range(100):
        author.chunk("x" * 1000)
    assert 8 <= await kept(store, "t", 101) <= 10


async def test_unread_events_are_kept_beyond_the_window() -> None:
    store = MemoryStore(window=10)
    author = Author(store).begin("t")
    reader = store.subscribe("t", 0)
    for number in range(200):
        author.chunk(str(number))
    assert len(await take(reader, 201)) == 201
    author.chunk("last")
    assert await take(reader, 1) == ["last"]
    reader.close()


async def test_events_of_so_many_ended_tasks_are_kept() -> None:
    store = MemoryStore(kept_logs=3)
    for number in range(5):
        Author(store).begin(f"t{number}").status(COMPLETED)
    assert [await kept(store, f"t{number}", 2) for number in range(5)] == [0, 0, 2, 2, 2]


async def test_events_of_ended_tasks_are_kept_up_to_so_many_bytes() -> None:
    store = MemoryStore(kept_bytes=10_000)
    for number in range(10):
        author = Author(store).begin(f"t{number}")
        author.chunk("x" * 3000)
        author.status(COMPLETED)
    assert [await kept(store, f"t{number}", 3) for number in range(10)] == [0] * 7 + [3] * 3
    assert store._idle_bytes <= 10_000


async def test_messages_to_a_large_task_are_noted_within_bounds() -> None:
    """Their effect on the task is kept for readers of earlier states, as far as there is room."""
    store = MemoryStore(window_bytes=100_000)
    # Without a webhook nobody asks for earlier states, and no message makes a copy of the task.
    author = Author(store, push=True).begin("none", state=INPUT)
    author.amend("m")
    number = author.status(WORKING)
    author.status(INPUT)
    assert store._logs["none"]._noted == 0
    assert await store.task_at(HERE, "none", number) == author.task
    webhook = hub.TaskPushNotificationConfig(task_id="t", id="p", url="https://hook.example/")
    await store.push_configs.put(HERE, Registered(webhook))
    author = Author(store, push=True).begin("t", state=INPUT)
    author.chunk("x" * 10_000)
    for number in range(50):
        author.amend(f"m{number}")
    log = store._logs["t"]
    assert log.bytes < 25_000
    seen = {author.status(WORKING): author.copy()}
    for number in range(50):
        author.amend(f"n{number}")
        seen[author.status(WORKING)] = author.copy()
    assert log.bytes < 125_000
    # All events are still there, and each task is as it was then; or, if that is no longer known, as it is
    # now.
    assert await kept(store, "t", author.writer.last) == author.writer.last
    tasks = {number: await store.task_at(HERE, "t", number) for number in seen}
    as_they_were = [number for number in seen if tasks[number] == seen[number]]
    assert as_they_were == list(seen)[-len(as_they_were) :]
    assert 5 <= len(as_they_were) <= 10
    assert all(tasks[number] == author.task for number in seen if number not in as_they_were)
    author.writer.release()
    assert store._idle_bytes == log.bytes


async def test_a_page_costs_the_same_at_any_number_of_tasks() -> None:
    store, costs = MemoryStore(), list[list[int]]()
    for many in (600, 6000):
        for number in range(many):
            Author(store).begin(f"{many}-{number}", NOON + number, context_id="c").status(COMPLETED)
        found: list[int] = []
        for query in (
            TaskQuery(),
            TaskQuery(context_id="c"),
            TaskQuery(state=COMPLETED),
            TaskQuery(context_id="c", state=COMPLETED),
            TaskQuery(context_id="c", state=COMPLETED, since=NOON + 300),
            TaskQuery(context_id="none", state=COMPLETED),
        ):
            page = await store.list(HERE, query)  # it puts the tasks in order
            token = page.next_page_token
            calls: list[str] = []
            gc.disable()  # Hypothesis is called by the collector
            sys.setprofile(lambda _, what, __, calls=calls: calls.append(what))
            second = await store.list(HERE, replace(query, page_token=token))
            sys.setprofile(None)
            gc.enable()
            assert second.total == page.total
            found.append(len(calls))
        costs.append(found)
    assert costs[0] == costs[1]


async def test_lists_have_what_is_not_evicted() -> None:
    store = MemoryStore(most=50)
    for number in range(300):
        Author(store).begin(f"{number:03}", NOON + number, context_id="c").status(COMPLETED)
        if number % 7 == 0 or number > 290:
            for query in (
                TaskQuery(page_size=100),
                TaskQuery(page_size=100, context_id="c", state=COMPLETED),
            ):
                page = await store.list(HERE, query)
                kept = [f"{one:03}" for one in range(number, max(number - 50, -1), -1)]
                assert ([task.id for task in page.tasks], page.total) == (kept, len(kept))


async def test_reading_an_ended_task_keeps_it() -> None:
    store = MemoryStore(kept_logs=1)
    for task_id in "ab":
        Author(store).begin(task_id).status(COMPLETED)
    reader = store.subscribe("b", 0)
    Author(store).begin("c").status(COMPLETED)
    Author(store).begin("d").status(COMPLETED)
    assert await rest(reader) == [("task", WORKING), COMPLETED]
    reader.close()
    assert await kept(store, "c", 2) == 0


async def test_a_waiting_task_keeps_its_numbers_after_its_events_are_dropped() -> None:
    store = MemoryStore(kept_logs=1)
    author = Author(store).begin("c")
    author.status(INPUT)
    await author.release()
    Author(store).begin("d").status(COMPLETED)
    again = await Author(store).reopen("c")
    reader = store.subscribe("c", 2)
    assert again.status(WORKING) == 3
    assert await take(reader, 1) == [WORKING]
    reader.close()
    with pytest.raises(GapError):
        await take(store.subscribe("c", 1), 1)


async def test_nothing_is_left_of_readers_of_a_task_that_never_came() -> None:
    store = MemoryStore()
    readers = [store.subscribe(f"t{number}", 0) for number in range(10)]
    waiting = [asyncio.ensure_future(reader.take()) for reader in readers]
    await asyncio.sleep(0)
    for reader in readers:
        reader.close()
    for one in waiting:
        one.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(waiting)
    assert store._logs == {}


async def test_a_forgotten_task_takes_its_events_along() -> None:
    store = MemoryStore(most=2)
    for task_id in "abc":
        Author(store).begin(task_id).status(COMPLETED)
    assert set(store._logs) == set(store._idle_tasks) == {"b", "c"}
    assert store._idle_bytes == sum(store._idle_tasks.values()) > 0


async def test_reading_an_unknown_log_keeps_nothing() -> None:
    store = MemoryStore(kept_logs=2)
    for number in range(6):
        Author(store).begin(f"t{number}").status(COMPLETED)
        with pytest.raises(GapError):
            await take(store.subscribe(f"t{number}", 99), 1)
        with pytest.raises(GapError):
            await take(store.subscribe("never", 1), 1)
    assert set(store._logs) == set(store._idle_tasks) == {"t4", "t5"}


def alive() -> list[object]:
    """All runs and their parts, including those that other tests still hold."""
    return [one for one in gc.get_objects() if isinstance(one, (TaskRun, LiveTask, PendingSend, Run))]


@pytest.mark.parametrize("text", ["hello", "task", "fail"])
async def test_a_finished_run_needs_no_garbage_collector(text: str) -> None:
    """Reference cycles would keep each run until the next collection, which then costs a tenth of a call."""
    talk = Talk(ScriptedAgent())
    await talk.send(text)
    gc.collect()
    gc.disable()
    try:
        before = alive()
        await talk.send(text)
        await talk.rest()
        left = [one for one in alive() if not any(one is other for other in before)]
    finally:
        gc.enable()
    assert left == []
