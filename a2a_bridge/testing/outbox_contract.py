"""OutboxContract: what the delivery worker needs of a store's push configs and outbox. Subclass it, or
DurableOutboxContract, which includes it, with `opened`; the name of the subclass starts with `Test`.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Delivery, Registered
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.store_scene import COMPLETED, ELSEWHERE, HERE, ODD, PATIENCE, Author, OpensStores

#: longer than any test runs
_LATER = 3600.0
#: capacity of a receiver in these tests
_ROOM = 10


def build_registered(
    config_id: str = "p", task_id: str = "t", host: str = "hook", version: str = ""
) -> Registered:
    """A config of a task."""
    url = f"https://{host}.example/{config_id}"
    config = hub.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url)
    config.token = f"known to {host}"
    config.authentication.scheme, config.authentication.credentials = "Bearer", "secret"
    return Registered(config, version, "said beside" if version else "")


async def due(store: Store, limit: int = 100, *, busy: str = "") -> list[Delivery]:
    """Due notifications. busy: a host without capacity."""
    async with asyncio.timeout(PATIENCE):
        return await store.outbox.due(limit, lambda target: 0 if busy and busy in target else _ROOM)


async def write_task(store: Store, *texts: str, task_id: str = "t", scope: Scope = HERE) -> Author:
    """A task with one chunk per text, all of it in the outbox."""
    author = Author(store, scope, push=True).begin(task_id)
    for text in texts:
        author.chunk(text)
    return await author.sync()


async def take_first(store: Store, *texts: str) -> tuple[Author, Delivery]:
    """A task with a config and one chunk per text, and the notification of its first event."""
    await store.push_configs.put(HERE, build_registered())
    author = await write_task(store, *texts)
    (delivery,) = await due(store)
    return author, delivery


def summaries(deliveries: list[Delivery]) -> list[tuple[str, str, int]]:
    """Deliveries in short form."""
    return sorted((one.task_id, one.registered.config.id, one.sequence) for one in deliveries)


class OutboxContract(OpensStores):
    """Configs, queues, targets, dead letters."""

    # ------------------------------------------------------------------ configs

    async def test_configs_come_back_whole_and_in_order(self, store: Store) -> None:
        given = [
            build_registered("c", version="0.3"),
            build_registered("a"),
            build_registered("b", version="0.2.5"),
        ]
        for one in given:
            await store.push_configs.put(HERE, one)
        assert await store.push_configs.list(HERE, "t") == given
        assert await store.push_configs.get(HERE, "t", "a") == given[1]
        assert await store.push_configs.get(HERE, "t", "x") is None
        assert await store.push_configs.list(HERE, "u") == []
        changed = build_registered("c", host="other")
        await store.push_configs.put(HERE, changed)
        assert await store.push_configs.list(HERE, "t") == [changed, *given[1:]]
        await store.push_configs.put(HERE, given[0], replace=False)
        await store.push_configs.put(HERE, build_registered("d"), replace=False)
        assert await store.push_configs.list(HERE, "t") == [changed, *given[1:], build_registered("d")]

    async def test_configs_of_others_are_not_there(self, store: Store) -> None:
        await store.push_configs.put(HERE, build_registered())
        for scope in ELSEWHERE:
            assert await store.push_configs.list(scope, "t") == []
            assert await store.push_configs.get(scope, "t", "p") is None
            await store.push_configs.delete(scope, "t", "p")
        assert await store.push_configs.get(HERE, "t", "p") is not None

    @pytest.mark.parametrize("name", ODD)
    async def test_any_name_will_do(self, store: Store, name: str) -> None:
        scope = Scope(name, name)
        given = [build_registered(f"{name}{number}") for number in range(2)]
        for one in given:
            await store.push_configs.put(scope, one)
        assert await store.push_configs.list(scope, "t") == given
        assert await store.push_configs.get(scope, "t", f"{name}1") == given[1]
        assert await store.push_configs.get(scope, name, name) is None
        assert await store.push_configs.list(scope, name) == []
        await store.push_configs.delete(scope, "t", f"{name}1")
        await store.push_configs.delete(scope, name, name)
        await write_task(store, "x", scope=scope)
        (delivery,) = await due(store)
        assert (delivery.scope, delivery.registered) == (scope, given[0])
        await store.outbox.again(delivery, "HTTP 500", 0)
        (delivery,) = await due(store)
        await store.outbox.dead(delivery, "HTTP 410")
        (following,) = await due(store)
        await store.outbox.sent([following])
        (letter,) = await store.outbox.entries()
        assert (letter.scope, letter.task_id, letter.config_id) == (scope, "t", f"{name}0")
        # Also if the task is not in this store.
        posted = build_registered(name, task_id=name)
        await store.outbox.post(scope, posted, hub.StreamResponse(task=hub.Task(id=name)))
        (delivery,) = await due(store)
        assert (delivery.scope, delivery.task_id, delivery.registered) == (scope, name, posted)
        await store.outbox.sent([delivery])
        assert await due(store) == []

    async def test_a_task_has_so_many_configs_and_no_more(self, store: Store) -> None:
        for number in range(100):
            await store.push_configs.put(HERE, build_registered(f"p{number}"))
        with pytest.raises(A2AError) as caught:
            await store.push_configs.put(HERE, build_registered("one more"))
        assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
        await store.push_configs.put(HERE, build_registered("p5", host="other"))

    # ------------------------------------------------------------------ queues

    async def test_events_go_to_every_config_one_at_a_time_and_in_order(self, store: Store) -> None:
        for name in "ab":
            await store.push_configs.put(HERE, build_registered(name, version="0.3" if name == "b" else ""))
        author = await write_task(store, "x")
        first = await due(store)
        assert summaries(first) == [("t", "a", 1), ("t", "b", 1)]
        assert await due(store) == []
        one = next(one for one in first if one.registered.config.id == "b")
        assert one.registered == build_registered("b", version="0.3")
        assert (one.scope, one.attempts) == (HERE, 0)
        assert one.event.task.id == author.task.id
        assert len({delivery.webhook_id for delivery in first}) == 2
        await store.outbox.sent([one])
        (second,) = await due(store)
        assert (second.registered.config.id, second.sequence) == ("b", 2)
        assert second.event.artifact_update.artifact.parts[0].text == "x"
        await store.outbox.sent([second, *(other for other in first if other is not one)])
        assert summaries(await due(store)) == [("t", "a", 2)]

    async def test_events_without_a_config_are_not_kept(self, store: Store) -> None:
        await store.push_configs.put(HERE, build_registered(task_id="other"))
        await write_task(store, "x", "y")
        assert await due(store) == []
        assert await store.outbox.entries() == []

    async def test_a_later_config_gets_later_events(self, store: Store) -> None:
        author = await write_task(store, "x")
        await store.push_configs.put(HERE, build_registered())
        author.status(COMPLETED)
        await author.sync()
        assert summaries(await due(store)) == [("t", "p", 3)]

    async def test_new_notifications_are_announced(self, store: Store) -> None:
        come = asyncio.Event()
        store.outbox.on_new(come.set)
        await store.push_configs.put(HERE, build_registered())
        await write_task(store)
        async with asyncio.timeout(PATIENCE):
            await come.wait()
        assert summaries(await due(store)) == [("t", "p", 1)]

    async def test_a_failed_notification_and_its_successors_are_due_later(self, store: Store) -> None:
        _, delivery = await take_first(store, "x")
        await store.outbox.again(delivery, "HTTP 500", _LATER)
        assert await due(store) == []
        wait = await store.outbox.wait()
        assert wait is not None
        assert 0 <= wait <= _LATER
        (letter, behind) = await store.outbox.entries()
        assert (letter.number, letter.attempts, letter.error, letter.dead) == (
            delivery.number,
            1,
            "HTTP 500",
            False,
        )
        assert (letter.scope, letter.task_id, letter.config_id) == (HERE, "t", "p")
        assert behind.attempts == 0

    async def test_a_failed_notification_is_unchanged_next_time(self, store: Store) -> None:
        _, delivery = await take_first(store, "x")
        await store.outbox.again(delivery, "HTTP 500", 0)
        (again,) = await due(store)
        assert again._replace(attempts=0) == delivery
        assert again.attempts == 1

    async def test_a_deleted_config_takes_its_mail_along(self, store: Store) -> None:
        for name in "ab":
            await store.push_configs.put(HERE, build_registered(name))
        await write_task(store, "x")
        await store.push_configs.delete(HERE, "t", "a")
        deliveries = await due(store)
        assert summaries(deliveries) == [("t", "b", 1)]
        await store.push_configs.delete(HERE, "t", "b")
        await store.outbox.sent(deliveries)
        assert await due(store) == []
        assert await store.outbox.entries() == []

    async def test_a_config_with_another_url_gets_its_mail_there(self, store: Store) -> None:
        _, delivery = await take_first(store, "x")
        await store.push_configs.put(HERE, build_registered(host="other"))
        await store.outbox.again(delivery, "HTTP 500", 0)
        found = await due(store) or await due(store)
        assert [one.registered.config.url for one in found] == ["https://other.example/p"]

    async def test_a_config_with_another_url_does_not_wait_for_the_old_one(self, store: Store) -> None:
        await store.push_configs.put(HERE, build_registered())
        await write_task(store)
        assert await due(store, busy="hook") == []
        await store.push_configs.put(HERE, build_registered(host="other"))
        (delivery,) = await due(store, busy="hook")
        assert delivery.registered == build_registered(host="other")

    async def test_the_delay_of_a_target_ends_with_the_target(self, store: Store) -> None:
        """Also if the config gets another URL while a notification is being sent to the old URL."""
        _, delivery = await take_first(store)
        await store.push_configs.put(HERE, build_registered(host="other"))
        await store.outbox.again(delivery, "HTTP 500", _LATER)
        (delivery,) = await due(store)
        assert delivery.registered == build_registered(host="other")

    async def test_a_config_that_was_deleted_leaves_no_delay(self, store: Store) -> None:
        author, delivery = await take_first(store)
        await store.outbox.again(delivery, "HTTP 500", _LATER)
        await store.push_configs.delete(HERE, "t", "p")
        await store.push_configs.put(HERE, build_registered())
        author.chunk("x")
        await author.sync()
        assert summaries(await due(store)) == [("t", "p", 2)]

    async def test_a_result_for_a_config_that_was_registered_anew(self, store: Store) -> None:
        """It does not give the notification of the new one out twice."""
        await store.push_configs.put(HERE, build_registered())
        author = await write_task(store)
        before = await due(store)
        await store.push_configs.delete(HERE, "t", "p")
        await store.push_configs.put(HERE, build_registered())
        author.chunk("x")
        await author.sync()
        deliveries = await due(store)
        await store.outbox.sent(before)
        deliveries += await due(store)
        assert summaries(deliveries) == [("t", "p", 2)]
        await store.outbox.sent(deliveries)
        assert await due(store) == []
        assert await store.outbox.entries() == []

    # ------------------------------------------------------------------ targets

    async def test_a_busy_target_does_not_delay_others(self, store: Store) -> None:
        for number in range(30):
            task_id = f"slow{number}"
            await store.push_configs.put(HERE, build_registered(task_id=task_id, host="slow"))
            await write_task(store, task_id=task_id)
        await store.push_configs.put(HERE, build_registered(task_id="quick", host="quick"))
        await write_task(store, task_id="quick")
        assert summaries(await due(store, 5, busy="slow")) == [("quick", "p", 1)]
        deliveries = await due(store)
        assert len(deliveries) == _ROOM
        assert {one.registered.config.url for one in deliveries} == {"https://slow.example/p"}

    async def test_targets_take_turns(self, store: Store) -> None:
        for host in ("a", "b"):
            for number in range(6):
                task_id = f"{host}{number}"
                await store.push_configs.put(HERE, build_registered(task_id=task_id, host=host))
                await write_task(store, task_id=task_id)
        deliveries = await due(store, 4)
        assert sorted(one.task_id[0] for one in deliveries) == ["a", "a", "b", "b"]

    # ------------------------------------------------------------------ dead letters

    async def test_a_dead_letter_is_kept_and_blocks_nothing(self, store: Store) -> None:
        _, delivery = await take_first(store, "x")
        await store.outbox.dead(delivery, "HTTP 410")
        (next_one,) = await due(store)
        assert next_one.sequence == 2
        (letter,) = await store.outbox.entries(dead=True)
        assert (letter.number, letter.dead, letter.error, letter.attempts, letter.sequence) == (
            delivery.number,
            True,
            "HTTP 410",
            1,
            1,
        )
        assert letter.url == "https://hook.example:443"  # without the path
        assert letter.created > 0
        assert [one.number for one in await store.outbox.entries(dead=False)] == [next_one.number]
        everything = await store.outbox.entries()
        assert [one.number for one in everything] == sorted([delivery.number, next_one.number])
        assert await store.outbox.entries(limit=1) == everything[:1]
        assert await store.outbox.entries(after=everything[0].number) == everything[1:]

    @pytest.mark.parametrize("named", [False, True])
    async def test_dead_letters_can_be_sent_again(self, store: Store, named: bool) -> None:
        _, delivery = await take_first(store)
        await store.outbox.dead(delivery, "HTTP 410")
        assert await due(store) == []
        assert await store.outbox.retry([delivery.number + 1]) == 0
        assert await store.outbox.retry([delivery.number] if named else None) == 1
        (again,) = await due(store)
        assert again == delivery
        assert await store.outbox.entries(dead=True) == []
        assert await store.outbox.retry(None) == 0
        await store.outbox.sent([again])
        assert await store.outbox.entries() == []

    async def test_a_dead_letter_that_is_sent_again_waits_for_no_later_one(self, store: Store) -> None:
        _, first = await take_first(store, "x")
        await store.outbox.dead(first, "HTTP 410")
        (second,) = await due(store)
        await store.outbox.again(second, "HTTP 500", _LATER)
        assert await store.outbox.retry([first.number]) == 1
        assert await due(store) == [first]
        # Nor while a later notification is being sent.
        await store.outbox.dead(first, "HTTP 410")
        assert summaries(await due(store)) == [("t", "p", 2)]
        assert await store.outbox.retry([first.number]) == 1
        assert await due(store) == []
        await store.outbox.sent([second])
        assert await due(store) == [first]

    # ------------------------------------------------------------------ events of tasks outside this store

    async def test_a_posted_notification_is_delivered_like_an_event(self, store: Store) -> None:
        event = hub.StreamResponse(task=hub.Task(id="theirs"))
        await store.outbox.post(HERE, build_registered(version="0.3"), event)
        await store.outbox.post(HERE, build_registered(version="0.3"), event)
        (delivery,) = await due(store)
        assert delivery.registered == build_registered(version="0.3")
        assert (delivery.event, delivery.sequence, delivery.scope) == (event, 0, HERE)
        await store.outbox.sent([delivery])
        (second,) = await due(store)
        assert second.webhook_id != delivery.webhook_id


class DurableOutboxContract(OutboxContract):
    """The guarantees of a durable store."""

    def survivor(self, store: Store) -> AbstractAsyncContextManager[Store]:
        """The same data opened by another process, after the process of `store` was killed at this moment."""
        raise NotImplementedError

    async def test_all_that_was_not_settled_survives(self, store: Store) -> None:
        for name in "abcd":
            await store.push_configs.put(HERE, build_registered(name, version="0.3"))
        await write_task(store)
        deliveries = {one.registered.config.id: one for one in await due(store)}
        await store.outbox.sent([deliveries["a"]])
        await store.outbox.again(deliveries["b"], "HTTP 500", 0)
        await store.outbox.dead(deliveries["d"], "HTTP 410")
        async with self.survivor(store) as other:
            found = await due(other)
            assert summaries(found) == [("t", "b", 1), ("t", "c", 1)]
            by_id = {one.registered.config.id: one for one in found}
            assert by_id["b"].attempts == 1
            assert by_id["c"] == deliveries["c"]
            assert [one.config_id for one in await other.outbox.entries(dead=True)] == ["d"]

    async def test_a_delay_survives_as_far_as_it_is_reasonable(self, store: Store) -> None:
        _, delivery = await take_first(store)
        await store.outbox.again(delivery, "HTTP 500", 10 * 365 * 24 * _LATER)  # after a clock jump
        async with self.survivor(store) as other:
            assert await due(other) == []
            assert len(await other.outbox.entries()) == 1
