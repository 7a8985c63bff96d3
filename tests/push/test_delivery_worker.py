"""The delivery worker over real sockets: order, retries, circuits, final failures."""

import asyncio
import logging
import random
from collections import Counter
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import Any

import pytest

from a2a_bridge.bindings.binding import Fetched
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.push import DeliveryWorker
from a2a_bridge.push.ssrf_policy import target_of
from a2a_bridge.stores.ports import OutboxEntry, Store
from a2a_bridge.testing.store_scene import COMPLETED, HERE
from tests.patience import until
from tests.push.delivery_scene import (
    PATIENCE,
    Broken,
    Posted,
    author,
    config,
    delivering,
    memory,
    options,
    receiving,
    register,
)
from tests.push.test_fair_queue import Clock

SECRET = "s3cret"  # noqa: S105

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def texts(posted: list[Posted]) -> list[str]:
    """Chunks in the order of arrival."""
    return [
        one.tree["artifactUpdate"]["artifact"]["parts"][0]["text"]
        for one in posted
        if "artifactUpdate" in one.tree
    ]


async def entries(store: Store, count: int, **members: Any) -> list[OutboxEntry]:
    async def so_many() -> list[list[OutboxEntry]]:
        found = await store.outbox.entries(**members)
        return [found] if len(found) == count else []

    return list((await until(so_many))[0])


async def test_events_arrive_in_order_with_their_headers() -> None:
    async with receiving() as receiver, delivering() as (store, _):
        await register(
            store,
            receiver.url,
            token="theirs",  # noqa: S106
            authentication={"scheme": "Bearer", "credentials": SECRET},
        )
        writing = await author(store)
        for number in range(20):
            writing.chunk(str(number))
        posted = await receiver.arrived(21)
        assert texts(posted) == [str(number) for number in range(20)]
        assert {one.headers["x-a2a-notification-token"] for one in posted} == {"theirs"}
        assert {one.headers["authorization"] for one in posted} == {f"Bearer {SECRET}"}
        assert len({one.headers["webhook-id"] for one in posted}) == 21
        assert all(one.headers["webhook-timestamp"].isdecimal() for one in posted)
        assert "x-a2a-notification-signature" not in posted[0].headers
        await entries(store, 0)


@pytest.mark.parametrize("status", [500, 502, 503, 408, 409, 425, 429])
async def test_a_retried_notification_keeps_its_id_and_its_place(status: int) -> None:
    async with receiving() as receiver, delivering() as (store, _):
        receiver.statuses = [status, status]
        await register(store, receiver.url)
        writing = await author(store)
        writing.chunk("x")
        posted = await receiver.arrived(4)
        assert [next(iter(one.tree)) for one in posted] == ["task", "task", "task", "artifactUpdate"]
        ids = [one.headers["webhook-id"] for one in posted]
        assert ids[0] == ids[1] == ids[2] != ids[3]
        assert [one.body for one in posted[:3]] == [posted[0].body] * 3


@pytest.mark.parametrize("status", [300, 302, 307, 400, 401, 403, 404, 410, 413, 422])
async def test_a_final_failure_is_a_dead_letter_at_once(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving() as receiver, delivering() as (store, _):
        receiver.statuses = [status]
        await register(store, f"{receiver.url}/{SECRET}", token=SECRET)
        writing = await author(store)
        writing.chunk("x")
        posted = await receiver.arrived(2)
        assert texts(posted) == ["x"]  # the following ones are not delayed
        (letter,) = await entries(store, 1)
    assert (letter.dead, letter.error, letter.attempts, letter.sequence) == (True, f"HTTP {status}", 1, 1)
    assert SECRET not in letter.url
    assert SECRET not in caplog.text
    assert any("is given up" in record.message for record in caplog.records)


async def test_attempts_come_to_an_end() -> None:
    async with receiving() as receiver, delivering(how=options(attempts=3, trip=100)) as (store, _):
        receiver.statuses = [500] * 3
        await register(store, receiver.url)
        writing = await author(store)
        writing.chunk("x")
        assert texts(await receiver.arrived(4)) == ["x"]
        (letter,) = await entries(store, 1)
    assert (letter.dead, letter.attempts) == (True, 3)


async def test_nothing_is_tried_for_ever() -> None:
    clock = Clock()
    async with receiving() as receiver:
        gone = receiver.url
    async with delivering(how=options(age=60.0, trip=100), now=clock) as (store, worker):
        await register(store, gone)
        await author(store)

        async def tried() -> bool:
            clock.time += 0.01
            worker._stirred.set()
            return any(one.attempts for one in await store.outbox.entries(dead=False))

        await until(tried)
        clock.time += 3600
        worker._stirred.set()
        (letter,) = await entries(store, 1, dead=True)
    assert letter.error == "no connection"


async def test_pauses_grow_and_are_random() -> None:
    store = memory()
    how = options(first=1.0, longest=600.0)
    draws = iter([1.0] * 12 + [0.0, 0.5])
    worker = DeliveryWorker(store.outbox, None, how, task_at=store.task_at, chance=lambda: next(draws))  # type: ignore[arg-type]
    assert [worker.pause(attempts) for attempts in range(1, 12)] == [
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
        512,
        600,
    ]
    assert worker.pause(10_000) == 600
    assert [worker.pause(4), worker.pause(4)] == [0, 4]


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("120", 120.0), ("999999", 3600.0), ("0", 8.0), ("7", 8.0), ("9", 9.0), ("-5", 8.0), ("soon", 8.0), ("1" * 30, 8.0), ("Thu, 01 Jan 1970 00:05:00 GMT", 200.0)],
)  # fmt: skip
async def test_retry_after_is_heeded_within_bounds(retry_after: str, seconds: float) -> None:
    """It is never a shorter pause than the own one, which is 8 s here."""
    seen: list[float] = []

    store = memory()
    ask = store.outbox.again

    async def again(delivery: Any, error: str, pause: float, /) -> None:
        seen.append(pause)
        await ask(delivery, error, pause)

    store.outbox.again = again  # type: ignore[method-assign]
    async with receiving() as receiver:
        receiver.statuses, receiver.headers = [429], {"Retry-After": retry_after}
        how = options(first=8.0, longest=8.0)
        async with delivering(store, how, wall=lambda: 100.0, chance=lambda: 1.0):
            await register(store, receiver.url)
            await author(store)
            await until(lambda: seen)
    assert seen[0] == pytest.approx(seconds)


async def test_a_silent_receiver_is_not_waited_for() -> None:
    async with receiving() as receiver, delivering(how=options(timeout=0.1)) as (store, _):
        receiver.silent = True
        await register(store, receiver.url)
        await author(store)
        posted = await receiver.arrived(2)
        assert posted[0].headers["webhook-id"] == posted[1].headers["webhook-id"]
        receiver.silent = False
        await entries(store, 0)


async def test_nothing_is_lost_when_receivers_fail_often() -> None:
    """Of all attempts, 30 % fail in some way."""
    chance = random.Random(7)
    async with receiving() as receiver, delivering(how=options(trip=10_000)) as (store, _):
        receiver.fault = lambda: chance.choice(["500", "503", "429", "drop"]) if chance.random() < 0.3 else ""
        for number in range(10):
            await register(store, f"{receiver.url}/{number}", task_id=f"t{number}")
        writers = [await author(store, f"t{number}") for number in range(10)]
        for text in range(20):
            for writing in writers:
                writing.chunk(str(text))
        await entries(store, 0)
        taken = receiver.taken
        assert len(receiver.posted) > len(taken) >= 210
        for number in range(10):
            mine = [one for one in taken if one.path == f"/hook/{number}"]
            first = list({one.headers["webhook-id"]: one for one in mine}.values())
            assert texts(first) == [str(text) for text in range(20)]
        assert all(count == 1 for count in Counter(one.body for one in taken if "task" in one.tree).values())


async def test_a_dead_receiver_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    how = options(at_once=4, each=2, timeout=2.0)
    async with receiving() as dead, receiving() as alive, delivering(how=how) as (store, _):
        dead.silent = True
        for number in range(40):
            await register(store, dead.url, task_id=f"dead{number}")
            await author(store, f"dead{number}")
        await dead.arrived(2)
        await register(store, alive.url)
        writing = await author(store)
        for number in range(50):
            writing.chunk(str(number))
        posted = await alive.arrived(51)
        assert texts(posted) == [str(number) for number in range(50)]
        assert len(dead.posted) == 2  # its two have not ended yet


async def test_slow_receivers_leave_slots_to_the_others() -> None:
    """They answer at last, so no circuit opens, and have more notifications than there are slots."""
    how = options(at_once=16, each=4, timeout=2 * PATIENCE)
    async with AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(receiving()) for _ in range(4)]
        alive = [await stack.enter_async_context(receiving()) for _ in range(3)]
        store, _ = await stack.enter_async_context(delivering(how=how))
        for number, receiver in enumerate(slow * 6):
            receiver.silent = True
            await register(store, receiver.url, task_id=f"slow{number}")
            await author(store, f"slow{number}")
        for receiver in slow:
            await receiver.arrived(3)
        for number, receiver in enumerate(alive):
            await register(store, receiver.url, task_id=f"t{number}")
            (await author(store, f"t{number}")).chunk("x")
        for receiver in alive:
            assert texts(await receiver.arrived(2)) == ["x"]
        assert [len(receiver.posted) for receiver in slow] == [3] * 4


async def test_a_target_that_fails_is_left_alone_and_tried_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    how = options(trip=3, first=10.0)
    async with receiving() as receiver, delivering(how=how, now=clock, chance=lambda: 0.0) as (store, worker):
        receiver.fault = lambda: "500"
        for number in range(20):
            await register(store, receiver.url, task_id=f"t{number}")
            await author(store, f"t{number}")
        await receiver.arrived(3)
        await until(lambda: caplog.records)

        async def counted() -> bool:  # an attempt is counted after its answer
            return sum(one.attempts for one in await store.outbox.entries()) == len(receiver.posted)

        await until(counted)  # waiting is no attempt
        assert len(receiver.posted) <= 3 + how.each  # the ones on their way when it opened
        assert len(await store.outbox.entries()) == 20
        receiver.fault = lambda: ""

        async def delivered() -> bool:
            clock.time += 1000
            worker._stirred.set()
            return not await store.outbox.entries()

        await until(delivered)
    assert any("left alone" in record.message for record in caplog.records)


async def test_notifications_for_a_dead_target_become_dead_letters() -> None:
    clock = Clock()
    how = options(trip=2, age=60.0, longest=5.0)
    async with receiving() as receiver, delivering(how=how, now=clock, chance=lambda: 0.0) as (store, worker):
        receiver.fault = lambda: "500"
        for number in range(10):
            await register(store, receiver.url, task_id=f"t{number}")
            await author(store, f"t{number}")
        await receiver.arrived(2)

        async def left(dead: bool) -> int:
            clock.time += 40
            worker._stirred.set()
            return len(await store.outbox.entries(dead=dead))

        async def given_up() -> bool:
            return await left(dead=True) == 10

        async def delivered() -> bool:
            return await left(dead=False) == 0

        await until(given_up)
        receiver.fault = lambda: ""
        assert await store.outbox.retry(None) == 10
        await until(delivered)
        assert len({one.headers["webhook-id"] for one in receiver.taken}) == 10


async def test_the_wall_clock_may_jump() -> None:
    """By ten years, either way, between attempts: no notification is lost, given up or sent twice."""
    walls = iter([0.0, 3e8, -3e8, 3e8])
    async with receiving() as receiver, delivering(wall=lambda: next(walls, 1e9)) as (store, _):
        receiver.statuses = [500, 500, 500]
        await register(store, receiver.url)
        writing = await author(store)
        writing.chunk("x")
        posted = await receiver.arrived(5)
        await entries(store, 0)
        assert len(posted) == 5


async def test_a_failed_outbox_update_is_repeated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_bridge.push.delivery_worker._MEND", 0.001)
    store: Any = memory()
    store.outbox = Broken(store.outbox, A2AError(Reason.UNAVAILABLE))
    store.outbox.failures = {"due": 2, "sent": 2, "again": 1, "dead": 1}
    async with receiving() as receiver, delivering(store) as (store, _):
        receiver.statuses = [500, 200, 410]
        await register(store, receiver.url)
        writing = await author(store)
        writing.chunk("x")
        writing.status(COMPLETED)
        await receiver.arrived(4)
        (letter,) = await entries(store, 1)
        assert letter.dead
        assert not any(store.outbox.failures.values())
    assert "the outbox cannot be read" in caplog.text


async def test_a_guard_that_rejects_is_final() -> None:
    how = options(allow=())
    async with receiving() as receiver, delivering(how=how) as (store, _):
        await register(store, receiver.url)
        await author(store)
        (letter,) = await entries(store, 1, dead=True)
        assert "not allowed" in letter.error
        assert receiver.posted == []


async def test_whole_tasks_are_those_of_the_event() -> None:
    async with receiving() as receiver, delivering() as (store, _):
        receiver.statuses = [500, 500]
        await store.push_configs.put(HERE, config(receiver.url)._replace(version="0.3"))
        writing = await author(store)
        writing.chunk("x")
        writing.status(COMPLETED)
        posted = await receiver.arrived(5)
        assert [one.tree["status"]["state"] for one in posted] == ["working"] * 4 + ["completed"]
        assert ["artifacts" in one.tree for one in posted] == [False, False, False, True, True]


async def test_closing_sends_due_notifications_and_leaves_the_rest() -> None:
    async with receiving() as receiver, receiving() as failing, delivering() as (store, worker):
        failing.fault = lambda: "500"
        await register(store, receiver.url)
        await register(store, failing.url, task_id="u")
        await author(store, "u")
        writing = await author(store)
        for number in range(20):
            writing.chunk(str(number))
        async with asyncio.timeout(PATIENCE):
            await worker.close(PATIENCE)
        assert len(receiver.posted) == 21
        (letter,) = await store.outbox.entries()
        assert letter.task_id == "u"
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("a2a push")]


async def test_closing_at_once_leaves_all_of_it() -> None:
    async with receiving() as receiver, delivering() as (store, worker):
        receiver.silent = True
        await register(store, receiver.url)
        await author(store)
        await receiver.arrived(1)
        await worker.close()
        assert len(await store.outbox.entries(dead=False)) == 1
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("a2a push")]


async def test_a_huge_answer_is_not_read() -> None:
    async with receiving() as receiver, delivering() as (store, _):
        receiver.endless = True
        await register(store, receiver.url)
        await author(store)
        await receiver.arrived(1)
        await entries(store, 0)


async def test_a_mistake_of_ours_is_no_dead_end(caplog: pytest.LogCaptureFixture) -> None:
    left = [1]

    async def task_at(*_: Any) -> None:
        if left:
            raise ValueError(left.pop())

    async with receiving() as receiver, delivering(task_at=task_at) as (store, _):
        await store.push_configs.put(HERE, config(receiver.url)._replace(version="0.3"))
        writing = await author(store)
        with caplog.at_level(logging.ERROR, "a2a_bridge.push"):
            writing.chunk("x")
            await receiver.arrived(2)
            await entries(store, 0)
    assert "could not be made" in caplog.text


async def test_a_worker_without_a_free_slot_sleeps() -> None:
    """A due notification waits for a slot without polling the outbox."""
    clock = Clock()
    store: Any = memory(clock)
    asked: list[float | None] = []
    ask = store.outbox.wait
    held, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> float | None:
        asked.append(await ask())
        return asked[-1]

    async def post(url: str, *_: Any) -> Fetched:
        if "again" in url:
            raise A2AError(Reason.UNAVAILABLE)
        held.set()
        await go_on.wait()
        return Fetched(200, {}, b"")

    store.outbox.wait = wait
    worker = DeliveryWorker(
        store.outbox,
        post,
        options(at_once=1, first=1.0),
        task_at=store.task_at,
        now=clock,
        chance=lambda: 1.0,
    )
    worker.start()
    try:
        await register(store, "http://again.example/", task_id="t")
        await author(store, "t")
        await until(lambda: 1.0 in asked)  # it has failed and waits for its retry
        await register(store, "http://slow.example/", task_id="u")
        await author(store, "u")
        async with asyncio.timeout(PATIENCE):
            await held.wait()
        clock.time += 10
        worker._stirred.set()
        before = len(asked)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(asked) - before <= 1
        go_on.set()
        await until(lambda: len(asked) > before)  # and continues once there is one
    finally:
        await worker.close()


async def test_a_receiver_gets_the_trace_of_the_attempt() -> None:
    traced: list[tuple[str, str]] = []

    def trace(target: str, task_id: str) -> AbstractContextManager[dict[str, str]]:
        traced.append((target, task_id))
        return nullcontext({"traceparent": TRACEPARENT})

    async with receiving() as receiver, delivering(traced=trace) as (store, _):
        await register(store, receiver.url)
        (await author(store)).chunk("x")
        posted = await receiver.arrived(2)
        assert {one.headers["traceparent"] for one in posted} == {TRACEPARENT}
        assert set(traced) == {(target_of(receiver.url), "t")}
