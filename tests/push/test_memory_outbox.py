"""The outbox in memory is bounded: which notifications are evicted."""

import logging

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Delivery
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.testing.store_scene import HERE
from tests.push.delivery_scene import config

URL = "https://hook.example/"


def event(number: int) -> hub.StreamResponse:
    return hub.StreamResponse(task=hub.Task(id=f"{number}"))


async def due(outbox: MemoryOutbox) -> list[Delivery]:
    return await outbox.due(100, lambda _: 100)


async def drained(outbox: MemoryOutbox) -> list[int]:
    """The numbers of all events, delivered one after the other."""
    found: list[int] = []
    while deliveries := await due(outbox):
        found += [one.sequence for one in deliveries]
        await outbox.sent(deliveries)
    assert len(outbox) == 0
    return found


@pytest.mark.parametrize("out", [False, True])
async def test_a_line_that_is_too_long_loses_its_oldest(out: bool, caplog: pytest.LogCaptureFixture) -> None:
    configs = MemoryPushConfigStore()
    outbox = MemoryOutbox(configs, waiting=3)
    await configs.put(HERE, config(URL))
    outbox.deliver(HERE, "t", 1, event(1))
    deliveries = await due(outbox) if out else []
    with caplog.at_level(logging.WARNING, "a2a_bridge.push"):
        for number in range(2, 7):
            outbox.deliver(HERE, "t", number, event(number))
    assert len(outbox) == len(caplog.records) == 3
    # Notifications in delivery are kept.
    lost = [2, 3, 4] if out else [1, 2, 3]
    assert [one.sequence for one in await outbox.entries(dead=True)] == lost
    await outbox.sent(deliveries)
    assert await drained(outbox) == ([5, 6] if out else [4, 5, 6])
    assert await outbox.retry(None) == 3
    assert await drained(outbox) == lost


async def test_too_much_altogether_loses_from_the_oldest_line() -> None:
    configs = MemoryPushConfigStore()
    outbox = MemoryOutbox(configs, most=4, most_dead=2)
    for name in "ab":
        await configs.put(HERE, config(URL, task_id=name))
    for number in range(1, 5):
        outbox.deliver(HERE, "a", number, event(number))
    for number in range(1, 5):
        outbox.deliver(HERE, "b", number, event(number))
    assert len(outbox) == 4
    assert [one.sequence for one in await outbox.entries(dead=True)] == [3, 4]
    assert [one.task_id for one in await outbox.entries(dead=False)] == ["b"] * 4
    assert await drained(outbox) == [1, 2, 3, 4]


async def test_configs_are_kept_for_so_many_tasks_and_so_are_their_notifications() -> None:
    configs = MemoryPushConfigStore(most_tasks=2)
    outbox = MemoryOutbox(configs)
    for number in range(3):
        await configs.put(HERE, config(URL, task_id=f"t{number}"))
        outbox.deliver(HERE, f"t{number}", 1, event(1))
    assert [len(await configs.list(HERE, f"t{number}")) for number in range(3)] == [0, 1, 1]
    assert [one.task_id for one in await outbox.entries()] == ["t1", "t2"]
    assert len(outbox) == 2


async def test_notifications_evicted_during_delivery_are_no_error() -> None:
    configs = MemoryPushConfigStore()
    outbox = MemoryOutbox(configs)
    await configs.put(HERE, config(URL))
    outbox.deliver(HERE, "t", 1, event(1))
    (delivery,) = await due(outbox)
    await configs.delete(HERE, "t", "p")
    await outbox.again(delivery, "HTTP 500", 0)
    await outbox.dead(delivery, "HTTP 500")
    await outbox.sent([delivery])
    assert await outbox.entries() == []
    assert await outbox.wait() is None


async def test_failures_of_an_old_url_end_with_it() -> None:
    configs = MemoryPushConfigStore()
    outbox = MemoryOutbox(configs)
    told: list[int] = []
    outbox.on_new(lambda: told.append(len(told)))
    await configs.put(HERE, config(URL))
    outbox.deliver(HERE, "t", 1, event(1))
    outbox.deliver(HERE, "t", 2, event(2))
    (delivery,) = await due(outbox)
    # A notification in delivery is not sent a second time.
    await configs.put(HERE, config("https://second.example/"))
    assert await due(outbox) == []
    await outbox.again(delivery, "HTTP 500", 3600.0)
    (delivery,) = await due(outbox)
    await outbox.again(delivery, "HTTP 500", 3600.0)
    # The same receiver is still protected.
    await configs.put(HERE, config("https://second.example/other"))
    assert await due(outbox) == []
    told.clear()
    await configs.put(HERE, config("https://third.example/"))
    assert told
    assert await drained(outbox) == [1, 2]


async def test_a_retried_notification_does_not_overtake_one_in_delivery() -> None:
    configs = MemoryPushConfigStore()
    outbox = MemoryOutbox(configs)
    await configs.put(HERE, config(URL))
    for number in (1, 2, 3):
        outbox.deliver(HERE, "t", number, event(number))
    (first,) = await due(outbox)
    await outbox.dead(first, "HTTP 410")
    (second,) = await due(outbox)
    assert await outbox.retry([first.number]) == 1
    assert await due(outbox) == []
    await outbox.sent([second])
    assert await drained(outbox) == [1, 3]
