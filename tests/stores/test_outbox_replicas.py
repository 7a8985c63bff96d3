"""Two replicas on one PostgreSQL deliver everything, once, in order, and for each other."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest

from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.stores import open_store
from a2a_bridge.stores.sql import push, push_configs
from a2a_bridge.stores.sql.push import SqlOutbox
from a2a_bridge.stores.sql.push_configs import LATER, SOON
from a2a_bridge.testing.store_scene import HERE, PATIENCE
from tests.patience import until
from tests.push.delivery_scene import Posted, author, config, delivering, receiving
from tests.push.test_fair_queue import Clock

TASKS = [f"t{number}" for number in range(12)]


@asynccontextmanager
async def replicas(url: str, count: int) -> AsyncIterator[list[Any]]:
    """Stores on one database, each with a delivery worker."""
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(count):
            store = await stack.enter_async_context(open_store(url))
            await stack.enter_async_context(delivering(store))
            stores.append(store)
        yield stores


def texts(posted: list[Posted], task_id: str) -> list[str]:
    return [
        one.tree["artifactUpdate"]["artifact"]["parts"][0]["text"]
        for one in posted
        if "artifactUpdate" in one.tree and one.tree["artifactUpdate"]["taskId"] == task_id
    ]


async def test_two_replicas_send_everything_once_and_in_order(postgres_url: str) -> None:
    async with receiving() as receiver, replicas(postgres_url, 2) as stores:
        writers = []
        for number, task_id in enumerate(TASKS):
            # A config that was registered on one may be used by the other.
            await stores[number // 2 % 2].push_configs.put(HERE, config(receiver.url, task_id=task_id))
            writers.append(await author(stores[number % 2], task_id))
        for text in range(10):
            for writer in writers:
                writer.chunk(str(text))
            await asyncio.gather(*(writer.sync() for writer in writers))
        posted = await receiver.arrived(11 * len(TASKS))
        for task_id in TASKS:
            assert texts(posted, task_id) == [str(text) for text in range(10)]
        assert set(Counter(one.headers["webhook-id"] for one in receiver.posted).values()) == {1}

        async def nothing_waits() -> bool:
            return not await stores[0].outbox.entries()

        await until(nothing_waits)
        with psycopg.connect(postgres_url) as connection:
            held = connection.execute("SELECT holder, count(*) FROM push_configs GROUP BY holder").fetchall()
        assert held == [("", len(TASKS))]


async def test_claims_of_a_dead_replica_are_sent_by_another(postgres_url: str) -> None:
    async with receiving() as receiver, open_store(postgres_url) as first:
        one: Any = first
        for task_id in TASKS:
            await first.push_configs.put(HERE, config(receiver.url, task_id=task_id))
            (await author(first, task_id)).chunk("x")
        claimed = await first.outbox.due(100, lambda _: 5)
        assert len(claimed) == 5
        async with open_store(postgres_url) as second, delivering(second):
            left = {task_id for task_id in TASKS if task_id not in {delivery.task_id for delivery in claimed}}
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("DELETE FROM replicas WHERE id = %s", [one._beside.me])
            posted = await receiver.arrived(2 * len(TASKS))
            assert left
            for task_id in TASKS:
                assert texts(posted, task_id) == ["x"]


async def test_the_death_of_a_replica_is_announced(postgres_url: str) -> None:
    """Its claims are not found by the next look alone, which may be seconds later."""
    options = StoreOptions(lease=1)
    async with open_store(postgres_url, options) as first, open_store(postgres_url, options) as second:
        one: Any = first
        await first.push_configs.put(HERE, config("https://hook.example"))
        await author(first)
        assert len(await first.outbox.due(1, lambda _: 1)) == 1
        assert await second.outbox.due(1, lambda _: 1) == []
        told = asyncio.Event()
        second.outbox.on_new(told.set)
        await one._beside.close()
        async with asyncio.timeout(PATIENCE):
            await told.wait()
        assert len(await second.outbox.due(1, lambda _: 1)) == 1


async def test_a_config_that_is_deleted_while_it_gets_a_notification_leaves_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica deletes it after the writer has read the configs of its task."""
    row = push._row

    def deleting(*given: Any) -> Any:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM push_configs")
            connection.execute("DELETE FROM outbox")
        return row(*given)

    clock = Clock()
    async with open_store(postgres_url) as store:
        one: Any = store
        outbox = SqlOutbox(one._database, one.write, one.me, now=clock)
        await store.push_configs.put(HERE, config("https://hook.example"))
        with monkeypatch.context() as patching:
            patching.setattr(push, "_row", deleting)
            await author(store)
        await store.push_configs.put(HERE, config("https://hook.example", task_id="u"))
        await author(store, "u")
        (delivery,) = await outbox.due(1, lambda _: 1)
        assert delivery.task_id == "u"
        assert (await outbox.backlog()).pending == 1


#: what another replica writes when it adds a notification for a config that has a holder
ADDED = """
    INSERT INTO outbox (task, config, sequence, event, due, created, webhook)
    SELECT task, id, 2, '', 0, 0, 'w' FROM push_configs WHERE id = 'p'
"""


@pytest.mark.parametrize("when", ["claimed", "given out", "sent"])
async def test_a_notification_that_is_added_during_a_release_is_found_at_once(
    postgres_url: str, when: str
) -> None:
    """The release does not see it, and its own transaction still saw a holder."""
    clock = Clock()
    async with open_store(postgres_url) as store:
        one: Any = store
        outbox = SqlOutbox(one._database, one.write, one.me, now=clock)
        await store.push_configs.put(HERE, config("https://hook.example"))
        await author(store)
        deliveries = [] if when == "claimed" else await outbox.due(1, lambda _: 1)
        if when == "given out":
            await outbox.again(deliveries.pop(), "HTTP 500", 0)
        with psycopg.connect(postgres_url) as adding:
            if not deliveries:
                adding.execute("DELETE FROM outbox")
                adding.commit()
            adding.execute(ADDED)
            if deliveries:
                await outbox.sent(deliveries)
            assert await outbox.due(1, lambda _: 1) == []
            adding.commit()
        assert await outbox.wait() == SOON
        clock.time += SOON
        (delivery,) = await outbox.due(1, lambda _: 1)
        assert delivery.sequence == 2


async def test_a_long_transaction_is_waited_for(postgres_url: str) -> None:
    clock = Clock()
    async with open_store(postgres_url) as store:
        one: Any = store
        outbox = SqlOutbox(one._database, one.write, one.me, now=clock)
        await store.push_configs.put(HERE, config("https://hook.example"))
        await author(store)
        with psycopg.connect(postgres_url) as adding:
            adding.execute(ADDED)
            await outbox.sent(await outbox.due(1, lambda _: 1))
            for seconds in (0, SOON):
                clock.time += seconds
                assert await outbox.due(1, lambda _: 1) == []
            adding.commit()
        clock.time += LATER
        (delivery,) = await outbox.due(1, lambda _: 1)
        assert delivery.sequence == 2


async def test_releases_are_looked_at_however_many(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_configs, "MOST", 1)
    clock = Clock()
    async with open_store(postgres_url) as store:
        one: Any = store
        outbox = SqlOutbox(one._database, one.write, one.me, now=clock)
        for name in "opq":
            await store.push_configs.put(HERE, config("https://hook.example", name))
        await author(store)
        with psycopg.connect(postgres_url) as adding:
            adding.execute(ADDED)
            await outbox.sent(await outbox.due(3, lambda _: 3))
            adding.commit()
        assert await outbox.due(1, lambda _: 1) == []
        clock.time += push.POLL
        (delivery,) = await outbox.due(1, lambda _: 1)
        assert (delivery.registered.config.id, delivery.sequence) == ("p", 2)


async def test_a_claim_leaves_out_what_another_one_is_just_claiming(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        for name in "pq":
            await store.push_configs.put(HERE, config("https://hook.example", name))
        await author(store)
        with psycopg.connect(postgres_url) as claiming:
            claiming.execute("SELECT 1 FROM push_configs WHERE id = 'p' FOR UPDATE")
            (delivery,) = await store.outbox.due(2, lambda _: 2)
            assert delivery.registered.config.id == "q"


async def test_a_new_url_that_another_replica_gets_ends_the_delay(postgres_url: str) -> None:
    async with open_store(postgres_url) as first, open_store(postgres_url) as second:
        await first.push_configs.put(HERE, config("https://old.example"))
        writer = await author(first)
        (delivery,) = await first.outbox.due(1, lambda _: 1)
        await first.outbox.again(delivery, "HTTP 500", 3600)
        # The same receiver stays protected.
        await second.push_configs.put(HERE, config("https://old.example/other"))
        assert await second.outbox.due(1, lambda _: 1) == []
        await second.push_configs.put(HERE, config("https://new.example"))
        (delivery,) = await second.outbox.due(1, lambda _: 1)
        assert delivery.registered == config("https://new.example")
        await second.outbox.sent([delivery])
        # The first one may deliver for it again, without the delay.
        writer.chunk("x")
        await writer.sync()
        (delivery,) = await first.outbox.due(1, lambda _: 1)
        assert delivery.sequence == 2
