"""The parts of StoreContract about sent messages and push notifications."""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Registered, Scope, Sent, Store
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.store_opening import OpensStores
from a2a_bridge.testing.store_scene import (
    COMPLETED,
    ELSEWHERE,
    HERE,
    ODD,
    Author,
    reserve,
)


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
